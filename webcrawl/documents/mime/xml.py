"""How XML from the web is parsed everywhere in the project."""

from __future__ import annotations

SAFE_OPTIONS = {
    "resolve_entities": False,
    "no_network": True,
    "load_dtd": False,
    "huge_tree": False,
    "remove_comments": True,
    "remove_pis": True,
}
"""Options of lxml's parsers: fetch nothing, expand no entities, keep libxml2's limits of depth and size."""
