"""Exact versions and hashes of all dependencies, which `make constraints` writes."""

from __future__ import annotations

import itertools
import re
import shutil
import tomllib
import zipfile
from hashlib import sha256
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.project.test_makefile import make
from tests.project.test_scrapyd import bare_python

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
MACHINES = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "x86_64"), ("darwin", "arm64")]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
_PIN = re.compile(r"([a-z0-9-]+)==([\w.]+)(?: ; ([^\\]+?))?((?: --hash=sha256:[0-9a-f]{64})*)")


class Pin(NamedTuple):
    """A line of a file of requirements."""

    name: str
    version: Version
    marker: Marker | None
    hashes: int

    def holds(self, platform: str, machine: str, python: str) -> bool:
        """Whether the line counts on a machine."""
        return self.marker is None or self.marker.evaluate(environment(platform, machine, python))


def environment(platform: str, machine: str, python: str) -> dict[str, str]:
    own = {name: str(value) for name, value in default_environment().items()}
    here = {"sys_platform": platform, "platform_machine": machine, "python_version": python}
    return {**own, **here, "python_full_version": f"{python}.9", "extra": ""}


def pins(name: str) -> list[Pin]:
    """The pins of a file and of those that it includes."""
    found: list[Pin] = []
    lines = (CHECKOUT / name).read_text().replace("\\\n", " ").splitlines()
    for line in (re.sub(" +", " ", line).rstrip() for line in lines if line[:1] != "#"):
        if line.startswith("-r "):
            found += pins(f"requirements/{line[3:]}")
            continue
        # nothing else may be there, such as the address of an index
        match = _PIN.fullmatch(line)
        assert match is not None, line
        marker = Marker(match[3]) if match[3] else None
        found.append(Pin(match[1], Version(match[2]), marker, match[4].count("sha256")))
    return found


def direct(*lists: list[str]) -> list[Requirement]:
    """The requirements of the package and of lists, without itself: an extra may bring others."""
    requirements = [Requirement(text) for text in itertools.chain(PROJECT["project"]["dependencies"], *lists)]
    return [requirement for requirement in requirements if requirement.name != PROJECT["project"]["name"]]


USERS = [EXTRAS[name] for name in EXTRAS if name not in ("all", "dev", "docs", "spark")]
"""The extras that `all` brings."""
CONTAINER = (
    "postgresql",
    "parquet",
    "metrics",
    "traces",
    "service",
    "images",
    "media",
    "documents",
    "languages",
)


@cases(
    ("name", "needed"),
    [
        ("requirements/crawler.txt", direct()),
        ("requirements/stores.txt", direct(*(EXTRAS[name] for name in CONTAINER))),
        ("requirements/extras.txt", direct(*USERS)),
        ("requirements/tests.txt", direct(*USERS, EXTRAS["dev"])),
        ("constraints.txt", direct(*USERS, EXTRAS["dev"])),
    ],
)
def test_each_requirement_is_pinned_on_every_platform_to_a_version_that_the_project_allows(
    name: str, needed: list[Requirement]
) -> None:
    pinned = pins(name)
    for machine, python in itertools.product(MACHINES, PYTHONS):
        here = {pin.name: pin.version for pin in pinned if pin.holds(*machine, python)}
        for requirement in needed:
            if requirement.marker is None or requirement.marker.evaluate(environment(*machine, python)):
                version = here[canonicalize_name(requirement.name)]
                assert requirement.specifier.contains(version), f"{requirement}, {machine}, {python}"


def test_what_builds_the_package_is_pinned_first() -> None:
    pinned = {pin.name: pin.version for pin in pins("requirements/build.txt")}
    for text in PROJECT["build-system"]["requires"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])


def test_each_pin_has_hashes_and_the_version_of_the_constraints() -> None:
    hashed = pins("requirements/tests.txt")
    assert all(pin.hashes for pin in hashed)
    assert {(pin.name, pin.version) for pin in hashed} == {
        (pin.name, pin.version) for pin in pins("constraints.txt")
    }


def test_what_requirements_need_is_pinned_too() -> None:
    names = {pin.name for pin in pins("requirements/tests.txt")}
    here = {pin.name for pin in pins("requirements/tests.txt") if pin.marker is None or pin.marker.evaluate()}
    for name in here:
        for requirement in map(Requirement, requires(name) or ()):
            if requirement.marker is None:
                assert canonicalize_name(requirement.name) in names, f"{name} needs {requirement}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A Makefile and an environment, whose only requirement is a small wheel in the folder `wheels`."""
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").write_text("no package")
    (tmp_path / "requirements").mkdir()
    bare_python(tmp_path / "made")
    (tmp_path / ".venv").symlink_to(tmp_path / "made" / "venv")
    (tmp_path / "wheels").mkdir()
    information = "small-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / "wheels" / "small-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small.py", "")
        wheel.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: small\nVersion: 1.0\n")
        wheel.writestr(
            f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{information}/RECORD", f"small.py,,\n{information}/RECORD,,\n")
    return tmp_path


@pytest.mark.parametrize("altered", [False, True])
def test_a_package_with_another_hash_is_not_installed(
    checkout: Path, altered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_NO_WARN_CONFLICTS", "1")  # it would read all libraries
    monkeypatch.setenv("PIP_FIND_LINKS", str(checkout / "wheels"))
    (wheel,) = (checkout / "wheels").iterdir()
    digest = sha256(b"altered" if altered else wheel.read_bytes()).hexdigest()
    (checkout / "requirements" / "build.txt").touch()
    (checkout / "requirements" / "crawler.txt").write_text(f"small==1.0 --hash=sha256:{digest}\n")
    done = make(checkout, ".venv/.runtime")
    installed = list((checkout / ".venv").glob("lib/python*/site-packages/small.py"))
    assert bool(installed) is not altered
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is altered
    # the folder is no package, but pip reads that only after the requirements were installed
    assert done.returncode != 0 and not (checkout / ".venv" / ".runtime").exists()
