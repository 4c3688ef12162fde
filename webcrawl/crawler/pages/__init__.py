"""Turns responses into stored pages: spider output, items, MIME types, revisits."""
