"""The dashboard: pages in a browser that show the crawls of an engine, and act on them.

`app.create_app` makes the ASGI application. Each module of `pages` is a page, with a template of the same name.
"""
