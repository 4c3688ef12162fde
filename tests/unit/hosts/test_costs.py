"""The costs of hosts in one worker: sums by host, registered domain and all, in bounded memory."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from webcrawl.hosts.costs import ALL, Cost, Costs, Load, with_domains

DOMAINS = ("a.test", "b.co.uk", "127.0.0.1")
HOSTS = [*(f"https://{domain}" for domain in DOMAINS), "https://www.a.test", "http://x.b.co.uk:81"]
charges = st.lists(st.tuples(st.sampled_from([*HOSTS, "b.co.uk"]), st.integers(1, 5)), max_size=40)


@given(charges, st.integers(2, 30))
def test_no_cost_is_lost_however_few_names_are_kept(made: list[tuple[str, int]], most: int) -> None:
    costs = Costs(most)
    for name, amount in made:
        costs.of(name).bytes += amount
        costs.of(name).waits += 1
    taken = costs.take()
    total = sum(amount for _, amount in made)
    assert taken.get(ALL, Cost()) == Cost(bytes=total, waits=len(made))
    assert len([name for name in taken if "://" in name]) <= most
    assert costs.take() == {}
    for name in taken.keys() - {ALL}:
        assert 0 < taken[name].bytes <= total


@given(charges)
def test_costs_of_hosts_are_those_of_their_domains(made: list[tuple[str, int]]) -> None:
    costs, hosts, domains = Costs(), Counter[str](), Counter[str]()
    for name, amount in made:
        costs.of(name).questions += amount
        hosts[name] += amount * ("://" in name)
        domains[next(domain for domain in DOMAINS if domain in name)] += amount
    taken = costs.take()
    assert {name: taken[name].questions for name in taken if "://" in name} == +hosts
    assert {name: taken[name].questions for name in taken if name in DOMAINS} == +domains


def test_the_costliest_hosts_are_kept_apart() -> None:
    costs = Costs(10)
    for number in range(1_000):
        costs.of(f"http://{number}.test").bytes += 1
        costs.of("http://bad.test").seconds += 0.01
    taken = costs.take()
    assert round(taken["http://bad.test"].seconds, 6) == round(taken["bad.test"].seconds, 6) == 10
    assert taken[ALL].bytes == 1_000
    assert len(taken) < 25


def test_the_cost_of_an_invalid_url_is_that_of_no_host() -> None:
    costs = Costs()
    costs.charge("http://[", 3.0)
    costs.charge("HTTP://A.test:80/x", 4.0)
    taken = costs.take()
    assert {name: cost.seconds for name, cost in taken.items()} == {ALL: 7, "http://a.test": 4, "a.test": 4}


def test_the_weight_grows_with_each_figure() -> None:
    each = [Cost(seconds=1), Cost(bytes=10_000_000), Cost(questions=100), Cost(waits=100)]
    assert [cost.weight for cost in each] == [1_000_000] * 4


def test_loads_of_hosts_are_those_of_their_domains() -> None:
    loads = [("http://x.a.test", Load(1, 2)), ("http://a.test", Load(3, 4)), ("a.test", Load(waits=5))]
    assert with_domains(loads) == {
        "http://x.a.test": Load(1, 2),
        "http://a.test": Load(3, 4),
        "a.test": Load(4, 6, 5),
    }
