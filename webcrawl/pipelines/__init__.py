"""Item pipelines, one a file: they read, deduplicate and store the pages that spiders yield."""
