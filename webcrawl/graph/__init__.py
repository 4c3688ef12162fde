"""The graphs of pages, hosts and domains of a link store, their measures and their files."""
