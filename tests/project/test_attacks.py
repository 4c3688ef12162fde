"""Each attack of `make bench-hostile` has a test on a small scale, which names the cause or counts the cost."""

from __future__ import annotations

from benchmarks.hostile_servers import ATTACKS
from tests.cases import cases
from tests.crawls import CHECKOUT

_READ = "crawl/test_hostile_hosts.py::test_documents_that_cost_much_are_cut_and_charged"
_PACED = "unit/crawler/download/test_paced_connection.py::"
_UNREACHED = "crawl/test_unreached_hosts.py::"
_LINKS = "crawl/test_costly_documents.py::test_a_page_with_20_000_links_holds_its_own_host_and_no_other"
SMALL = {
    "robots": "crawl/test_costs.py::test_the_cause_of_an_attack_is_charged_and_shown",
    "unanswered": _UNREACHED + "test_names_that_nobody_answers_hold_no_other_host_up",
    "domains": "unit/hosts/test_dns_shares.py::test_a_domain_whose_nameservers_are_dead_is_not_asked_for_a_while",
    "nonexistent": _UNREACHED + "test_names_that_do_not_exist_become_dead_letters",
    "xml": "crawl/test_costly_documents.py::test_a_document_in_a_reader_holds_its_own_site_and_no_other",
    "continue": _PACED + "test_endless_heads_fail_the_page",
    "chunks": _PACED + "test_a_body_has_a_bounded_number_of_small_chunks",
    "extensions": _PACED + "test_an_endless_extension_of_a_chunk_breaks_the_body",
    "slow": _UNREACHED + "test_hosts_that_answer_slowly_hold_no_other_host_up",
    "frames": _READ,
    "anchors": _READ,
    "sitemaps": "crawl/test_hostile_hosts.py::test_a_sitemap_index_that_lists_itself_ends",
    "status": "crawl/test_responses.py::test_overlong_heads_count_against_the_host_and_are_not_kept",
    "links": _LINKS,
    "linked": _LINKS,
    "addresses": _UNREACHED + "test_a_few_of_the_addresses_of_a_name_are_tried",
    "mute": _UNREACHED + "test_hosts_that_accept_no_connection_hold_no_other_host_up",
    "web": "unit/documents/html/test_known_hosts.py::test_known_hosts_have_room_while_new_ones_wait",
    "endless": _PACED + "test_endless_bodies_share_a_budget_and_are_cut",
    "entries": _READ,
    "bombs": "crawl/test_hostile_hosts.py::test_a_packed_robots_txt_is_unpacked_up_to_its_limit",
    "alternates": _READ,
    "urls": _READ,
    "parameters": "unit/crawler/pages/test_dust_sketches.py::"
    "test_a_bounded_part_of_the_links_and_parameters_is_compared",
    "jsonld": _READ,
    "attributes": _READ,
    "inflate": _READ,
    "redirects": "crawl/test_costly_documents.py::test_a_large_body_of_a_redirect_is_stored_but_not_read",
    "tls": "unit/crawler/download/test_tls_gate.py::test_tickets_without_end_end_the_connection",
    "cookies": "crawl/test_hostile_hosts.py::test_the_cookies_of_a_host_are_bounded",
}


@cases("attack", sorted(set(ATTACKS) - {"none"}))
def test_an_attack_has_a_small_test(attack: str) -> None:
    file, _, name = SMALL[attack].partition("::")
    text = (CHECKOUT / "tests" / file).read_text()
    assert f"def {name}(" in text
    assert not name.startswith("test_documents") or f'"{attack}": (' in text
