"""Tests of the open frontier, by a plain client of gRPC."""
