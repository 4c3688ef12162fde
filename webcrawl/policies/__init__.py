"""Decides what a URL is worth, and which URLs show the same page: pure arithmetic, without clock, network or disk."""
