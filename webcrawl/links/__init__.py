"""The link store: the links of every page in Parquet files, and queries over them (docs/guide/links.md)."""
