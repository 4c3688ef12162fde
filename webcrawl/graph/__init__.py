"""The graphs of pages, hosts and domains in a link store, their measures, and their files."""
