"""Settings for one machine: the embedded engine and files in DATA_DIR. scrapy.cfg selects them by default."""

from settings.base import *
