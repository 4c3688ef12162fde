"""A spider of an environment without the libraries of the extras for documents."""

import sys

from webcrawl.config.libraries import is_installed
from webcrawl.spiders.base import BroadSpider

for library in ("PIL", "pymediainfo", "olefile", "rarfile", "pycld2", "py3langid"):
    sys.modules[library] = None  # type: ignore[assignment]
is_installed.cache_clear()


class Bare(BroadSpider):
    name = "bare"
