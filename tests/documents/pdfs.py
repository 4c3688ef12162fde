"""PDF files, built from objects."""

from __future__ import annotations

from collections.abc import Iterable


def pdf(
    text: str = "Hello",
    *,
    pages: int = 1,
    links: Iterable[str] = (),
    outline: Iterable[str] = (),
    info: str = "",
    language: str = "en-GB",
) -> bytes:
    """A PDF with the same ASCII text on every page and the links on the first."""
    objects: dict[int, str] = {}
    kids, next_object = [], 10
    annotations = []
    for address in links:
        objects[next_object] = (
            f"<< /Type /Annot /Subtype /Link /Rect [0 0 50 50] /A << /S /URI /URI ({address}) >> >>"
        )
        annotations.append(f"{next_object} 0 R")
        next_object += 1
    content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
    objects[4] = f"<< /Length {len(content)} >>\nstream\n{content}\nendstream"
    objects[3] = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    for number in range(pages):
        annots = f"/Annots [{' '.join(annotations)}]" if number == 0 and annotations else ""
        objects[next_object] = (
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            f" /Resources << /Font << /F1 3 0 R >> >> {annots} >>"
        )
        kids.append(f"{next_object} 0 R")
        next_object += 1
    objects[2] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {pages} >>"
    marks = []
    for address in outline:
        marks.append(next_object)
        objects[next_object] = f"/A << /S /URI /URI ({address}) >>"
        next_object += 1
    for number, mark in enumerate(marks):
        following = f"/Next {marks[number + 1]} 0 R" if number + 1 < len(marks) else ""
        objects[mark] = f"<< /Title (mark) /Parent 5 0 R {objects[mark]} {following} >>"
    has_outline = "/Outlines 5 0 R" if marks else ""
    if marks:
        objects[5] = f"<< /Type /Outlines /First {marks[0]} 0 R /Last {marks[-1]} 0 R /Count {len(marks)} >>"
    objects[1] = f"<< /Type /Catalog /Pages 2 0 R /Lang ({language}) {has_outline} >>"
    objects[6] = f"<< {info} >>"
    return pdf_of(objects)


def pdf_of(objects: dict[int, str], more: str = "") -> bytes:
    """A PDF of numbered objects: 1 is the catalog, 6 the information dictionary; `more` goes into the trailer."""
    body, places = b"%PDF-1.7\n", {}
    for number in sorted(objects):
        places[number] = len(body)
        body += f"{number} 0 obj\n{objects[number]}\nendobj\n".encode("latin-1")
    table = "".join(f"{number} 1\n{place:010d} 00000 n \n" for number, place in sorted(places.items()))
    start = len(body)
    trailer = f"<< /Size {max(objects) + 1} /Root 1 0 R /Info 6 0 R {more} >>"
    return (
        body
        + f"xref\n0 1\n0000000000 65535 f \n{table}trailer\n{trailer}\nstartxref\n{start}\n%%EOF\n".encode()
    )


def pdf_bomb() -> bytes:
    """A PDF of a few kilobytes with ten nested forms, each drawing the next one ten times."""
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R >>",
        2: "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        3: "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R"
        " /Resources << /XObject << /X 10 0 R >> >> >>",
        4: "<< /Length 5 >>\nstream\n/X Do\nendstream",
        6: "<< >>",
    }
    for number in range(10, 20):
        inner = f"/Resources << /XObject << /X {number + 1} 0 R >> >>" if number < 19 else ""
        objects[number] = (
            f"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] {inner} /Length 60 >>\nstream\n"
            + "/X Do " * 10
            + "\nendstream"
        )
    return pdf_of(objects)
