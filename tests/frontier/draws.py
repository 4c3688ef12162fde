"""What the state machine of the frontier draws."""

from hypothesis import strategies as st

NEVER = 3600.0
"""A pause, delay or block that does not end while the test runs."""
BRIEF = 0.001
BLAMES = 3

hosts = st.sampled_from([f"http://{letter}.test" for letter in "abcd"])
crawls = st.sampled_from(["ours", "theirs"])
# of each crawl: a worker whose leases last, and one whose leases run out at once
workers = st.tuples(crawls, st.booleans())
pauses = st.sampled_from([0.0, 0.0, NEVER])
urls = st.tuples(hosts, st.integers(0, 5), st.sampled_from([0, 3, 3, 7]), st.booleans(), st.integers(0, 2))
some = st.none() | st.integers(0, 3)
verdicts = st.tuples(
    st.integers(1, 6),
    st.sampled_from(["done", "again", "retry", "dead"]),
    st.booleans(),
    st.sampled_from(["x", "y"]),
    st.integers(0, 1),
    st.integers(0, 3),
)
"""Index, verdict, whether a retry is due at once, reason, pages and bytes got."""
sent = st.sampled_from([1, 1, 1, 2])
"""How often a call is made: once more when its reply was lost."""
settlements = st.lists(verdicts, max_size=4, unique_by=lambda one: one[0])
