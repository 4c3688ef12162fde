"""The HTTP API: pages and their metadata for other programs.

An endpoint is an `Operation` (operation.py): its address, the types of what it takes and answers, and the function that
does its work. A module of this package has a function `operations(service)` that returns its operations, and
`create_service` in app.py lists these functions. The OpenAPI document (openapi.py) is made from the same list.
"""
