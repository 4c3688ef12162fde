"""Named objects in a folder, a bucket, or another store: one interface, a class for each URI scheme."""
