"""For scrapyd-deploy, which builds its egg with this file; everything is said in pyproject.toml."""

from setuptools import setup

setup()
