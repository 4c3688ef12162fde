"""The short name of `webcrawl.middlewares.frames`."""

from webcrawl.middlewares.frames import FramesMiddleware

__all__ = ["FramesMiddleware"]
