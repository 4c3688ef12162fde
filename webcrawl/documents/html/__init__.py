"""HTML: links, facts, main text, and the process that parses it."""
