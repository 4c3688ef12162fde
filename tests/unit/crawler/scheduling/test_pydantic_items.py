"""Pydantic models in requests; skipped where pydantic is not installed."""

from __future__ import annotations

from typing import Any

import pytest

from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.errors import StoreError, Unserializable

pydantic = pytest.importorskip("pydantic")


class Price(pydantic.BaseModel):
    value: float
    unit: str = "EUR"


class Tea(pydantic.BaseModel):
    name: str = pydantic.Field(alias="title")
    prices: list[Price] = []
    anything: Any = None


def test_models_are_restored_without_validation() -> None:
    tea = Tea(title="green", prices=[Price(value=2)])
    tea.anything = {"a": (1, Price.model_construct(value="not a number"))}
    back = unpack(pack({"tea": [tea]}))["tea"][0]
    assert type(back) is Tea
    assert back == tea
    assert back.anything["a"][1].value == "not a number"


def test_a_field_that_the_model_lacks_names_the_class() -> None:
    data = pack(Price(value=1)).replace(b"unit", b"size")
    with pytest.raises(StoreError, match="Price cannot be restored: the class has no field 'size'"):
        unpack(data)


def test_an_object_in_a_model_is_named() -> None:
    with pytest.raises(Unserializable, match=r"meta\['tea'\]\.anything is a builtins\.object"):
        pack({"meta": {"tea": Tea(title="a", anything=object())}})
