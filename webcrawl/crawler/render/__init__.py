"""Pages rendered by a browser, whose own requests go through the address guard."""
