"""Tests on real servers; `tests.web` is the web that they crawl."""
