"""The pages of the dashboard, each in a module of its own."""

from webcrawl.web.pages import crawl, crawls

PAGES = (crawls.page, crawl.page)
"""In the order of the navigation."""
