"""The stores of pages: WARC files, database rows, the index of duplicates, the stream of pages, object stores."""
