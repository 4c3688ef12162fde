"""A full-text index of the pages of crawls, searches in it, and copies of a text (docs/search.md)."""
