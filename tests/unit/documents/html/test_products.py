"""Pages of shops: the name, the price, the specifications and the reviews of a product."""

from __future__ import annotations

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import MENU, PROSE, STORY, found, words
from webcrawl.documents.html.main_text import _PRICE

SPECIFICATIONS = "<table><tr><th>Width<td>80 cm<tr><th>Weight<td>31 kg</table>"
REVIEWS = (
    f"<div class=reviews><h2>Reviews</h2><div><p>{PROSE} Ada</p></div><div><p>{PROSE} Bob</p></div></div>"
)
NAMES = ["itemscope itemtype=https://schema.org/Product", "class=product", "class='pdp product-detail'"]


@cases("price", ["249,00 €", "$249", "£ 9.50", "249 CHF"])
@cases("name", NAMES)
def test_a_product_keeps_its_name_price_specifications_and_reviews(name: str, price: str) -> None:
    product = (
        f"<h1>Oak table</h1><div class=price>{price}</div><div><p>{PROSE} {PROSE}</p></div>{SPECIFICATIONS}"
    )
    beside = f"<div class=related><a href=/chair>Oak chair</a></div><ul>{MENU}</ul>"
    page = f"<ul>{MENU}</ul><div {name}>{product}{REVIEWS}</div>{beside}"
    assert found(page) == words(product + REVIEWS)


def test_an_article_about_a_product_is_no_product() -> None:
    comments = f"<div class=comments><p>{PROSE * 2}</p></div>"
    assert found(f"<article class=product><h1>A product</h1>{STORY}{comments}</article>") == words(
        f"<h1>A product</h1>{STORY}"
    )


@cases("number", ["1" * 300_000, "1,2." * 75_000, ".," * 150_000])
def test_a_long_number_is_read_once(number: str) -> None:
    page = f"<div class=product><h1>Oak table</h1><p>{PROSE} {PROSE}</p><p>{number}</p></div>"
    assert "Oak" in found(page)


@cases("price", ["Price:..5 €", "1.249,00 zł", "12 kr", "9 EUR", "₹ 5"])
def test_prices_are_known_by_their_currency(price: str) -> None:
    assert _PRICE.search(price)


@cases("text", ["249", "12 krona", "5 EURO", "., €", "$"])
def test_other_texts_are_no_prices(text: str) -> None:
    assert not _PRICE.search(text)
