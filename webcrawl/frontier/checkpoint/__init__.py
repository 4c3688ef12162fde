"""Checkpoints: saves the state of a frontier as files, and restores it."""
