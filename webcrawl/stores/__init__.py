"""Where pages go: WARC files, rows in SQL, the index of duplicates, the stream of finished pages, object stores."""
