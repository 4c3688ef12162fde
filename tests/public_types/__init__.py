"""Code as users write it, for `make check`: mypy reads these files, and nothing runs them."""
