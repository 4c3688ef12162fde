"""Every setting, declared once, in groups by task and in the order of docs/reference/settings.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webcrawl.config.declared import (
    documents,
    fetching,
    politeness,
    priorities,
    project,
    results,
    scope,
    workers,
)
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

GROUPS: tuple[SettingGroup, ...] = (
    politeness.GROUP,
    scope.URLS,
    priorities.GROUP,
    scope.LIMITS,
    fetching.FETCHING,
    fetching.RENDERING,
    documents.READING,
    documents.DUPLICATES,
    results.GROUP,
    workers.GROUP,
    project.TERMINAL,
    project.PROJECT,
)
DECLARED: Mapping[str, Setting] = {setting.name: setting for group in GROUPS for setting in group.settings}
DEFAULTS: Mapping[str, Any] = {
    setting.name: setting.default for setting in DECLARED.values() if setting.default is not IN_PARTS
}
"""The defaults that the add-on sets; `webcrawl.config.parts` has those that are names of classes."""
