"""What a watcher remembers of a crawl, so that no alarm is sent twice; another watcher continues with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from webcrawl.alarms.surge import Errors, Past

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """The fetches so far, since when their number has not changed, and whether there was an alarm about that."""

    fetched: int = 0
    since: float = 0.0
    notified: bool = False


@dataclass(frozen=True, slots=True)
class Growth:
    """A growing number: how much of it was in alarms, and since when there is more, or when the last alarm was."""

    notified: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Holding:
    """Since when workers hold, 0 if none does; and whether there was an alarm about that."""

    since: float = 0.0
    notified: bool = False


@dataclass(frozen=True, slots=True)
class WatcherState:
    """Times are as in `CrawlReading.now`.

    seen     the time of the last reading
    lost     worker that died -> the time of the first reading that had it; 0 once it was in an alarm
    stuck    kind -> stuck pages
    """

    seen: float = 0.0
    progress: FetchProgress = FetchProgress()
    errors: Errors = Errors()
    hosts: Growth = Growth()
    holding: Holding = Holding()
    stuck: Mapping[str, Growth] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)

    def encoded(self) -> str:
        """The state as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decoded(cls, text: str) -> WatcherState:
        """The state in JSON; a new one for a text that another version wrote, or that is damaged."""
        try:
            values = json.loads(text)
            errors = values["errors"]
            return cls(
                seen=float(values["seen"]),
                progress=_record(FetchProgress, values["progress"]),
                errors=Errors(
                    _record(Past, errors["past"]),
                    **{each.name: _like(each.default, errors[each.name]) for each in fields(Errors)[1:]},
                ),
                hosts=_record(Growth, values["hosts"]),
                holding=_record(Holding, values["holding"]),
                stuck={str(kind): _record(Growth, growth) for kind, growth in values["stuck"].items()},
                lost={str(worker): float(when) for worker, when in values["lost"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()


def _record(kind: type[T], values: Mapping[str, Any]) -> T:
    """A record of numbers; each has the type of its default."""
    numbers: Any = fields(kind)  # type: ignore[arg-type]
    return kind(**{each.name: _like(each.default, values[each.name]) for each in numbers})


def _like(default: Any, number: Any) -> Any:
    return type(default)(number)
