"""Pydantic models in requests."""

from __future__ import annotations

from typing import Any

import pydantic
import pytest

from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.errors import StoreError, Unserializable


class Price(pydantic.BaseModel):
    value: float
    currency: str = "EUR"


class Tea(pydantic.BaseModel):
    name: str = pydantic.Field(alias="title")
    prices: list[Price] = []
    anything: Any = None


class Note(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow", frozen=True)
    text: str
    author: str = "unknown"
    _read: bool = False


def test_models_are_restored_without_validation() -> None:
    tea = Tea(title="green", prices=[Price(value=2)])
    tea.anything = {"a": (1, Price.model_construct(value="not a number"))}
    back = unpack(pack({"tea": [tea]}))["tea"][0]
    assert type(back) is Tea
    assert back == tea
    assert back.anything["a"][1].value == "not a number"
    assert back.model_fields_set == {"name", "prices", "anything"}


def test_further_fields_and_private_attributes_are_restored() -> None:
    note = Note(text="good", stars=5)
    note._read = True
    back = unpack(pack(note))
    assert back == note
    assert (back.model_extra, back._read, back.model_fields_set) == ({"stars": 5}, True, {"text", "stars"})


def test_a_field_that_the_model_lacks_names_the_class() -> None:
    data = pack(Price(value=1)).replace(b"currency", b"monetary")
    with pytest.raises(StoreError, match="Price cannot be restored: the class has no field 'monetary'"):
        unpack(data)


def test_an_object_in_a_model_is_named() -> None:
    with pytest.raises(Unserializable, match=r"meta\['tea'\]\.anything is a builtins\.object"):
        pack({"meta": {"tea": Tea(title="a", anything=object())}})
