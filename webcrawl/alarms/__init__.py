"""Alarms: pages that got stuck, and notifications about problems of a crawl."""
