"""URLs: canonical form, filters, scope, seeds."""
