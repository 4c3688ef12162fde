"""Settings of downloads: connections, sizes, headers, DNS, the browser."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Flag, Number, SizesByType, String, Whole
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

_MIB = 1024 * 1024

FETCHING = SettingGroup(
    "Fetch pages",
    Setting(
        "CONCURRENT_REQUESTS",
        64,
        "Simultaneous requests of one worker; 0 means no limit. Requests that wait for their host do not count; "
        "nor do slow ones (`CONCURRENT_SLOW_REQUESTS`). A worker leases four times as many hosts, at least "
        "256; more with a `DOWNLOAD_DELAY` above 1, and up to 5,000 while connections are free.",
        example=128,
    ),
    Setting(
        "CONCURRENT_SLOW_REQUESTS",
        None,
        "Requests of one worker that have taken more than 0.75 seconds and do not count for `CONCURRENT_REQUESTS`, "
        "so that servers which send little for a long time do not hold up others. Half of them may be to hosts "
        "that never answered or failed last, whose requests are slow after 0.1 seconds. `None` means 4,096, and at "
        "most half of the files that the process may open (`ulimit -Hn`, up to 65,536), if `CONCURRENT_REQUESTS` "
        "has its default. With another value it means 0: a limit that you set is exact.",
        values=Whole(),
        example=0,
    ),
    Setting(
        "BIND_ADDRESSES",
        [],
        "[Addresses of this machine](../guide/use-proxies.md#several-addresses-of-this-machine) from which requests "
        "are sent, IPv4 or IPv6, or `@FILE` with one on each line. A host sees one of each family, by a hash of its "
        "name. By default the system chooses.",
        example=["203.0.113.5", "203.0.113.6", "2001:db8::5"],
    ),
    Setting(
        "DOWNLOAD_TIMEOUT",
        60,
        "Seconds for one request and its response. After that the request is retried; at the last "
        "attempt, the part of the body that was received is kept. A host that never answered has 5 seconds to begin "
        "its answer, three times as long after each failure, and all the time at the last attempt.",
        values=Number(least=0.001),
        example=30,
    ),
    Setting(
        "DOWNLOAD_MAXSIZE",
        1024 * _MIB,
        "Bytes above which a response is refused and not stored; 0 means no limit. The limit applies to the "
        "`Content-Length`, the received body and the decoded body. `DOCUMENT_MAXSIZE` truncates instead.",
        example=100_000_000,
    ),
    Setting(
        "DOWNLOAD_WARNSIZE",
        0,
        "Size in bytes above which a response is logged as a warning; 0 means never.",
        example=10_000_000,
    ),
    Setting(
        "DOCUMENT_MAXSIZE",
        {
            "text/html": 8 * _MIB,
            "application/xhtml+xml": 8 * _MIB,
            "text/event-stream": _MIB,
            "multipart/x-mixed-replace": _MIB,
            "*/*": 32 * _MIB,
        },
        "Bytes after which a body is truncated, by MIME type; 0 means no limit. For `text/html` the entry "
        "`text/html` applies, else `text/*`, else `*/*`. Column `truncated` marks such pages. Streams of events and "
        "of pictures have no end, so only their beginning is kept.",
        values=SizesByType(),
        example={"text/html": 1_000_000, "video/*": 0, "*/*": 100_000_000},
    ),
    Setting(
        "DOWNLOAD_FAIL_ON_DATALOSS",
        False,
        "What happens to a response that is incomplete at the last attempt: `False` keeps the received "
        "part and marks it in column `truncated`, `True` counts it as a failure.",
    ),
    Setting(
        "DOWNLOAD_VERIFY_CERTIFICATES",
        True,
        "Requires valid certificates of TLS servers.",
    ),
    Setting(
        "COOKIES_ENABLED",
        None,
        "Whether cookies are kept and sent. `None` means that it depends on the spider. A Scrapy spider keeps "
        "the cookies of every request. A broad crawl visits millions of hosts, so it keeps only those of requests "
        "with `cookies`, or with `cookiejar` in `Request.meta`. Workers share the cookies, which survive a "
        "restart. See [Log in](../start/log-in.md). Where they are kept, a page that leads back to itself until it "
        "gets its cookie, by a redirect or a script, is fetched; elsewhere the row and the summary say that it wants "
        "cookies.",
        values=Flag(),
        example=True,
    ),
    Setting(
        "PROXIES",
        [],
        "HTTP and SOCKS proxies for all requests of http and https: URLs, or `@file` with a URL on each line. A proxy "
        "that fails is left out for a while. Politeness applies to the hosts, whichever proxy is used. See [Use "
        "proxies](../guide/use-proxies.md).",
        example=["http://user:password@proxy.example:3128", "http://proxy2.example:3128"],
    ),
    Setting(
        "PROXY_ROTATION",
        "host",
        'How a request gets its proxy: `"host"` keeps one proxy for each host and `cookiejar` while that proxy '
        'works; `"request"` takes the next proxy for each request.',
        values=Choice(("host", "request")),
        example="request",
    ),
    Setting(
        "PROXY_GUARDS_ADDRESSES",
        False,
        "Whether proxies refuse loopback, private and other inner addresses themselves. If so, names are sent to "
        "a proxy without being resolved here; names that only the proxy knows need this. Otherwise, each name "
        "is resolved and checked first.",
    ),
    Setting(
        "DEFAULT_REQUEST_HEADERS",
        {
            "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            "Accept-Encoding": "gzip, deflate",
        },
        "Headers of requests that do not set them. Bodies are archived as they were sent, so "
        "`Accept-Encoding` names only codings that every WARC reader can decode.",
        example={"Accept": "text/html", "Accept-Encoding": "gzip"},
    ),
    Setting(
        "DNS_SERVERS",
        [],
        'Resolvers as `"ip"`, `"ip:port"` or `"[ipv6]:port"`; an empty list means those of the machine. '
        "`/etc/hosts` takes precedence.",
        example=["127.0.0.1:5353"],
    ),
    Setting(
        "DNS_TIMEOUT",
        10,
        "Seconds for one DNS query.",
        values=Number(least=0.1),
        example=5,
    ),
    Setting(
        "DOWNLOAD_HANDLERS",
        IN_PARTS,
        "The download handler of each URL scheme; `None` turns a scheme off. Links with other schemes are "
        "not followed. See [Add a protocol](../howto/add-a-protocol.md), and [Use HTTP/2, or look like a "
        "browser](../guide/use-http-2-or-look-like-a-browser.md) for another handler of http and https.",
        example={"ftp": None},
        unset={},
    ),
)

RENDERING = SettingGroup(
    "Render pages in a browser",
    Setting(
        "RENDER",
        [],
        'Pages that a browser renders: hosts (`"example.org"` includes its subdomains, `"*.example.org"` '
        "means only those) and patterns of whole URLs, in which `*` matches anything. It needs `pip "
        "install scrapy-playwright` and a Chromium; see [Render pages](../guide/render-pages.md).",
        example=["app.example.org", "https://shop.example/*/product/*"],
    ),
    Setting(
        "RENDER_BROWSER",
        None,
        "The Chromium to run. `None` looks for `chromium-headless-shell`, `chromium` and Chrome on the "
        "`PATH`, then for what `playwright install chromium` installed.",
        values=String(),
        example="/usr/bin/chromium",
    ),
)
