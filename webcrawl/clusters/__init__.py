"""Clusters of near-duplicates: pages whose texts share most of their words, within a crawl and across crawls."""
