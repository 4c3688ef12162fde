"""Downloader and spider middlewares, one a file."""
