"""What happens to a page after its spider: one pipeline a file."""
