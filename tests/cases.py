"""Tests of tables: all cases of a function in one test, because pytest takes 5 ms for each test beside its work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def cases(
    names: str | Sequence[str],
    rows: Iterable[Any],
    ids: Iterable[object] | Callable[[Any], object] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`pytest.mark.parametrize` for a function that leaves nothing behind: each case has the same fixtures.

    All cases are tried. A failure is the error of its case, with a note that names the case; several are a group.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = [_values(row, len(names)) for row in rows]
    labels = [None] * len(given) if ids is None or callable(ids) else list(ids)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            assert given, "there is no case"
            errors: list[BaseException] = []
            for values, label in zip(given, labels, strict=True):
                arguments = dict(zip(names, values, strict=True))
                try:
                    test(**fixtures, **arguments)
                except (Exception, pytest.fail.Exception) as error:
                    case = ", ".join(f"{name}={value!r:.300}" for name, value in arguments.items())
                    error.add_note(f"case {label}: {case}" if label is not None else f"case {case}")
                    errors.append(error)
            if len(errors) == 1:
                raise errors[0]
            if errors:
                raise BaseExceptionGroup(f"{len(errors)} of {len(given)} cases fail", errors)

        others = [value for name, value in signature.parameters.items() if name not in names]
        vars(run)["__signature__"] = signature.replace(parameters=others)
        return run

    return decorate


def _values(row: Any, count: int) -> Sequence[Any]:
    if isinstance(row, tuple) and hasattr(row, "values") and hasattr(row, "marks"):
        assert not row.marks, "a case has no marks"  # of pytest.param
        return row.values
    return (row,) if count == 1 else tuple(row)
