"""What is made from stored pages after a crawl: exports, mirrors, link checks, monitoring."""
