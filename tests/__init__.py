"""Tests that run against real servers; `tests.web` serves the pages they crawl."""
