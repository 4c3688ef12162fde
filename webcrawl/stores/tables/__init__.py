"""Tables that grow during a crawl: rows are written to a journal first, and journals become Parquet files."""
