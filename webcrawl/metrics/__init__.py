"""Prometheus metrics: what a worker observes, what the engine tells of a whole crawl, and the text of both."""
