"""Every known URL of a crawl, read and changed while its workers go on."""
