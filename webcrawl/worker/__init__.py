"""One process's side of the frontier: leases hosts ahead, hands out due URLs, and reports in batches."""
