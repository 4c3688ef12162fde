"""The OpenAPI document describes what the service answers, and every generated request gets an answer it describes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from tests.service.served import Served
from webcrawl.service.fetch_pages import LONGEST_WAIT

if TYPE_CHECKING:
    import schemathesis
    from schemathesis import Case

FEW, MANY = 5, 200


@pytest.fixture(scope="module")
def schema(service: Served) -> Iterator[schemathesis.BaseSchema]:
    """The document of the service."""
    import schemathesis  # slow, and every process of tests imports this file

    yield schemathesis.openapi.from_url(f"{service.url}/openapi.json")


def check_all(schema: schemathesis.BaseSchema, service: Served, examples: int) -> None:
    import schemathesis
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path == "/v1/events":
            continue  # its answers do not end; test_events.py asks wrong questions
        cases = st.one_of(operation.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode)

        @settings(
            max_examples=examples,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases)
        def check(case: Case) -> None:
            for given_values in (case.body, case.query):
                if isinstance(given_values, dict) and is_long(given_values.get("wait")):
                    given_values["wait"] = 0
            if case.operation.label == "POST /v1/crawls" and isinstance(case.body, dict):
                case.body["spider"] = "none"  # no crawl starts
            response = case.call(base_url=service.url)
            assert response.status_code < 500, (response.status_code, response.content)
            # a schema cannot say which text is a URL
            case.validate_response(response, excluded_checks=[positive_data_acceptance])

        check()


def is_long(wait: object) -> bool:
    """Whether a valid request would wait."""
    return isinstance(wait, int | float) and not isinstance(wait, bool) and 0 < wait <= LONGEST_WAIT


def test_generated_requests_get_described_answers(schema: schemathesis.BaseSchema, service: Served) -> None:
    check_all(schema, service, FEW)


@pytest.mark.slow
def test_many_generated_requests_get_described_answers(
    schema: schemathesis.BaseSchema, service: Served
) -> None:
    check_all(schema, service, MANY)


def test_the_page_for_people_loads_nothing_and_links_what_exists(service: Served) -> None:
    answer = service.client.get("/")
    page, policy = answer.text, answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert not re.search(r"<(script|link|img|iframe)|(src|href)=\"(https?:|//)", page)
    names = set(re.findall(r'id="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= names
    problem = service.client.get("/nothing").json()["type"]
    assert problem.removeprefix("/#") in names


def test_a_service_without_its_role_or_method_says_so(service: Served) -> None:
    wrong = service.client.put("/v1/pages:read")
    assert wrong.status_code == 405 and wrong.json()["type"] == "/#problem-wrong-method"
    assert wrong.headers["allow"] == "POST"
