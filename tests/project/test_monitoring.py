"""The dashboard, the alerts and the documentation name the metrics that there are, and promtool accepts the rules."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from string import ascii_uppercase

import pytest
import yaml

from tests.crawls import CHECKOUT
from webcrawl.crawler.report import worker_metrics
from webcrawl.metrics.crawl import GAUGES
from webcrawl.metrics.families import CRAWL, WORKER, Family
from webcrawl.metrics.observations import STAGES
from webcrawl.metrics.totals import CAUSES, FAMILIES
from webcrawl.service.service_metrics import FAMILIES as OF_SERVICE, SERVICE
from webcrawl.service.tally import STAGES as OF_REQUEST

PROMETHEUS = CHECKOUT / "deploy" / "prometheus"
RULES = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())
TESTS = (PROMETHEUS / "alerts_test.yml").read_text()
DASHBOARD = json.loads((CHECKOUT / "deploy" / "grafana" / "webcrawl.json").read_text())
PAGE = (CHECKOUT / "docs" / "reference" / "metrics.md").read_text()
SCOPES = {
    CRAWL: [*GAUGES.values(), *FAMILIES[CRAWL]],
    WORKER: [
        *worker_metrics.GAUGES.values(),
        *FAMILIES[WORKER],
        worker_metrics.STAGE,
        worker_metrics.QUEUED,
        worker_metrics.STORE,
        worker_metrics.ROBOTS,
    ],
    SERVICE: [*OF_SERVICE],
}
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]


def expressions(what: object) -> Iterable[str]:
    """All queries in a dashboard or in rules."""
    if isinstance(what, dict):
        yield from (what[name] for name in ("expr", "definition") if name in what)
        what = list(what.values())
    if isinstance(what, list):
        for one in what:
            yield from expressions(one)


def series(family: Family) -> dict[str, set[str]]:
    """The names that a family has in PromQL, with their labels."""
    labels = {"crawl", "instance", *family.labels}
    if family.kind != "histogram":
        return {family.name: labels}
    return {f"{family.name}_{end}": labels | {"le"} for end in ("bucket", "sum", "count")}


KNOWN = {name: labels for group in SCOPES.values() for one in group for name, labels in series(one).items()}


@pytest.mark.parametrize("where", [DASHBOARD, RULES], ids=["dashboard", "alerts"])
def test_each_metric_that_is_named_exists_and_has_these_labels(where: object) -> None:
    found = list(expressions(where))
    named = {name for text in found for name in re.findall(r"\bwebcrawl_\w+", text)}
    assert named <= {*KNOWN} and len(named) > 10
    for text in found:
        for name, matchers in re.findall(r"\b(webcrawl_\w+)\{([^}]*)}", text):
            assert set(re.findall(r"(\w+)\s*=~?", matchers)) <= KNOWN[name]
        for group in re.findall(r"by \(([^)]*)\)", text):
            assert set(group.split(", ")) <= set.union(*(KNOWN[name] for name in KNOWN if name in text))


def test_the_dashboard_follows_the_model_of_grafana() -> None:
    panels = DASHBOARD["panels"]
    assert DASHBOARD["id"] is None and [panel["id"] for panel in panels] == sorted(
        {panel["id"] for panel in panels}
    )
    taken = Counter(place for panel in panels for place in places(**panel["gridPos"]))
    assert max(taken.values()) == 1 and max(x for x, _ in taken) < 24
    for panel in panels:
        letters = [target["refId"] for target in panel.get("targets", [])]
        assert letters == [*ascii_uppercase[: len(letters)]] and bool(letters) == (panel["type"] != "row")
        for target in panel.get("targets", []):
            assert (
                target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            )
            names = re.findall(r"\bwebcrawl_\w+", target["expr"])
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= set.union(
                *(KNOWN[name] for name in names)
            )


def places(h: int, w: int, x: int, y: int) -> Iterable[tuple[int, int]]:
    return itertools.product(range(x, x + w), range(y, y + h))


def test_each_alert_is_tested_and_says_what_to_do() -> None:
    for rule in ALERTS:
        assert {"summary", "description"} == set(rule["annotations"])
        assert f'alertname="{rule["alert"]}"' in TESTS or f"alertname: {rule['alert']}" in TESTS
        assert re.search(r"\$labels\.(crawl|instance)", rule["annotations"]["summary"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
@pytest.mark.parametrize(
    "words",
    [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")],
    ids=["config", "rules"],
)
def test_promtool_accepts_the_rules_and_their_tests(words: tuple[str, ...]) -> None:
    done = subprocess.run(["promtool", *words], cwd=PROMETHEUS, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("scope", SCOPES)
def test_the_documentation_lists_each_metric(scope: str) -> None:
    rows = [
        f"| `{one.name}` | {', '.join(f'`{name}`' for name in one.labels)} | {one.about} |"
        for one in SCOPES[scope]
    ]
    assert table("| metric |", after=f"<!-- {scope} -->") == rows


def test_the_documentation_lists_stages_and_causes() -> None:
    assert table("| stage |") == [f"| `{name}` | {about} |" for name, about in STAGES.items()]
    assert table("| stage of a request |") == [
        f"| `{name}` | {about} |" for name, about in OF_REQUEST.items()
    ]
    assert table("| cause |") == [f"| `{name}` | {about} |" for name, about in CAUSES.items()]


@pytest.mark.parametrize("begin", ["avg_over_time", r"histogram_quantile\(0.95, sum by \((?:crawl, )?le\)"])
def test_a_documented_query_is_that_of_the_dashboard_and_of_the_test(begin: str) -> None:
    (query,) = re.findall(rf"^{begin}.*$", PAGE, re.MULTILINE)
    (shown,) = [text for text in expressions(DASHBOARD) if re.match(begin, text)]
    assert re.sub(r'{crawl="\$crawl"}|crawl="\$crawl",', "", shown) == query.replace("(crawl, le)", "(le)")
    assert query in re.sub(r"\s+", " ", TESTS)


def table(head: str, after: str = "") -> list[str]:
    """The rows of a table in docs/reference/metrics.md."""
    rows = PAGE.partition(after)[2] if after else PAGE
    lines = rows[rows.index(head) :].split("\n\n", 1)[0].splitlines()
    return lines[2:]
