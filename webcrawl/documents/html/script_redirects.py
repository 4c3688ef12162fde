"""Finds where a page goes by script that has next to nothing else, and the cookies that it sets on the way.

Such as `location.href = "/start"` and `document.cookie = "seen=1; path=/"`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from html import unescape
from itertools import islice

from selectolax.lexbor import LexborHTMLParser

from webcrawl.documents.document import Document
from webcrawl.documents.html.links import PageAddresses, refresh_address
from webcrawl.documents.html.text import visible_text
from webcrawl.errors import InvalidURL

_LARGEST = 32_768
"""Bytes of a page that is looked at."""
_MOST_TEXT = 400
"""Characters of text of such a page: "Redirecting..." or a request to switch on JavaScript."""
_MOST_LINKS = 3
_MOST_TARGETS = 4
"""A script may choose between pages for a few languages or screens."""

_WINDOW = r"(?<![\w$.])(?:(?:window|self|top|parent|document|globalThis|this)\s*\.\s*){0,2}"
_OBJECTS = rf"""(?:{_WINDOW}location|(?<![\w$.])window\s*\[\s*["']location["']\s*\])"""
_LITERAL = r"""(?:"(?:[^"\\\n]|\\[^\n])*+"|'(?:[^'\\\n]|\\[^\n])*+'|`(?:[^`\\\n$]|\\[^\n])*+`)"""
_TERM = rf"(?:{_LITERAL}|{_WINDOW}location\s*\.\s*(?:search|hash)\b|(?!location\b)[A-Za-z_$][\w$]*+(?!\s*\())"
_EXPRESSION = rf"(?P<expression>{_TERM}(?:\s*\+\s*{_TERM}){{0,5}}+)(?!\s*[+.\[?])"
_TARGET = re.compile(
    rf"(?:{_OBJECTS}\s*(?:(?:\.\s*(?:href|pathname)\s*)?=(?!=)|\.\s*(?:replace|assign)\s*\()"
    rf"|{_WINDOW}navigate\s*\(|{_WINDOW}open\s*\((?=[^()]*,\s*[\"']_(?:self|top|parent)[\"']))\s*{_EXPRESSION}"
)
_PART = re.compile(
    rf"(?P<literal>{_LITERAL})|(?P<own>location\s*\.\s*(?:search|hash))|(?P<name>[A-Za-z_$][\w$]*+)(?!\s*\.)"
)
_VARIABLE = re.compile(
    rf"(?<![\w$.])(?P<name>[A-Za-z_$][\w$]*+)\s*=(?!=)\s*(?P<value>{_LITERAL}(?=\s*(?:[;,\n]|\Z)))?"
)
_MOST_VARIABLES = 100
_HINT = re.compile(rb"location|navigate\s*\(|open\s*\(")
# What a page is read for without its tree.
_GOES = re.compile(r"(?i)refresh|location")
# These read each byte a few times at most, also of a page that opens thousands of comments, scripts or tags and closes
# none: as in browsers, what is not closed goes on to the end of the page.
_META = re.compile(r"<meta\s[^>]*+(?:>|\Z)", re.IGNORECASE)
_IS_REFRESH = re.compile(r"""http-equiv\s*+=\s*+["']?\s*+refresh\b""", re.IGNORECASE)
_CONTENT = re.compile(r"""\scontent\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]*))""", re.IGNORECASE)
_RELOAD = re.compile(rf"{_OBJECTS}\s*\.\s*reload\s*\(")
_LINK = re.compile(r"<a\s", re.IGNORECASE)
_ASSIGNS_COOKIE = re.compile(
    rf"""(?<![\w$.])(?:(?:window|self|top|parent|globalThis|this)\s*\.\s*){{0,2}}document\s*"""
    rf"""(?:\.\s*cookie|\[\s*["']cookie["']\s*\])\s*=(?!=)\s*"""
    rf"""(?P<value>{_LITERAL}(?:\s*\+\s*{_LITERAL}){{0,5}}+)(?=\s*(?:[;,)}}]|\Z)|[^\S\n]*\n\s*[A-Za-z_$])"""
)
_SETS = re.compile(r"""cookie["'\]\s]*+=(?!=)""")
_LITERALS = re.compile(_LITERAL)
_MOST_COOKIES = 50
"""As many as are read of a response's headers."""
_CONTROLS = "button, select, textarea, form, [onclick], input:not([type=hidden])"
_WAITS = re.compile(r"""onclick|["']click["']""")
"""What waits for a click, as for consent or an age: the page does not go on by itself."""
_MARKUP = re.compile(
    r"<(script|style|title)\b(?:.*?</\1\s*+>|.*)|<!---?>|<!--(?:.*?-->|.*)|<[^>]*+(?:>|\Z)|\s+",
    re.IGNORECASE | re.DOTALL,
)
# Other types are data, or templates.
_SCRIPT_TYPE = re.compile(
    r"(?:module|(?:text|application)/(?:x-)?(?:java|ecma|j|live)script.*)?", re.IGNORECASE
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_CONTROL_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_COMMENT = re.compile(r"/\*|(?:^|(?<=[\s;{}]))//[^\n]*")
"""The start of a comment up to its end, or a comment up to the end of its line."""


def script_redirects(document: Document, links: PageAddresses) -> list[str]:
    """Returns the normalised URLs to which a script of the page goes; none for a page with text or `links` of its own.

    Only addresses count that are literals, variables with one literal value, the page's own query, or sums of these.
    """
    if len(document) > _LARGEST or len(links.addresses) > _MOST_LINKS or not _HINT.search(document.body):
        return []
    addresses = _addresses(document.html, document.url)
    if not addresses or len(visible_text(document.html)) > _MOST_TEXT:
        return []
    base, targets = links.joined_base(document.url, document.encode), dict[str, None]()
    for address in addresses:
        with suppress(InvalidURL):
            if (target := base.resolve(address.partition("#")[0])) and target != document.url:
                targets[target] = None
    return list(targets)


def refreshes(markup: str) -> list[str]:
    """Returns the addresses to which a page of next to nothing else goes by itself; empty ones for the page itself.

    Reads the markup without parsing it: meta refresh, and scripts that reload the page or go elsewhere.
    """
    if len(markup) > _LARGEST or not _GOES.search(markup):
        return []
    if not _is_bare(markup):
        return []
    addresses = [
        refresh_address(unescape(content[1] or content[2] or content[3] or ""))
        for meta in _META.finditer(markup)
        if meta[0].endswith(">") and _IS_REFRESH.search(meta[0]) and (content := _CONTENT.search(meta[0]))
    ]
    code = _without_comments(markup)
    addresses += [""] if _RELOAD.search(code) else []
    values = _variables(code)
    targets = islice(_TARGET.finditer(code), _MOST_TARGETS)
    return addresses + [
        value for target in targets if (value := _value(target["expression"], values, "")) is not None
    ]


def script_cookies(markup: str) -> list[str]:
    """Returns the cookies that scripts of a page of next to nothing else set, as values of Set-Cookie, in their order.

    Only literals of ASCII count: never a computed value. A page that waits for a click sets none.
    """
    if len(markup) > _LARGEST or not _SETS.search(markup) or not _is_bare(markup):
        return []
    tree = LexborHTMLParser(markup)
    code = _code(tree)
    if tree.css_first(_CONTROLS) is not None or _WAITS.search(code):
        return []
    values = (
        "".join(_text(literal) for literal in _LITERALS.findall(match["value"]))
        for match in islice(_ASSIGNS_COOKIE.finditer(code), _MOST_COOKIES)
    )
    return [value for value in values if _is_cookie_of_a_script(value)]


def _is_cookie_of_a_script(value: str) -> bool:
    """Returns whether browsers take a cookie from a script: it has a name, no control characters, and no HttpOnly."""
    pair, *attributes = value.split(";")
    name, mark, _ = pair.partition("=")
    is_plain = value.isascii() and value.replace("\t", "").isprintable()
    is_hidden = any(part.partition("=")[0].strip().lower() == "httponly" for part in attributes)
    return bool(mark and name.strip()) and is_plain and not is_hidden


def _is_bare(markup: str) -> bool:
    return len(_LINK.findall(markup)) <= _MOST_LINKS and len(_MARKUP.sub("", markup)) <= _MOST_TEXT


def _code(tree: LexborHTMLParser) -> str:
    """Returns the scripts in a page, without comments."""
    scripts = [
        node.text() or ""
        for node in tree.css("script:not([src])")
        if _SCRIPT_TYPE.fullmatch((node.attributes.get("type") or "").strip())
    ]
    if tree.body is not None:
        scripts.append(tree.body.attributes.get("onload") or "")
    return _without_comments("\n".join(scripts))


def _addresses(tree: LexborHTMLParser, url: str) -> list[str]:
    code = _code(tree)
    matches = list(islice(_TARGET.finditer(code), _MOST_TARGETS))
    if not matches:
        return []
    values = _variables(code)
    _, mark, query = url.partition("?")
    addresses = (_value(match["expression"], values, mark + query) for match in matches)
    return [stripped for address in addresses if address and (stripped := address.strip())]


def _without_comments(code: str) -> str:
    """Returns code with a space for each comment; what looks like the start of a comment without end stays."""
    parts, kept, at, last = list[str](), 0, 0, code.rfind("*/")
    while comment := _COMMENT.search(code, at):
        at = comment.end()
        if comment[0] == "/*":
            if at > last:
                continue
            at = code.index("*/", at) + 2
        parts += code[kept : comment.start()], " "
        kept = at
    return "".join([*parts, code[kept:]])


def _variables(code: str) -> dict[str, str]:
    """Returns the variables that have a literal as their only value."""
    values: dict[str, str | None] = {}
    for match in islice(_VARIABLE.finditer(code), _MOST_VARIABLES):
        literal = match["value"]
        known = match["name"] in values
        values[match["name"]] = None if literal is None or known else _text(literal)
    return {name: value for name, value in values.items() if value is not None}


def _value(expression: str, values: dict[str, str], search: str) -> str | None:
    """Returns the text of an expression, or None if a part of it is unknown; `search`: the query of the page."""
    parts: list[str] = []
    for part in _PART.finditer(expression):
        if part["literal"] is not None:
            parts.append(_text(part["literal"]))
        elif part["own"] is not None:
            parts.append(search if part["own"].endswith("search") else "")
        elif (value := values.get(part["name"])) is not None:
            parts.append(value)
        else:
            return None
    return "".join(parts)


def _text(literal: str) -> str:
    return _ESCAPE.sub(_unescaped, literal[1:-1])


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    if code is None:
        return _CONTROL_ESCAPES.get(escape[4], escape[4])
    number = int(code, 16)
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""
