"""Exports of the metadata database to Parquet, JSON Lines and CSV (docs/guide/exports.md)."""
