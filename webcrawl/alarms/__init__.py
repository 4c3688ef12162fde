"""Alarms: pages that got stuck, and notifications of what goes wrong in a crawl."""
