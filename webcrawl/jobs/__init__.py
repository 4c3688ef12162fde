"""Jobs: crawls that run by themselves, on a schedule. Their definitions, iterations, scheduler and sweeper."""
