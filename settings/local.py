"""One machine: the embedded engine, files in DATA_DIR. This is the default of scrapy.cfg."""

from settings.base import *
