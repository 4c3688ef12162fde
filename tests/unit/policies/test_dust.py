"""What changes nothing on a site is learned from pairs of pages, and nothing else is."""

from __future__ import annotations

import itertools
import random

import xxhash
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.cases import cases
from webcrawl.policies.dust import MOST_RULES, MOST_SKETCHES, TRIALS, SiteDust
from webcrawl.policies.dust_rules import LEAST_PAIRS, LEAST_PLAIN, LEAST_TEXTS, WINDOW, Evidence, RuleSet
from webcrawl.policies.page_sketches import ERROR, Sketch, links_sketch

HOST = "http://a.test:81"


_payloads = itertools.count(1)


def sketch(text: str) -> Sketch:
    """A page with this text, and with bytes of its own."""
    return Sketch(next(_payloads), xxhash.xxh3_64_intdigest(text.encode()))


def after(*pages: tuple[str, str], host: str = HOST) -> SiteDust:
    """A site after pages, each a path and its text; without a text it is an error page."""
    dust = SiteDust()
    for path, text in pages:
        dust.add(host, path, sketch(text) if text else ERROR, 3)
    return dust


def simpler(dust: SiteDust, path: str, host: str = HOST) -> str:
    found = dust.rewrite(host, path)
    return path if found is None else found[0].host.removeprefix(HOST) + found[0].path


def sessions(articles: int = 10, times: int = 3) -> list[tuple[str, str]]:
    """Articles with and without sessions."""
    return [
        (f"/article/{n}" + (f"?sid={time}{n}x" if time else ""), f"article {n}")
        for time in range(times)
        for n in range(articles)
    ]


def test_a_session_is_dropped_and_real_parameters_stay() -> None:
    pages = [(f"/list/{n}?page={page}", f"list {n} {page}") for n in range(20) for page in (1, 2, 3)]
    dust = after(*sessions(), *pages)
    assert simpler(dust, "/article/77?sid=new") == "/article/77"
    assert simpler(dust, "/article/77?a=1&sid=new&b=2") == "/article/77?a=1&b=2"
    assert simpler(dust, "/list/77?page=2") == "/list/77?page=2"
    assert simpler(dust, "/other/77?sid=new") == "/other/77?sid=new", "it may mean something else there"
    assert dust.states() == {"/article/#?sid": "used", "/list/#?page": "not used"}


def test_too_few_pairs_or_texts_teach_nothing() -> None:
    assert simpler(after(*sessions(LEAST_PAIRS - 1, 2)), "/article/7?sid=1") == "/article/7?sid=1"
    same = [(f"/article/{n % 2}?sid={n}", f"article {n % 2}") for n in range(99)]
    assert simpler(after(*same), "/article/7?sid=1") == "/article/7?sid=1"


def test_a_login_wall_and_the_end_of_a_list_teach_nothing() -> None:
    wall = [(f"/{name}?id={n}", "please log in") for n in range(40) for name in "abc"]
    dust = after(*wall)
    assert not dust.rules
    beyond = [
        (f"/list/{n}?page={page}", f"list {n} {min(page, 3)}") for n in range(20) for page in range(1, 20)
    ]
    for seed in range(5):
        pages = list(beyond)
        random.Random(seed).shuffle(pages)
        dust = SiteDust()
        for path, text in pages:
            dust.add(HOST, path, sketch(text), 3)
            assert not dust.rules, "pages beyond the end look alike, but those before do not"


def test_without_the_simpler_url_a_few_are_probed_and_an_error_ends_it() -> None:
    pages = [page for page in sessions(20, 4) if "?" in page[0]]
    dust = after(*pages)
    assert dust.states() == {"/article/#?sid": "tried"}
    urls = [f"/article/9?sid={n}y" for n in range(800)]
    probed = [url for url in urls if simpler(dust, url) == "/article/9"]
    assert 50 < len(probed) < 150
    works, fails = after(*pages), after(*pages)
    for n in range(LEAST_PLAIN):
        works.add(HOST, f"/article/{n}", sketch(f"article {n}"), 3)
        fails.add(HOST, f"/article/{n}", ERROR, 3)
    assert all(simpler(works, url) == "/article/9" for url in urls)
    assert not any(simpler(fails, url) == "/article/9" for url in urls)


def test_a_rule_is_lost_by_trials_and_comes_back() -> None:
    dust = after(*sessions())
    url = "/article/3?sid=new"
    trials = [dust.rewrite(HOST, url, may_try=True) for _ in range(3)]
    assert [one[1] for one in trials if one] == [False] * 3, "a trial before its time"
    for n in range(TRIALS):
        dust.add(HOST, f"/page/{n}", sketch(f"page {n}"), 3)
    first, second = (dust.rewrite(HOST, url, may_try=True) for _ in range(2))
    assert first
    assert second
    assert (first[0].path, first[1], second[0].path) == (url, True, "/article/3")
    for n in range(3):
        dust.add(HOST, f"/article/{n}", sketch(f"article {n}"), 3)
        dust.add(HOST, f"/article/{n}?sid=changed", sketch(f"another article {n}"), 3)
    assert simpler(dust, url) == url
    for path, text in sessions(10, 40):
        dust.add(HOST, path, sketch(text), 3)
    assert simpler(dust, url) == "/article/3"


def test_few_values_are_dropped_with_these_values_only() -> None:
    pages = [(f"/a/{n}{ref}", f"page {n}") for n in range(12) for ref in ("", "?ref=menu", "?ref=foot")]
    dust = after(*pages)
    assert simpler(dust, "/a/77?ref=menu") == "/a/77"
    assert simpler(dust, "/a/77?ref=printed") == "/a/77?ref=printed"


def test_a_parameter_that_changes_nothing_in_three_patterns_is_dropped_from_all() -> None:
    pages = [(path.replace("article", name), name + text) for path, text in sessions() for name in "abc"]
    dust = after(*pages)
    assert simpler(dust, "/new/path?sid=1") == "/new/path"
    assert dust.states()["*?sid"] == "used"
    dust.switch_off({"/a/#?sid"})
    assert simpler(dust, "/a/1?sid=1") == "/a/1?sid=1"
    assert simpler(dust, "/b/1?sid=1") == "/b/1"
    dust.switch_off({"*?sid"})
    assert simpler(dust, "/b/1?sid=1") == "/b/1?sid=1"
    dust.switch_off(())
    assert simpler(dust, "/b/1?sid=1") == "/b/1"
    counter = [(f"/d/{n}{sid}", f"{n}{sid}") for n in range(3) for sid in ("", "?sid=1")]
    for path, text in counter:
        dust.switch_off({"*?sid"} if "?" in path else ())
        dust.add(HOST, path, sketch(text), 3)
    dust.switch_off(())
    assert simpler(dust, "/new/path?sid=1") == "/new/path?sid=1"
    assert simpler(dust, "/b/1?sid=1") == "/b/1"


@cases(
    ("one", "other"),
    [("/{}/index.html", "/{}/"), ("/{}/default.aspx", "/{}/"), ("/{}/", "/{}"), ("/{}/INDEX.php", "/{}/")],
)
def test_endings_are_dropped(one: str, other: str) -> None:
    dust = after(*((path.format(n), f"page {n}") for n in range(LEAST_PAIRS) for path in (one, other)))
    assert simpler(dust, one.format("new")) == other.format("new")
    assert simpler(dust, one.format("new") + "?a=1") == one.format("new") + "?a=1"


@cases(("host", "plain"), [("https://www.a.org", "https://a.org"), ("http://a.org", "https://a.org")])
@cases("first", [0, 1])
def test_names_of_one_host_are_the_same(host: str, plain: str, first: int) -> None:
    dust, hosts = SiteDust(), (host, plain)
    for n in range(LEAST_PAIRS):
        for one in (hosts[first], hosts[1 - first]):
            dust.add(one, f"/{n}", sketch(f"page {n}"), 3)
    assert simpler(dust, "/new", host) == f"{plain}/new"
    assert simpler(dust, "/new", plain) == "/new"
    for n in range(LEAST_PAIRS):
        for one in hosts:
            dust.add(one, f"/other/{n}", sketch(f"{one} {n}"), 3)
    assert simpler(dust, "/new", host) == "/new"


def test_pages_are_the_same_by_bytes_or_by_text_and_links() -> None:
    links = [f"/page/{n}" for n in range(50)]
    page = Sketch(1, 0b1111, links_sketch(links))
    assert page.is_like(Sketch(1), 3)
    assert page.is_like(Sketch(2, 0b1000, links_sketch(links)), 3)
    assert page.is_like(Sketch(2, 0b1111, links_sketch([*links, "/advert"])), 3)
    assert not page.is_like(Sketch(2, 0, links_sketch(links)), 3)
    assert not page.is_like(Sketch(2, 0b11111111, links_sketch(links)), 3)
    assert not page.is_like(Sketch(2, 0b1111, links_sketch([f"/item/{n}" for n in range(50)])), 3)


def test_what_two_workers_know_is_merged() -> None:
    one = after(*sessions(4))
    other = after(*((path.replace("cle/", "cle/9"), text + "9") for path, text in sessions(4)))
    assert not (one.rules or other.rules)
    before = one.evidence["/article/#?sid"].same
    one.merge(SiteDust.unpack(other.pack()))
    assert one.evidence["/article/#?sid"].same >= before
    assert len(one.evidence["/article/#?sid"].texts) == LEAST_TEXTS
    for path, text in sessions(5):
        one.add(HOST, path + "y" if "?" in path else path, sketch(text), 3)
    assert simpler(one, "/article/3?sid=new") == "/article/3"
    again = SiteDust.unpack(one.pack())
    assert again.states() == one.states()
    assert simpler(again, "/article/3?sid=new") == "/article/3"


class Sites(RuleBasedStateMachine):
    """A site of random pages, whose record changes hands, beside what the pairs in it can say."""

    def __init__(self) -> None:
        super().__init__()
        self.dust = SiteDust()
        self.texts: dict[str, set[str]] = {}

    @rule(
        path=st.integers(0, 6),
        names=st.lists(st.sampled_from(["s", "p", "q"]), unique=True, max_size=2),
        value=st.integers(0, 9),
        times=st.integers(1, 12),
    )
    def fetch(self, path: int, names: list[str], value: int, times: int) -> None:
        """Fetches pages: "s" and "q" change nothing, "p" does."""
        for n in range(path, path + times):
            fields = [f"{name}={value + n}" for name in names]
            url = f"/x/{n}?{'&'.join(fields)}" if fields else f"/x/{n}"
            self.dust.add(HOST, url, sketch(f"{n} {value + n if 'p' in names else ''}"), 3)

    @rule()
    def hand_over(self) -> None:
        packed = self.dust.pack()
        self.dust = SiteDust.unpack(packed)
        assert self.dust.pack() == packed

    @rule(pages=st.integers(1, 9))
    def merge(self, pages: int) -> None:
        other = after(*((f"/x/{n}?s=z{n}", f"{n} ") for n in range(pages)))
        before = {name: known.same for name, known in self.dust.evidence.items()}
        self.dust.merge(other)
        assert all(self.dust.evidence[name].same >= same for name, same in before.items())

    @invariant()
    def bounds_hold_and_only_what_changes_nothing_is_dropped(self) -> None:
        assert len(self.dust.evidence) <= MOST_RULES
        assert len(self.dust._sketches) <= MOST_SKETCHES
        assert "p" not in self.dust.rules.parameters
        for known in self.dust.evidence.values():
            assert known.same + known.other < 2 * WINDOW
            assert len(known.texts) <= LEAST_TEXTS


TestSites = Sites.TestCase
TestSites.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.text("abc/?&=12.", max_size=12), st.sampled_from(["a", "b", ""])), max_size=200))
def test_any_urls_are_taken_and_rewritten_once(pages: list[tuple[str, str]]) -> None:
    dust = after(*(("/" + path, text) for path, text in pages))
    assert len(dust.evidence) <= MOST_RULES
    for path, _ in pages:
        once = simpler(dust, "/" + path)
        assert once.startswith("/")
        assert dust.rules.apply(HOST, once).path == once


def test_a_site_with_a_thousand_parameters_keeps_its_bounds() -> None:
    dust = after(*((f"/{n % 7}?p{n}=1&q={n % 2}", f"{n % 7}") for n in range(2_000) for _ in range(2)))
    assert len(dust.evidence) <= MOST_RULES
    assert len(dust._sketches) <= MOST_SKETCHES
    assert len(dust.pack()) < 20_000


def test_evidence_that_is_switched_off_is_not_used() -> None:
    known = Evidence(same=20, plain=3, values=255, texts=[1] * LEAST_TEXTS)
    assert RuleSet.of({"/a?s": known})
    assert not RuleSet.of({"/a?s": known}, {"/a?s"})
    assert not RuleSet.of({"www.": known}, {"www."})
