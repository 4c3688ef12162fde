"""The pages of the dashboard, each in a module of its own."""

from webcrawl.web.pages import crawl, crawls, dead_letters, duplicates, hosts, job_records, url

PAGES = (crawls.page, job_records.page, crawl.page, hosts.page, url.page, dead_letters.page, duplicates.page)
"""In the order of the navigation."""
