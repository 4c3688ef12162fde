"""What a body is (sniff.py) and one module a MIME type that reads facts out of it (html.py ...)."""
