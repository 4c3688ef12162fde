"""Strategies for the state machine of the frontier."""

from hypothesis import strategies as st

HOUR = 3600.0
BRIEF = 2.0
BLAMES = 3

HOSTS = ["http://a.test", "http://b.test", "https://c.test", "https://www.d.test"]
SIBLINGS = ["https://a.test", "http://a.test:8080"]
"""Hosts that may share a record with the first one."""

hosts = st.sampled_from([*HOSTS, *SIBLINGS])
crawls = st.sampled_from(["ours", "theirs"])
# each crawl has a worker with long leases and one with brief leases (True)
workers = st.tuples(crawls, st.booleans())
pauses = st.sampled_from([0.0, 0.0, HOUR])
gaps = st.sampled_from([0.0, 0.0, 5.0])
jumps = st.sampled_from([1, 20, 250, 2_500, 61_000, 3_700_000, 7_400_000])
"""ms by which a rule moves the clock."""
passed = st.sampled_from([0, 0, 0, 300, 2_500, 3_700_000])
"""ms that pass before an operation."""
levels = st.sampled_from([0, 3, 3, 7, -997, -5, 8, 2**53])
urls = st.tuples(hosts, st.integers(0, 5), levels, st.booleans(), st.integers(0, 2))
some = st.none() | st.integers(0, 3)
verdicts = st.tuples(
    st.integers(1, 6),
    st.sampled_from(["done", "again", "retry", "dead"]),
    st.sampled_from([0.0, 0.0, 2.0, HOUR]),
    st.sampled_from(["x", "y"]),
    st.integers(0, 1),
    st.integers(0, 3),
)
"""Index, verdict, delay in seconds, reason, pages and bytes."""
sent = st.sampled_from([1, 1, 1, 2])
"""How often a call is made; 2: it is repeated because the reply was lost."""
settlements = st.lists(verdicts, max_size=4, unique_by=lambda one: one[0])
