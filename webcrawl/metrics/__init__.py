"""Prometheus metrics: observations of a worker, figures of a whole crawl from the engine, and their exposition."""
