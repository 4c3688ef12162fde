"""Downloader and spider middlewares, one per file."""
