"""What a crawl tells of itself: progress, summary, metrics, traces, notifications and log lines."""
