"""Settings modules: base (all settings), local (one machine), production (shared servers)."""
