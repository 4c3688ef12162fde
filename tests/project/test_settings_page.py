"""docs/reference/settings.md matches the declarations: types, defaults, snippets and valid examples."""

from __future__ import annotations

import ast
import re

from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.project.documentation import (
    BLOCK,
    PROJECT,
    SETTINGS,
)
from webcrawl.config import DECLARED, parts
from webcrawl.config.page import page as settings_page
from webcrawl.config.setting import IN_PARTS

PAGE = CHECKOUT / "docs" / "reference" / "settings.md"
PARTS = {**parts.BASES, **parts.MERGED, **parts.VALUES}
FIXED = "## Scrapy's settings"

_SETTING = re.compile(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)


def settings_sections() -> dict[str, str]:
    """Returns setting -> the text below its heading in docs/reference/settings.md."""
    return dict(_SETTING.findall(PAGE.read_text()))


def test_the_settings_page_is_generated_from_the_declarations() -> None:
    assert PAGE.read_text() == settings_page(), "run `make settings`"


def test_settings_have_headings_in_the_order_of_the_declarations() -> None:
    assert list(settings_sections()) == list(DECLARED)
    fixed = set(re.findall(r"`(\w+)`", PAGE.read_text().partition(FIXED)[2]))
    assert set(DECLARED) <= set(SETTINGS) <= set(DECLARED) | fixed


@cases("name", DECLARED)
def test_the_stated_type_and_default_are_the_real_ones(name: str) -> None:
    section = settings_sections()[name]
    default = DECLARED[name].default
    real = PARTS[name] if default is IN_PARTS else default
    stated = re.match(
        r"Type `([^`]+)`(?:, default `([^`]+)`\.$|\. Default:$|, default in )", section, re.MULTILINE
    )
    assert stated, f"{name}: the first line must be: Type `...`, default `...`."
    types, inline = stated[1].split(" or "), stated[2]
    if inline is None and stated[0].endswith("Default:"):
        _, code = BLOCK.findall(section)[0]
        assert code.startswith(f"{name} = ")
        inline = code.partition(" = ")[2]
    if inline is None:
        assert DECLARED[name].default is IN_PARTS
    else:
        assert eval(inline, {"__builtins__": {}}) == real
    kind = "None" if real is None else type(real).__name__
    assert kind in types or (kind == "int" and "float" in types)


def test_snippets_are_short_and_assign_their_setting() -> None:
    for name, section in settings_sections().items():
        snippets = BLOCK.findall(section)
        assert snippets, name
        for place, (language, code) in enumerate(snippets):
            targets = [node.targets[0] for node in ast.parse(code).body if isinstance(node, ast.Assign)]
            named = [target.value if isinstance(target, ast.Subscript) else target for target in targets]
            is_default = section.startswith("Type `dict`. Default:") and place == 0
            assert language == "python"
            assert is_default or len(code.splitlines()) <= 5
            assert [target.id for target in named if isinstance(target, ast.Name)] == [name]


@cases("name", DECLARED)
def test_every_example_value_is_valid_and_not_the_default(name: str) -> None:
    setting = DECLARED[name]
    assert setting.parse(setting.example) == setting.example
    assert setting.example != setting.default


def test_settings_are_read_through_their_declarations() -> None:
    """No other code defines a default or checks a value; it may add to a dict."""
    reads = re.compile(r"settings(?:\.get(?!withbase|_component)\w*\(|\[)\s*\"(\w+)\"(?!\]\.update)")
    sources = [path for package in PROJECT[:-1] for path in (CHECKOUT / package).rglob("*.py")]
    found = {name for path in sources for name in reads.findall(path.read_text())}
    assert found and not found & set(DECLARED)
