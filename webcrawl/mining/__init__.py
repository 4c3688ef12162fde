"""Mining: predicts the value of URLs from the links and pages of crawls (docs/guide/mining.md)."""
