"""The state of a crawl's watcher, which prevents repeated alarms. Another watcher can continue with the state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from webcrawl.alarms.surge import Errors, Past

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """The number of fetches, the time of its last change, and whether an alarm has reported a standstill."""

    fetched: int = 0
    since: float = 0.0
    notified: bool = False


@dataclass(frozen=True, slots=True)
class Growth:
    """A growing number: the part reported by alarms, and the time since which there is more, or of the last alarm."""

    notified: int = 0
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Holding:
    """The time since which workers hold, 0 if no worker holds, and whether an alarm has reported it."""

    since: float = 0.0
    notified: bool = False


@dataclass(frozen=True, slots=True)
class WatcherState:
    """The state of a watcher. Times are as in `CrawlReading.now`.

    seen     the time of the last reading
    lost     the times of the first readings of dead workers, by worker; 0 after an alarm about the worker
    checkpoint    the failure of a checkpoint about which there was an alarm: since when it lasts; 0 without one
    stuck    numbers of stuck pages by kind
    """

    seen: float = 0.0
    progress: FetchProgress = FetchProgress()
    errors: Errors = Errors()
    hosts: Growth = Growth()
    holding: Holding = Holding()
    checkpoint: float = 0.0
    stuck: Mapping[str, Growth] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)

    def encoded(self) -> str:
        """Returns the state as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decoded(cls, text: str) -> WatcherState:
        """Returns the state in JSON; a new state for text that is damaged or from another version."""
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
                checkpoint=float(values["checkpoint"]),
                stuck={str(kind): _record(Growth, growth) for kind, growth in values["stuck"].items()},
                lost={str(worker): float(when) for worker, when in values["lost"].items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return cls()


def _record(kind: type[T], values: Mapping[str, Any]) -> T:
    """Returns a record of numbers with the types of their defaults."""
    numbers: Any = fields(kind)  # type: ignore[arg-type]
    return kind(**{each.name: _like(each.default, values[each.name]) for each in numbers})


def _like(default: Any, number: Any) -> Any:
    return type(default)(number)
