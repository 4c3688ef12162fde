"""Item pipelines, one per file, which read, deduplicate and store the pages that spiders yield."""
