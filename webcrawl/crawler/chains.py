"""Chains of classes that a setting names with their places."""

from __future__ import annotations

from typing import TypeVar

from scrapy.utils.misc import load_object

from webcrawl.config import read
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError

T = TypeVar("T")


def chain_classes(settings: Settings, name: str, base: type[T]) -> list[type[T]]:
    """The classes of a setting in the order of their places; None as a place leaves a class out.

    Raises ConfigurationError for one that cannot be loaded or is no subclass of `base`.
    """
    classes: list[tuple[int, type[T]]] = []
    for path, order in read(settings, name).items():
        if order is None:
            continue
        try:
            loaded = load_object(path)
            if not (isinstance(loaded, type) and issubclass(loaded, base)):
                raise TypeError(f"not a subclass of {base.__name__}")
            classes.append((int(order), loaded))
        except (ImportError, NameError, TypeError, ValueError) as error:
            raise ConfigurationError(f"{name} {path!r}: {error}") from error
    return [chosen for _, chosen in sorted(classes, key=lambda pair: pair[0])]
