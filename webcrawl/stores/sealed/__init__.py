"""Sealed runs: the older part of the index of duplicates, in immutable sorted files."""
