"""How XML that strangers wrote is parsed, wherever that is."""

from __future__ import annotations

HARMLESS = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}
"""Options of lxml's parsers: nothing is fetched, no entity replaced, and libxml2's limits of depth and size hold."""
