"""Full-text search: an index of the pages of crawls, queries, and copies of a text (docs/guide/search.md)."""
