"""What the state machine of the frontier draws."""

from hypothesis import strategies as st

HOUR = 3600.0
BRIEF = 2.0
BLAMES = 3

HOSTS = ["http://a.test", "http://b.test", "https://c.test", "https://www.d.test"]

hosts = st.sampled_from(HOSTS)
crawls = st.sampled_from(["ours", "theirs"])
# of each crawl: a worker whose leases last, and one whose leases run out soon
workers = st.tuples(crawls, st.booleans())
pauses = st.sampled_from([0.0, 0.0, HOUR])
gaps = st.sampled_from([0.0, 0.0, 5.0])
jumps = st.sampled_from([1, 20, 250, 2_500, 61_000, 3_700_000, 7_400_000])
"""By how many ms a clock is moved at once."""
passed = st.sampled_from([0, 0, 0, 300, 2_500, 3_700_000])
"""ms before something is done."""
urls = st.tuples(hosts, st.integers(0, 5), st.sampled_from([0, 3, 3, 7]), st.booleans(), st.integers(0, 2))
some = st.none() | st.integers(0, 3)
verdicts = st.tuples(
    st.integers(1, 6),
    st.sampled_from(["done", "again", "retry", "dead"]),
    st.sampled_from([0.0, 0.0, 2.0, HOUR]),
    st.sampled_from(["x", "y"]),
    st.integers(0, 1),
    st.integers(0, 3),
)
"""Index, verdict, seconds until it comes again, reason, pages and bytes got."""
sent = st.sampled_from([1, 1, 1, 2])
"""How often a call is made: once more when its reply was lost."""
settlements = st.lists(verdicts, max_size=4, unique_by=lambda one: one[0])
