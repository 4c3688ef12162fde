"""Tables that grow while a crawl runs: rows are in a journal first, and become Parquet files."""
