"""The live lane: URLs from a stream, fetched before those of any crawl, each answered with an event."""
