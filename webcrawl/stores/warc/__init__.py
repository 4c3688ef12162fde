"""WARC files: records, files, their index (CDXJ), and WACZ packages of them."""
