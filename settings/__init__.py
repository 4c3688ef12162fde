"""Settings modules: base (everything), local (one machine), production (shared servers)."""
