"""Each role has one component, and the declared reads of all components are combined."""

from __future__ import annotations

from typing import Any

import pytest
from scrapy import Request, Spider

from tests.cases import cases
from webcrawl.crawler.components import Components, FailureJudge, Pacer, Reads, ResourceRules
from webcrawl.errors import ConfigurationError


class Patient(Pacer):
    async def take_another_turn(self, request: Request) -> None:
        """Does not wait."""


class Both(Patient, FailureJudge):
    def judge(self, request: Request, error: Exception) -> Request | None:
        return request

    def replaced(self, request: Request) -> None:
        """Does nothing."""


def test_component_fills_every_role_it_subclasses() -> None:
    components, both = Components(), Both()
    components.register(both)
    assert components.get(Pacer) is components.get(FailureJudge) is both
    assert components.get(ResourceRules) is None


def test_second_component_for_a_role_is_rejected() -> None:
    components = Components()
    components.register(Patient())
    with pytest.raises(ConfigurationError, match="Patient and Both are both a Pacer"):
        components.register(Both())


class ReadsNothing(Spider):
    name = "nothing"
    reads = Reads.NOTHING


class ReadsTrees(Spider):
    name = "trees"
    reads = Reads.TREE


class Plain(Spider):
    name = "plain"


class Pipeline:
    def __init__(self, reads: Any = None) -> None:
        if reads is not None:
            self.reads = reads


@cases(
    ("spider", "pipelines", "tree", "facts", "simhash", "kept"),
    [
        (ReadsNothing, [], False, False, False, False),
        (ReadsNothing, [Pipeline()], False, False, False, False),
        (ReadsNothing, [Pipeline(Reads.FACTS), Pipeline(Reads.SIMHASH)], False, True, True, True),
        (ReadsNothing, [Pipeline(Reads.TREE | Reads.SIMHASH)], True, False, True, True),
        (ReadsTrees, [Pipeline(Reads.SIMHASH)], True, False, True, False),
        (Plain, [], True, False, False, False),
    ],
)
def test_reads_of_spider_and_pipelines_are_combined(
    spider: type[Spider], pipelines: list[Pipeline], tree: bool, facts: bool, simhash: bool, kept: bool
) -> None:
    components = Components()
    components.collect_reads(spider(), pipelines)
    found = (components.read_tree, components.read_facts, components.read_simhash, components.keep_trees)
    assert found == (tree, facts, simhash, kept)


def test_invalid_reads_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"Pipeline\.reads is 'tree'"):
        Components().collect_reads(ReadsNothing(), [Pipeline("tree")])


def test_removed_attribute_reads_trees_is_rejected() -> None:
    spider = Plain()
    spider.reads_trees = True
    with pytest.raises(ConfigurationError, match=r"Plain\.reads_trees .* reads = Reads\.TREE"):
        Components().collect_reads(spider, [])
