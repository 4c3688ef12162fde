"""The commands that the project adds to `scrapy`; each module is one."""
