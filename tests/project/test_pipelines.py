"""Every registered MIME-type pipeline is declared correctly."""

from __future__ import annotations

import re

from scrapy.utils.misc import load_object

from tests.cases import cases
from tests.crawls import CHECKOUT
from webcrawl.config.libraries import named_object
from webcrawl.config.parts import ITEM_PIPELINES
from webcrawl.crawler.pages.mime_pipeline import MimePipeline

PIPELINES = {path: load_object(path) for path in ITEM_PIPELINES}
MIME_PIPELINES = [path for path, pipeline in PIPELINES.items() if issubclass(pipeline, MimePipeline)]


@cases("path", MIME_PIPELINES)
def test_a_pipeline_runs_between_checksum_and_language(path: str) -> None:
    assert ITEM_PIPELINES["webcrawl.pipelines.checksum.ChecksumPipeline"] < ITEM_PIPELINES[path], (
        "copies must be known before they are parsed"
    )
    assert ITEM_PIPELINES[path] < ITEM_PIPELINES["webcrawl.pipelines.language.LanguagePipeline"], (
        "the language is detected in the extracted text"
    )


@cases("path", MIME_PIPELINES)
def test_a_pipeline_names_a_reader_and_types(path: str) -> None:
    pipeline = PIPELINES[path]
    assert callable(named_object(pipeline.reader))
    types = {*pipeline.types, *pipeline.extensions.values(), *pipeline.signatures.values()}
    assert types or pipeline.takes is not MimePipeline.takes, "the pipeline accepts no page"
    assert [one for one in types if not re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", one)] == []


def test_the_table_of_types_links_to_registered_pipelines() -> None:
    text = (CHECKOUT / "docs" / "reference" / "mime-types.md").read_text()
    linked = set(re.findall(r"^\| \[[^\]]+\]\(\.\./\.\./webcrawl/pipelines/(\w+)\.py\)", text, re.MULTILINE))
    assert {"html", "pdf"} <= linked <= {path.split(".")[-2] for path in PIPELINES}
