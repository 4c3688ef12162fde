"""WARC: records, files, their index (CDXJ), and WACZ packages."""
