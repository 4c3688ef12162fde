"""Settings for shared servers, which environment variables name. scrapyd uses these settings."""

import os

from settings.base import *

for _name in ("REDIS_URL", "STORE_URI", "METADATA_URI", "DATA_DIR", "USER_AGENT"):
    if _name in os.environ:
        globals()[_name] = os.environ[_name]

PROGRESS = "plain"
PROGRESS_INTERVAL = 60
LOG_LEVEL = "INFO"
