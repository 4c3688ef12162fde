"""The attributes from which scripts load images, backgrounds and frames when a reader scrolls to them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

LAZY_SOURCES = ("data-src", "data-lazy-src", "data-original")
"""The attributes that such a script copies to `src`, which has a placeholder or is absent until then."""
LAZY_SOURCE_SETS = ("data-srcset", "data-lazy-srcset")
"""The attributes that such a script copies to `srcset`."""

LAZY_BACKGROUNDS = ("data-bg", "data-background", "data-background-image")
"""The attributes that such a script copies to the style of any element; they hold an address or `url()`."""

# Other scripts keep a colour or the name of a theme in such an attribute.
_BACKGROUND = re.compile(r"(?i)\s*+(?:url\(|[^\s()]*/|[^\s()]+\.(?:avif|gif|jpe?g|png|svg|webp)\b)")
_FIRST_OF_A_SET = re.compile(r"[\s,]*+(\S*+)")
_LONGEST = 5_000


def image_addresses(attributes: Mapping[str, str | None]) -> Iterator[str]:
    """Yields the addresses of an image as written, the best first; a browser shows the first that it can load.

    Of a set of sources, yields the first. Skips patterns of addresses, such as "i_{width}.jpg".
    """
    for name in (*LAZY_SOURCES, "src", *LAZY_SOURCE_SETS, "srcset"):
        address = attributes.get(name)
        if address and not ("{" in address and name.startswith("data-")):
            if name.endswith("srcset"):
                match = _FIRST_OF_A_SET.match(address, 0, _LONGEST)
                address = match[1].rstrip(",") if match else ""
            yield address


def frame_address(attributes: Mapping[str, str | None]) -> str | None:
    """Returns the address that a script copies to the `src` of a frame as written, or None."""
    return next(
        (address for name in LAZY_SOURCES if (address := attributes.get(name)) and "{" not in address), None
    )


def is_background(value: str) -> bool:
    """Returns whether the value of one of `LAZY_BACKGROUNDS` is an address, not a colour or a pattern of addresses."""
    return "{" not in value and _BACKGROUND.match(value) is not None
