"""The link store: the links of every page as Parquet files, and questions about them (docs/links.md)."""
