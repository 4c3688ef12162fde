"""Checkpoints: the state of a frontier as files, and back."""
