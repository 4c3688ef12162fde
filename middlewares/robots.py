"""The short name of `webcrawl.middlewares.robots`."""

from webcrawl.middlewares.robots import RobotsMiddleware

__all__ = ["RobotsMiddleware"]
