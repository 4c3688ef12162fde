"""The item of a crawl, the page, and its fetched body: bytes, MIME type, tree, text and digests."""
