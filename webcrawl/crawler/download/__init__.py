"""Turns requests into responses: HTTP, FTP and the base for further protocols."""
