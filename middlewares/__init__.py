"""The downloader and spider middlewares of this project, one per file, and short names for those of webcrawl."""
