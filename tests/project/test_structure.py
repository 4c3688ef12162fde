"""The structure of the code keeps its directions; `make structure` prints the figures."""

from __future__ import annotations

from tests.project import structure


def test_each_room_imports_only_rooms_below_it() -> None:
    imports = structure.edges()
    assert structure.upward(imports) == []
    assert structure.cycle(imports) == []
    assert sum(map(len, imports.values())) > 30, "the import graph is incomplete"


def test_every_room_is_in_exactly_one_layer() -> None:
    rooms = [room for layer in structure.layers() for room in layer]
    there = {
        path.stem
        for path in (structure.CHECKOUT / "webcrawl").glob("[!_]*")
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(rooms) == sorted(there)


def test_names_say_what_they_name() -> None:
    """At most 40 parts of names say nothing; columns, and methods of libraries, have such names too."""
    assert len(structure.fillers()) <= structure.MOST_FILLERS, structure.fillers()


def test_each_public_class_has_a_name_of_its_own() -> None:
    assert structure.shared_class_names() == {}
