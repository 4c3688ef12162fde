"""Where pages end up: WARC files (warc.py, record.py, cdxj.py, coding.py) and rows in SQL (metadata.py)."""
