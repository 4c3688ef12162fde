"""Shared servers, named by the environment: what scrapyd runs."""

import os

from settings.base import *

REDIS_URL = os.environ.get("REDIS_URL")
STORE_URI = os.environ.get("STORE_URI")
METADATA_URI = os.environ.get("METADATA_URI")
DATA_DIR = os.environ.get("DATA_DIR", "data")
USER_AGENT = os.environ.get("USER_AGENT", USER_AGENT)
PROGRESS = "plain"
PROGRESS_INTERVAL = 60
LOG_LEVEL = "INFO"
