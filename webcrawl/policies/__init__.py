"""What a URL is worth: pure arithmetic, without clock, network or disk."""
