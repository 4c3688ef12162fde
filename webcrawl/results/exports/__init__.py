"""The rows of the metadata database as files for other programs: Parquet, JSON Lines, CSV (docs/exports.md)."""
