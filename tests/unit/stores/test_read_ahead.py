"""Records that lie near each other are read together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from webcrawl.errors import StoreError
from webcrawl.stores.read_ahead import MOST_BYTES, MOST_GAP, ReadAhead, spans
from webcrawl.stores.warc.files import WarcLocation

places = st.builds(
    WarcLocation,
    st.sampled_from(["a", "b"]),
    st.integers(0, 3 * MOST_BYTES),
    st.sampled_from([1, 100, MOST_GAP, MOST_BYTES, MOST_BYTES + 1]),
)


class Counted:
    """An archive in memory that counts reads; byte n of a file is n modulo 251."""

    def __init__(self, *damaged: WarcLocation) -> None:
        self.reads: list[WarcLocation] = []
        self._damaged = damaged

    def chunks(self, place: WarcLocation) -> Iterator[bytes]:
        self.reads.append(place)
        for bad in self._damaged:
            if place.file == bad.file and place.offset <= bad.offset < place.offset + place.length:
                raise StoreError(f"byte {bad.offset} is damaged")
        pattern = bytes(n % 251 for n in range(place.offset, place.offset + 251))
        yield (pattern * (place.length // 251 + 1))[: place.length]

    def read(self, place: WarcLocation) -> Any:
        raise NotImplementedError

    def files(self) -> Any:
        raise NotImplementedError


@given(st.lists(places, max_size=20))
def test_spans_are_bounded_and_apart(some: list[WarcLocation]) -> None:
    found = spans(some)
    assert found == sorted(found)
    for span in found:
        inside = [one for one in set(some) if one.file == span.file and span.offset <= one.offset]
        inside = [one for one in inside if one.offset + one.length <= span.offset + span.length]
        assert len(inside) > 1
        assert min(one.offset for one in inside) == span.offset
        assert (
            max(one.offset + one.length for one in inside)
            == span.offset + span.length
            <= span.offset + MOST_BYTES
        )


@given(st.lists(places, max_size=12), st.randoms(use_true_random=False))
def test_each_record_is_given_as_it_is_stored(some: list[WarcLocation], dice: Any) -> None:
    archive, plain = Counted(), Counted()
    ahead = ReadAhead(archive)
    ahead.expect(some)
    asked = [*some, *some]
    dice.shuffle(asked)
    for place in asked:
        assert b"".join(ahead.chunks(place)) == b"".join(plain.chunks(place))


def test_neighbours_take_one_read_and_a_damaged_one_is_told() -> None:
    near = [WarcLocation("a", 1_000 * number, 900) for number in range(50)]
    archive = Counted()
    ahead = ReadAhead(archive)
    ahead.expect(near)
    for place in near:
        b"".join(ahead.chunks(place))
    assert archive.reads == [WarcLocation("a", 0, 49_900)]
    broken = ReadAhead(Counted(near[7]))
    broken.expect(near)
    for place in near:
        if place == near[7]:
            with pytest.raises(StoreError, match="byte 7000 is damaged"):
                b"".join(broken.chunks(place))
        else:
            assert len(b"".join(broken.chunks(place))) == 900
