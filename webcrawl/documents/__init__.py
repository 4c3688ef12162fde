"""What a fetched body is: its bytes, type, tree, text and digests."""
