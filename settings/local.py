"""This machine: the embedded engine and files in DATA_DIR. The default of scrapy.cfg."""

from settings.base import *
