"""Sends what is in the outbox."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from webcrawl.alarms.outbox import Outbox
from webcrawl.alarms.targets import Targets

logger = logging.getLogger(__name__)


def utc_now() -> datetime:
    """The time by the clock of this machine."""
    return datetime.now(UTC)


def deliver(
    outbox: Outbox,
    targets: Targets,
    *,
    clock: Callable[[], datetime] = utc_now,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Sends each notice that is due to the targets that did not get it; returns how many targets got one.

    What fails is tried again later. Blocks; ends early once `is_over`. If the process dies after a target got a notice
    and before that is recorded, the target gets it twice. Raises what `Outbox` raises.
    """
    count, up = 0, set(targets.ids)
    # one at a time: a claim ends before a slow target has got many
    while up and not is_over() and (claimed := outbox.due(clock(), up, limit=1)):
        stored, errors = claimed[0], []
        for target in up.intersection(stored.targets or ()):
            if error := targets.send(target, stored.notice):
                errors.append(error)
                # the others would wait for its timeout too; they are still due next time
                up.discard(target)
            else:
                outbox.sent(stored.id, target, clock())
                count += 1
        if errors:
            reason = "; ".join(errors)
            logger.warning("A notification could not be sent, and is tried again later: %s", reason)
            outbox.failed(stored.id, reason, clock())
    return count
