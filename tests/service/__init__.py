"""Tests of the HTTP API, by HTTP."""
