"""One process's side of the frontier: leases hosts ahead, hands out what is due, reports in batches."""
