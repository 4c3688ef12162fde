"""Tests of the dashboard, in a browser and by HTTP."""
