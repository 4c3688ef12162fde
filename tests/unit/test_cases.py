"""A test of a table names each case that fails."""

from __future__ import annotations

import pytest

from tests.cases import cases


def test_all_cases_are_tried_and_those_that_fail_are_named() -> None:
    tried = []

    @cases("number, even", [(1, True), (2, True), pytest.param(3, True)], ids=["a", "b", "c"])
    def check(number: int, even: bool) -> None:
        tried.append(number)
        assert (number % 2 == 0) is even

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases fail") as caught:
        check()
    assert tried == [1, 2, 3]
    assert [error.__notes__ for error in caught.value.exceptions] == [
        ["case a: number=1, even=True"],
        ["case c: number=3, even=True"],
    ]


def test_a_single_failure_is_the_error_itself() -> None:
    @cases("text", ["1", "x"])
    @cases("base", [10])
    def check(text: str, base: int) -> None:
        int(text, base)

    with pytest.raises(ValueError, match="invalid literal") as caught:
        check()
    assert caught.value.__notes__ == ["case base=10", "case text='x'"]


def test_a_table_without_cases_fails() -> None:
    @cases("text", [])
    def check(text: str) -> None: ...

    with pytest.raises(AssertionError, match="no case"):
        check()
