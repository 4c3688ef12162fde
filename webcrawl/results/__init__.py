"""What is made of a crawl that is over: exports, mirrors, link checks, monitoring."""
