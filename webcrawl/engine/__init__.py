"""The Valkey or Redis behind a crawl: client, scripts, keys, cluster, embedded server."""
