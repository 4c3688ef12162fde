"""The links of a page with a great many of them, in few strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Self, overload

MANY_LINKS = 5_000
_A_PART = 500


class ManyLinks(Sequence[str]):
    """A sequence of URLs that takes a third of the memory of a list, and leaves no gaps in it when it is freed.

    parts   the URLs, joined by line feeds, 500 in each but the last; raises ValueError for other ones
    """

    __slots__ = ("__weakref__", "_length", "parts")

    def __init__(self, parts: list[str]) -> None:
        counts = [part.count("\n") + 1 for part in parts]
        if any(count != _A_PART for count in counts[:-1]) or any(count > _A_PART for count in counts[-1:]):
            raise ValueError("not the parts of many links")
        self.parts = parts
        self._length = sum(counts)

    @classmethod
    def of(cls, links: Iterable[str]) -> Self:
        remaining, parts = iter(links), list[str]()
        while part := list(islice(remaining, _A_PART)):
            parts.append("\n".join(part))
        return cls(parts)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step < 1:
                return list(self)[index]
            first = start // _A_PART
            near = chain.from_iterable(part.split("\n") for part in self.parts[first : -(-stop // _A_PART)])
            return list(islice(near, start - first * _A_PART, max(start, stop) - first * _A_PART, step))
        place = range(self._length)[index]
        return self.parts[place // _A_PART].split("\n")[place % _A_PART]

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(part.split("\n") for part in self.parts)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and not isinstance(other, str) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<ManyLinks {self._length}>"
