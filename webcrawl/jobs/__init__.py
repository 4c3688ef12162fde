"""Jobs: crawls that run on a schedule, with their definitions, iterations, scheduler and sweeper."""
