"""How a response becomes a stored page: spider output, items, MIME types, revisits."""
