"""The spiders of this project, one a file; those of webcrawl keep their short names here."""
