"""The pages of the dashboard, each in a module of its own."""

from webcrawl.web.pages import crawl, crawls, jobs

PAGES = (crawls.page, jobs.page, crawl.page)
"""In the order of the navigation."""
