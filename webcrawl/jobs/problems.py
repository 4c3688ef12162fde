"""Collects the problems of a job, so that an operator sees all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from webcrawl.errors import WrongJob


class JobProblems:
    """A context that goes on after a wrong entry. At its end it raises the first WrongJob, whose `all` has them all."""

    def __init__(self) -> None:
        self._all: list[WrongJob] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, WrongJob):
            self._all += error.all
        elif error is not None:
            return
        if self._all:
            first, self._all[0].all = self._all[0], tuple(self._all)
            raise first

    @contextmanager
    def entry(self) -> Iterator[None]:
        """Keeps the problems of one entry."""
        try:
            yield
        except WrongJob as error:
            self._all += error.all
