"""What a fetched body is: its bytes, type, tree, text and digests; and the page, the item that has them."""
