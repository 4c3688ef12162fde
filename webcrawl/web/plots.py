"""Prepares the history of a crawl for the plots of a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, fields

from webcrawl.frontier.history import FigureSample

NAMES = tuple(field.name for field in fields(FigureSample))


def columns(samples: Sequence[FigureSample]) -> str:
    """Returns samples as JSON: a list for each figure, by name."""
    rows = [astuple(sample) for sample in samples]
    return json.dumps({name: [row[column] for row in rows] for column, name in enumerate(NAMES)})


def point(now: FigureSample) -> str:
    """Returns a sample as JSON."""
    return json.dumps(dict(zip(NAMES, astuple(now), strict=True)))
