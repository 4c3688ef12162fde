"""For scrapyd-deploy, whose egg also holds the project's own folders. pyproject.toml describes the wheel."""

from setuptools import find_packages, setup
from setuptools.command.bdist_egg import bdist_egg

OWN = ("settings", "spiders", "middlewares", "pipelines")


class Egg(bdist_egg):
    """Adds the project's folders, and the name by which scrapyd finds its settings."""

    def initialize_options(self) -> None:
        super().initialize_options()
        self.distribution.packages += find_packages(include=[*OWN, *(f"{name}.*" for name in OWN)])
        self.distribution.entry_points["scrapy"] = ["settings = settings.production"]


setup(cmdclass={"bdist_egg": Egg})
