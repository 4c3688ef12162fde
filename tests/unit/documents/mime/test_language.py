"""Language detection. The sentences are translations of one text about a library."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from webcrawl.documents.mime.language import detected
from webcrawl.documents.page import Page
from webcrawl.pipelines.language import LanguagePipeline

SENTENCES = {
    "ar": "تفتح المكتبة أبوابها في التاسعة صباحا ولا تغلق إلا في وقت متأخر من المساء. ومن أراد استعارة "
    "كتاب فلا يحتاج إلا إلى بطاقة صالحة وقليل من الصبر.",
    "bg": "Библиотеката отваря в девет часа сутринта и затваря чак късно вечерта. Който иска да вземе "
    "книга назаем, има нужда само от валидна карта и малко търпение на гишето.",
    "cs": "Knihovna otevírá v devět hodin ráno a zavírá až pozdě večer. Kdo si chce půjčit knihu, "
    "potřebuje jen platný průkaz a trochu trpělivosti u přepážky.",
    "da": "Biblioteket åbner klokken ni om morgenen og lukker først sent om aftenen. Den, der vil låne en "
    "bog, behøver kun et gyldigt kort og lidt tålmodighed ved skranken.",
    "de": "Die Bibliothek öffnet morgens um neun Uhr und schließt erst spät am Abend. Wer ein Buch "
    "ausleihen möchte, braucht dafür nur einen gültigen Ausweis und ein wenig Geduld an der Kasse.",
    "el": "Η βιβλιοθήκη ανοίγει στις εννέα το πρωί και κλείνει αργά το βράδυ. Όποιος θέλει να δανειστεί "
    "ένα βιβλίο χρειάζεται μόνο μια έγκυρη κάρτα και λίγη υπομονή στο γκισέ.",
    "en": "The library opens at nine in the morning and does not close until late in the evening. Whoever "
    "wants to borrow a book only needs a valid card and a little patience at the desk.",
    "es": "La biblioteca abre a las nueve de la mañana y no cierra hasta muy tarde. Quien quiera pedir "
    "prestado un libro solo necesita un carné válido y un poco de paciencia en el mostrador.",
    "fa": "کتابخانه ساعت نه صبح باز می‌شود و تا دیروقت شب بسته نمی‌شود. هر کس که می‌خواهد کتابی امانت "
    "بگیرد فقط به یک کارت معتبر و کمی صبر نیاز دارد.",
    "fi": "Kirjasto aukeaa aamulla yhdeksältä ja sulkeutuu vasta myöhään illalla. Joka haluaa lainata "
    "kirjan, tarvitsee vain voimassa olevan kortin ja hieman kärsivällisyyttä tiskillä.",
    "fr": "La bibliothèque ouvre à neuf heures du matin et ne ferme que tard le soir. Pour emprunter un "
    "livre, il suffit d'avoir une carte valable et un peu de patience au guichet.",
    "he": "הספרייה נפתחת בתשע בבוקר ונסגרת רק בשעות הערב המאוחרות. מי שרוצה לשאול ספר צריך רק כרטיס בתוקף "
    "ומעט סבלנות ליד הדלפק.",
    "hi": "पुस्तकालय सुबह नौ बजे खुलता है और देर शाम को ही बंद होता है। जो कोई किताब उधार लेना चाहता है "
    "उसे केवल एक मान्य कार्ड और थोड़े धैर्य की ज़रूरत होती है।",
    "hu": "A könyvtár reggel kilenckor nyit, és csak késő este zár. Aki könyvet szeretne kölcsönözni, "
    "annak csak érvényes igazolványra és egy kis türelemre van szüksége a pultnál.",
    "id": "Perpustakaan buka pukul sembilan pagi dan baru tutup pada larut malam. Siapa pun yang ingin "
    "meminjam buku hanya memerlukan kartu yang berlaku dan sedikit kesabaran di meja.",
    "it": "La biblioteca apre alle nove del mattino e chiude soltanto a tarda sera. Chi vuole prendere in "
    "prestito un libro ha bisogno solo di una tessera valida e di un po' di pazienza.",
    "ja": "図書館は朝九時に開き、夜遅くまで閉まりません。"
    "本を借りたい人に必要なのは、有効なカードと窓口での少しの忍耐だけです。",
    "ko": "도서관은 아침 아홉 시에 문을 열고 저녁 늦게야 문을 닫습니다. "
    "책을 빌리려는 사람은 유효한 카드와 창구에서의 약간의 인내심만 있으면 됩니다.",
    "nl": "De bibliotheek gaat om negen uur 's ochtends open en sluit pas laat in de avond. Wie een boek "
    "wil lenen heeft alleen een geldige kaart en een beetje geduld aan de balie nodig.",
    "no": "Biblioteket åpner klokken ni om morgenen og stenger først sent på kvelden. Den som vil låne en "
    "bok, trenger bare et gyldig kort og litt tålmodighet ved skranken.",
    "pl": "Biblioteka otwiera się o dziewiątej rano i zamyka dopiero późnym wieczorem. Kto chce "
    "wypożyczyć książkę, potrzebuje tylko ważnej karty i odrobiny cierpliwości przy okienku.",
    "pt": "A biblioteca abre às nove da manhã e só fecha tarde da noite. Quem quiser levar um livro "
    "emprestado precisa apenas de um cartão válido e de um pouco de paciência no balcão.",
    "ro": "Biblioteca se deschide la ora nouă dimineața și se închide abia seara târziu. Cine vrea să "
    "împrumute o carte are nevoie doar de un permis valabil și de puțină răbdare la ghișeu.",
    "ru": "Библиотека открывается в девять часов утра и закрывается только поздно вечером. Тому, кто "
    "хочет взять книгу, нужны лишь действующий билет и немного терпения у стойки.",
    "sv": "Biblioteket öppnar klockan nio på morgonen och stänger först sent på kvällen. Den som vill "
    "låna en bok behöver bara ett giltigt kort och lite tålamod vid disken.",
    "th": "ห้องสมุดเปิดเวลาเก้าโมงเช้าและปิดในตอนค่ำ "
    "ผู้ที่ต้องการยืมหนังสือต้องมีเพียงบัตรที่ยังไม่หมดอายุและความอดทนเล็กน้อยที่เคาน์เตอร์",
    "tr": "Kütüphane sabah dokuzda açılır ve ancak akşam geç saatlerde kapanır. Kitap ödünç almak "
    "isteyenin yalnızca geçerli bir karta ve bankoda biraz sabra ihtiyacı vardır.",
    "uk": "Бібліотека відчиняється о дев'ятій ранку і зачиняється лише пізно ввечері. Тому, хто хоче "
    "взяти книжку, потрібні лише чинний квиток і трохи терпіння біля стійки.",
    "vi": "Thư viện mở cửa lúc chín giờ sáng và chỉ đóng cửa vào tối muộn. Ai muốn mượn sách chỉ cần một "
    "tấm thẻ còn hạn và một chút kiên nhẫn ở quầy.",
    "zh": "图书馆早上九点开门，直到深夜才关门。想借书的人只需要一张有效的证件，以及在柜台前的一点耐心。",
}


@pytest.fixture(params=["pycld2", "py3langid"])
def detector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes `detected` use one of the two detectors, if it is installed."""
    pytest.importorskip(request.param)
    if request.param == "py3langid":
        monkeypatch.setattr("webcrawl.documents.mime.language.pycld2", None)
    return str(request.param)


@pytest.mark.usefixtures("detector")
@pytest.mark.parametrize("language", SENTENCES)
def test_language_is_detected_from_two_sentences(language: str) -> None:
    text = SENTENCES[language]
    assert detected(text) == language
    assert detected(text.upper()) == language
    assert detected(f"Home | News | FAQ {text * 500} (c) 2026 All rights reserved") == language


@pytest.mark.usefixtures("detector")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Library",
        "图书馆早上九点开门",
        "1 2 3 4.5 " * 100,
        "def main(): return x if y else z; import os; print(x)",
        "x=1; y=2; for (i=0;i<10;i++) { a[i]=b[i]*c; } " * 5,
        "Home Products Contact Imprint Login Logout Download FAQ Blog RSS",
        "\0\ud800\ufffd\u200b" * 100,
        "aaaa " * 1000,
    ],
    ids=[
        "empty",
        "a word",
        "nine characters",
        "numbers",
        "code",
        "more code",
        "a menu",
        "no letters",
        "one letter",
    ],
)
def test_short_text_and_non_language_give_none(text: str) -> None:
    assert detected(text) is None


def page(language: str | None = None, header: str | None = None, text: str = "", **carried: Any) -> Page:
    made = Page(url="http://a.example/", host="http://a.example", fetched_at=datetime.now(UTC))
    made.language, made.reading.content_language, made.text = language, header, text
    for name, value in carried.items():
        setattr(made.reading, name, value)
    return made


def process(*pages: Page) -> list[tuple[str | None, str | None]]:
    for one in pages:
        assert LanguagePipeline().process_item(one) is one
    return [(one.language, one.language_source) for one in pages]


def test_declared_language_takes_precedence_over_detection() -> None:
    german, french = SENTENCES["de"], SENTENCES["fr"]
    assert process(
        page("en", "fr", german),
        page(None, "fr", german),
        page(None, None, german),
        page(None, None, german, main_text=french),
        page(None, None, "short"),
        page(None, None, german, noindex=True),
        page(None, "fr", german, noindex=True),
    ) == [
        ("en", "declared"),
        ("fr", "declared"),
        ("de", "detected"),
        ("fr", "detected"),
        (None, None),
        (None, None),
        (None, None),
    ]


LOREM = (
    "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et"
    " dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation ullamco laboris nisi ut aliquip. "
)
DE, EN, NO, CS = (SENTENCES[name] for name in ("de", "en", "no", "cs"))


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [
        pytest.param("en", DE * 10, ("de", "detected"), id="wrong"),
        pytest.param("en", DE, ("en", "declared"), id="short text"),
        pytest.param("en", DE * 5 + EN * 5, ("en", "declared"), id="half of the text"),
        pytest.param("en", f"{DE * 20}{EN}", ("de", "detected"), id="nearly all of the text"),
        pytest.param("cz", CS * 10, ("cs", "detected"), id="no language"),
        pytest.param("gsw", DE * 10, ("gsw", "declared"), id="unknown to the detector"),
        pytest.param("nb", NO * 10, ("nb", "declared"), id="another name"),
        pytest.param("de", LOREM * 10, ("de", "declared"), id="placeholder"),
        pytest.param("de", "1 2 3 " * 1000, ("de", "declared"), id="no text"),
    ],
)
def test_text_decides_against_a_declaration_if_it_is_clear(
    declared: str, text: str, expected: tuple[str, str]
) -> None:
    pytest.importorskip("pycld2")
    assert process(page(declared, None, text), page(None, declared, text)) == [expected] * 2


def test_declaration_decides_with_a_slow_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webcrawl.documents.mime.language.pycld2", None)
    made = page("en", None, DE * 10)
    assert process(made) == [("en", "declared")]
    assert made.details is None


@pytest.mark.parametrize(
    ("declared", "text", "languages"),
    [
        pytest.param(
            None, DE, {"detected": "de", "score": 0.99, "content_languages": ["de"]}, id="not declared"
        ),
        pytest.param(
            "fr",
            DE * 10,
            {"declared": "fr", "detected": "de", "score": 0.99, "content_languages": ["de"]},
            id="wrong",
        ),
        pytest.param(
            "gsw",
            DE * 10,
            {"declared": "gsw", "detected": "de", "score": 0.99, "content_languages": ["gsw", "de"]},
            id="not detectable",
        ),
    ],
)
def test_languages_are_kept(declared: str | None, text: str, languages: dict[str, Any]) -> None:
    pytest.importorskip("pycld2")
    made = page(declared, None, text)
    made.details = {"pages": 2}
    process(made)
    assert made.details == {"pages": 2, "languages": languages}


def test_all_languages_of_a_text_are_kept() -> None:
    pytest.importorskip("pycld2")
    made = page("de", None, f"{EN * 8}{DE * 3}")
    process(made)
    assert made.details is not None
    languages = made.details["languages"]
    assert (made.language, languages["detected"]) == ("de", "en")
    assert languages["content_languages"] == ["de", "en"]
    assert 0.5 < languages["score"] < 0.8


def test_pages_without_text_have_no_languages() -> None:
    made = page("de", None, "Guten Tag")
    assert process(made) == [("de", "declared")]
    assert made.details is None


@pytest.mark.usefixtures("detector")
def test_more_is_read_if_short_passages_have_no_language() -> None:
    numbers, sentence = "1 2 3 4 5 " * 60, (EN * 10)[:800]
    assert detected(f"{numbers}{sentence}{numbers}" * 8) == "en"


def test_py3langid_replaces_a_missing_pycld2(tmp_path: Path) -> None:
    pytest.importorskip("py3langid")
    assert detected_without(tmp_path, "pycld2") == "de\n"


def test_language_is_unknown_without_a_detector(tmp_path: Path) -> None:
    assert detected_without(tmp_path, "pycld2", "py3langid") == "None\n"


def detected_without(folder: Path, *libraries: str) -> str:
    """Returns the answer of `detected` for German in a process that cannot import some libraries."""
    for name in libraries:
        (folder / f"{name}.py").write_text("raise ImportError")
    program = f"from webcrawl.documents.mime.language import detected; print(detected({SENTENCES['de']!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
