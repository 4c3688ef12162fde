"""Writes docs/reference/settings.md from the declarations, for `make settings`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from textwrap import fill
from typing import Any

from webcrawl.config.declared import GROUPS
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

_WIDTH = 118
_BEGIN = """\
# Settings

{contents}
| [Scrapy's settings](#scrapys-settings) | settings that this project fixes, and settings with another meaning here |

Change a setting with `-s` for a single crawl, in `custom_settings` for a spider, or in
[`settings/base.py`](../../settings/base.py) for all crawls:

```sh
.venv/bin/scrapy crawl broad -a seeds=https://example.org/ -s DOWNLOAD_DELAY=2 -s DEPTH_LIMIT=3
make crawl SEEDS="https://example.org/" ARGS="-s DOWNLOAD_DELAY=2 -s DEPTH_LIMIT=3"
```

Entries of a list are separated by commas outside of brackets: `-s 'URL_DENY=/tag/,/page/[0-9]{{3,}}'` has two. Or the
list is JSON: `-s 'URL_DENY=["/tag/", "a,b"]'`. A dict is JSON.

A value that is not allowed ends `scrapy crawl` with exit status 2 and one line that names the setting.

Tables of components, such as `ITEM_PIPELINES`, add to what the project registers; `None` leaves a part out. So the
`custom_settings` of a spider need only its own components.

Two modules build on `base.py`. `settings.local` is the default: one machine, embedded engine. `settings.production` is
what scrapyd uses: it reads `REDIS_URL`, `STORE_URI`, `METADATA_URI`, `DATA_DIR` and `USER_AGENT` from the environment
and logs instead of showing a panel. `SCRAPY_PROJECT=production scrapy ...` selects it on a command line.

This page is written by `make settings` from the declarations in
[`webcrawl/config/declared`](../../webcrawl/config/declared).
"""
_END = """\
## Scrapy's settings

Scrapy's settings that have no heading above work as in Scrapy, except these:

| setting | here |
|---|---|
| `ADDONS` | names `webcrawl.addon.WebcrawlAddon`, which registers all that this page describes |
| `BOT_NAME`, `SPIDER_MODULES`, `NEWSPIDER_MODULE`, `COMMANDS_MODULE` | name the project, its spiders and commands |
| `DOWNLOADER`, `ITEM_PROCESSOR`, `LOG_FORMATTER` | are classes of this project that replace Scrapy's |
| `TWISTED_REACTOR_ENABLED`, `ASYNCIO_EVENT_LOOP` | uvloop, or [the reactor](../guide/run-from-a-script.md) |
| `WARN_ON_GENERATOR_RETURN_VALUE` | is off, because it costs time for each response |
| `ROBOTSTXT_USER_AGENT` | also applies to robots directives of pages |
| `FTP_USER`, `FTP_PASSWORD` | the login for all servers; user names in URLs are not sent |
| `RETRY_HTTP_CODES` | the statuses after which the frontier retries a URL |
| `REDIRECT_ENABLED`, `REDIRECT_MAX_TIMES` | each redirect goes through the frontier and gets its row |
| `CLOSESPIDER_TIMEOUT`, `--for` | a number of seconds, or `90s`, `2h`, `7d` |
| `CLOSESPIDER_PAGECOUNT` and similar | count the work of one worker |
| `FEEDS`, `-O` | pages are items too; with `scrapy workers` each worker writes its own file |
| `HTTPPROXY_ENABLED` | proxies of the environment, if `PROXIES` is empty; the address guard lets them through |
| `TELNETCONSOLE_ENABLED`, `REMOTE_CONTROL_ENABLED` | are off: nothing listens for commands |
| `REDIS_HOST`, `REDIS_PORT`, `REDIS_DB` | as in scrapy-redis: without `REDIS_URL`, one of them names the server |

Some settings have no effect; see [Settings without effect](scrapy-here.md#settings-without-effect).
"""


def page() -> str:
    """Returns the text of docs/reference/settings.md."""
    rows = [f"| [{group.title}](#{_anchor(group.title)}) | {_links(group)} |" for group in GROUPS]
    contents = "\n".join(["| task | settings |", "|---|---|", *rows])
    return "\n".join([_BEGIN.format(contents=contents), *(_group(group) for group in GROUPS), _END])


def _links(group: SettingGroup) -> str:
    return ", ".join(f"[`{setting.name}`](#{setting.name.lower()})" for setting in group.settings)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _group(group: SettingGroup) -> str:
    intro = f"{_wrapped(group.intro)}\n\n" if group.intro else ""
    return f"## {group.title}\n\n{intro}" + "\n".join("\n".join(_section(each)) for each in group.settings)


def _section(setting: Setting) -> Iterator[str]:
    """The lines of one setting, with an empty one at the end."""
    yield f"### `{setting.name}`"
    type_ = f"{setting.kind.type} or None" if setting.default is None else setting.kind.type
    if setting.default is IN_PARTS:
        yield f"Type `{type_}`, default in [`webcrawl/config/parts.py`](../../webcrawl/config/parts.py)."
    elif isinstance(setting.default, dict) and setting.default:
        yield f"Type `{type_}`. Default:\n"
        yield _assignment(setting.name, setting.default)
    else:
        yield f"Type `{type_}`, default `{_literal(setting.default)}`."
    yield f"\n{_wrapped(setting.about)}\n"
    yield _assignment(setting.name, setting.example)


def _assignment(name: str, value: Any) -> str:
    return f"```python\n{name} = {_literal(value)}\n```\n"


def _literal(value: Any) -> str:
    """Python source of a value."""
    match value:
        case bool() | float() | None:
            return repr(value)
        case int():
            return f"{value:_}" if value >= 10_000 else str(value)
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(map(_literal, value))}]"
        case tuple():
            return f"({', '.join(map(_literal, value))})"
    pairs = [f"{_literal(key)}: {_literal(each)}" for key, each in value.items()]
    line = f"{{{', '.join(pairs)}}}"
    return line if len(line) < _WIDTH - 30 else "{\n" + "".join(f"    {pair},\n" for pair in pairs) + "}"


def _wrapped(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    sys.stdout.write(page())
