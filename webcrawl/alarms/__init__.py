"""Alarms: stuck pages, and notifications about problems of a crawl."""
