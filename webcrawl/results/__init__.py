"""Results from stored pages after a crawl: exports, mirrors, link checks and monitoring."""
