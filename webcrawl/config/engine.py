"""The engine's part of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from webcrawl.config.records import read
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The server and the arguments of its client."""

    url: str | None
    """The server; None for the embedded server in `data_dir`."""
    parameters: Mapping[str, Any]
    data_dir: Path

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        parameters = read(settings, "REDIS_PARAMS")
        url = read(settings, "REDIS_URL") or parameters.pop("url", None)
        if not url:
            # settings of scrapy-redis
            for name in ("host", "port", "db"):
                if (value := settings.get(f"REDIS_{name.upper()}", None)) not in (None, ""):
                    parameters[name] = value
            url = _server_url(parameters)
        return cls(url, parameters, data_dir(settings))


def data_dir(settings: Settings) -> Path:
    """DATA_DIR as a path; raises ConfigurationError when it is a file."""
    path = Path(read(settings, "DATA_DIR") or "data")
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"DATA_DIR must be a folder, not {str(path)!r}, which is a file")
    return path


def _server_url(parameters: dict[str, Any]) -> str | None:
    """Takes the arguments that name a server out of `parameters` and returns its URL; None without such arguments."""
    parts = {name: parameters.pop(name, None) for name in ("host", "port", "db", "unix_socket_path")}
    if all(value is None for value in parts.values()):
        return None
    try:
        port, database = int(parts["port"] or 6379), int(parts["db"] or 0)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"REDIS_PORT and REDIS_DB must be whole numbers, not {parts['port']!r} and {parts['db']!r}"
        ) from None
    if path := parts["unix_socket_path"]:
        return f"unix://{quote(str(path))}?db={database}"
    scheme = "rediss" if parameters.pop("ssl", False) else "redis"
    host = str(parts["host"] or "localhost")
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{database}"
