"""TRAFFIC is checked when a crawl starts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scrapy.settings import Settings

from tests.cases import cases
from webcrawl.config import read
from webcrawl.config.frontier import FrontierConfig
from webcrawl.errors import ConfigurationError
from webcrawl.policies.traffic import CLASSES

TABLE = {"coverage-get": 3, "update-chk": 0.5, "own.example.org": {"coverage-get": 1}}


@pytest.mark.parametrize("value", [TABLE, json.dumps(TABLE)])
def test_parts_are_read_for_all_hosts_and_for_those_of_a_domain(value: Any) -> None:
    assert FrontierConfig.from_settings(Settings({"TRAFFIC": value}), "spider").traffic == TABLE


def test_each_class_may_have_a_share() -> None:
    assert read(Settings({"TRAFFIC": dict.fromkeys(CLASSES, 1)}), "TRAFFIC") == dict.fromkeys(CLASSES, 1.0)


@cases(
    ("value", "message"),
    [
        ({"coverage": 1}, "TRAFFIC, 'coverage' is not .*\"update-chk\""),
        ({"coverage-get": -1}, "TRAFFIC, 'coverage-get' must be a number of at least 0, not -1"),
        ({"coverage-get": "much"}, "TRAFFIC, 'coverage-get' must be a number"),
        ({"coverage-get": 0, "update-chk": 0}, "TRAFFIC, at least one share must be above 0"),
        ({"example.org": {"coverage-get": 1}}, "TRAFFIC, which has shares of domains only"),
        ({"coverage-get": 1, "example.org": {}}, "TRAFFIC, example.org: at least one share must be above 0"),
        ({"coverage-get": 1, "example.org": {"news": 1}}, "TRAFFIC, example.org: 'news' is not"),
        ({"coverage-get": 1, "https://example.org/": {"coverage-get": 1}}, "is not a domain"),
        ([1], "TRAFFIC must be a dict"),
    ],
)
def test_other_tables_stop_the_crawl(value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read(Settings({"TRAFFIC": value}), "TRAFFIC")
