"""The version of the package, which `pyproject.toml` reads without importing this file."""

VERSION = "0.1.0"
