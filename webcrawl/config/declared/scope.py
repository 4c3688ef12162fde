"""Settings that choose what is crawled, and how much."""

from __future__ import annotations

from webcrawl.config.kinds import Expressions, Whole, Words
from webcrawl.config.rules import LinkRulePairs
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

URLS = SettingGroup(
    "Choose what to crawl",
    Setting(
        "DEPTH_LIMIT",
        0,
        "Links more than this many steps away from a seed are not followed; 0 means no limit.",
        example=3,
    ),
    Setting(
        "URL_ALLOW",
        [],
        "Regular expressions, searched anywhere in a URL. If the list is not empty, a link must match one of "
        "them. A list may have thousands: a link is searched only for those that share four literal characters "
        "with it. Expressions with `|` outside of parentheses or with `(?i)` are searched for in every link.",
        values=Expressions(),
        example=["^https://example.org/docs/"],
    ),
    Setting(
        "URL_DENY",
        [],
        "Regular expressions; a link that matches one of them is not followed, even if `URL_ALLOW` "
        "matches too.",
        values=Expressions(),
        example=["/calendar/"],
    ),
    Setting(
        "URL_DENY_EXTENSIONS",
        [],
        "File name extensions of links that are not followed.",
        example=["zip", "iso", "mp4"],
    ),
    Setting(
        "ALLOWED_DOMAINS",
        [],
        "If the list is not empty, links must be in one of these domains, or in a domain under one, and within the "
        "scope of the crawl; `-a scope=web` leaves the choice to the list. An entry that begins with `@` names a "
        "file with one domain a line and `#` comments. A million domains take 8 MB. Seeds and what pages load are "
        "exempt.",
        example=["example.org", "@domains.txt"],
    ),
    Setting(
        "DENIED_DOMAINS",
        [],
        "Links to these domains, and to the domains under them, are not followed, even if `ALLOWED_DOMAINS` has "
        "them. Files as in `ALLOWED_DOMAINS`. What pages load is not fetched from there either.",
        example=["ads.example.com", "@blocked.txt"],
    ),
    Setting(
        "LINK_RULES",
        [],
        "Pairs of regular expressions (page, link), searched anywhere in URLs. On a page that matches the first, "
        "only links that match the second are followed; `None` follows none. If several pairs match a page, a link "
        "must match one of them. All links are followed on a page that matches no pair. See "
        "[Priorities](../guide/priorities.md#which-links-are-followed).",
        values=LinkRulePairs(),
        example=[("^https://news.example.org/[a-z]+/$", "/[0-9]{4}/[0-9]{2}/[0-9]+.html$")],
    ),
    Setting(
        "OFFSITE_HOPS",
        0,
        "The number of links in a row that are followed outside the scope of the crawl. With 1, the pages to which "
        "pages within the scope link are fetched too, but not their links, except links that lead back. A page "
        "that was reached by many such links is not fetched again when a shorter way to it is found.",
        values=Whole(most=255),
        example=1,
    ),
    Setting(
        "URLLENGTH_LIMIT",
        2083,
        "Longer URLs are not followed; 0 means no limit. If `METADATA_URI` is PostgreSQL, the value must be "
        "from 1 to 2600, because longer URLs do not fit into the primary keys.",
        example=500,
    ),
    Setting(
        "URL_MAX_PARAMETERS",
        20,
        "Links with more query parameters are not followed; 0 means no limit.",
        example=5,
    ),
    Setting(
        "URL_MAX_REPEATED_SEGMENTS",
        3,
        "Links whose path repeats the same segments this often in a row, as in `/a/b/a/b/a/b`, are not "
        "followed; 0 turns the check off.",
        values=Whole(least=2, or_zero=True),
        example=4,
    ),
    Setting(
        "URL_IGNORED_PARAMETERS",
        None,
        "Query and path parameters (`;jsessionid=1`) that are left out of the canonical URL, which is only "
        "used to compare URLs; a name may end in `*`. `None` means `TRACKING_PARAMETERS` of "
        "[`webcrawl/urls/canonical.py`](../../webcrawl/urls/canonical.py). URLs are fetched as they were "
        "found.",
        values=Words(),
        example=["utm_*", "sessionid"],
    ),
    Setting(
        "URL_FILTERS",
        IN_PARTS,
        "The filters that every link passes, in the order of their numbers; `None` leaves one out. The "
        "scope of the crawl is checked before them. See [Add a URL filter](../howto/add-a-url-filter.md).",
        example={"webcrawl.urls.filters.QueryFilter": None},
        unset={},
    ),
    Setting(
        "ALLOWED_NETWORKS",
        [],
        "Networks that may be crawled although they are not public. Other loopback, private, link-local "
        "and metadata addresses are refused when connecting, except those that a seed's host had when it was first "
        "resolved in the crawl.",
        example=["10.1.0.0/16"],
    ),
    Setting(
        "SITEMAPS_FROM_ROBOTS",
        False,
        "Follows the sitemaps that robots.txt names, like links of the host's start page.",
    ),
    Setting(
        "TEXT_LINKS",
        False,
        "Follows addresses that are written as text: in plain text, Markdown and CSV, and in HTML outside of "
        "links, scripts and styles. An address begins with `http://`, `https://`, `ftp://` or `www.`; "
        "[Links](mime-types.md#links) says where it ends.",
    ),
    Setting(
        "PATH_ASCENDING",
        False,
        "Follows the folders above each page that is found, within scope, filters and depth: for `/a/b/page` also "
        "`/a/b/`, `/a/` and `/`. Of a deeper path, the 20 folders nearest to the root are followed.",
    ),
    Setting(
        "PAGE_RESOURCES",
        False,
        "Whether `broad` also fetches what its pages load: style sheets and what those load, images, scripts, "
        "fonts, media, icons and frames, from any host, so that the archive can be replayed. They are counted "
        "as `resources`, not as pages, and their links are not followed; see [Archive](../guide/archive.md#replay). A "
        "worker takes about 1.4 times the memory, because it needs the trees of pages.",
    ),
    Setting(
        "FRAMES_STITCHED",
        False,
        "Fetches a frameset together with its frames on the same host, and counts their text as the text of "
        "the frameset. Otherwise a frame is a page like any other, and so are those beyond the first 20 of a page, "
        "in a frameset of more than 256 KiB, and on another host. A frame of more than 256 KiB keeps its text.",
    ),
    intro="`scrapy checkurl URL` shows the verdict of each filter on a URL.",
)

LIMITS = SettingGroup(
    "Limit a crawl",
    Setting(
        "CRAWL_MAX_PAGES",
        0,
        "The crawl ends after this many pages (responses with status 2xx) of all workers and runs; 0 "
        "means no limit. To continue such a crawl, raise the limit.",
        example=10_000,
    ),
    Setting(
        "CRAWL_MAX_BYTES",
        0,
        "The crawl ends when the responses of all workers have this many bytes; 0 means no limit. It is "
        "checked every two seconds.",
        example=10_000_000_000,
    ),
    Setting(
        "HOST_BUDGETS",
        True,
        "Gives each host name and registered domain a budget of pages, which grows with the number of other "
        "registered domains that link to it. Over its budget, a host is asked less often while others have better "
        "URLs; no URL is dropped. See [Budgets](../guide/priorities.md#budgets).",
    ),
    Setting(
        "HOST_MAX_PAGES",
        0,
        "Pages that the crawl takes from one host; 0 means no limit. Further URLs of the host stay "
        "queued; `scrapy host` gives one host another limit.",
        example=500,
    ),
    Setting(
        "HOST_MAX_BYTES",
        0,
        "Bytes of responses that the crawl takes from one host; 0 means no limit. The URLs that a worker "
        "has leased already are still fetched.",
        example=100_000_000,
    ),
)
