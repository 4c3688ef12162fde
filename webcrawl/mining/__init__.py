"""Mining: what the links and pages of crawls tell about URLs that were not fetched yet (docs/mining.md)."""
