"""Reports of a crawl: progress, summary, metrics, traces, notifications and log lines."""
