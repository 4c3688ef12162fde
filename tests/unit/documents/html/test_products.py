"""Pages of shops: the name, the price, the specifications and the reviews of a product."""

from __future__ import annotations

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import MENU, PROSE, STORY, found, words

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
