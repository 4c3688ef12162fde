"""Encodings are those of the Encoding Standard; what Chromium makes of all bytes was compared."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, strategies as st
from webencodings import LABELS

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.encodings import CODECS, codec_of, decode, encoder, is_mostly_utf8, label_of
from webcrawl.documents.mime.charset import CHARSET_BYTES, charset_of, detected
from webcrawl.documents.mime.sniff import sniff

URL = "http://site.example/"
DOUBLE = ["gbk", "big5hkscs", "cp932", "cp949", "euc_jp", "gb18030"]
SINGLE = sorted(CODECS - {*DOUBLE, "iso2022_jp", "utf-8", "utf-16-le", "utf-16-be"})
BINARY = [b"\0\0\1\0\1\0\x10\x10", b"\0\0\0 ftypmp42\0\0\0\0", b"a\0", b"M\0\0\0\1\0\2\0", b"\0a\0\0"]


def test_the_table_is_that_of_the_standard() -> None:
    assert len(LABELS) == 228
    assert len(set(LABELS.values())) == 40


@cases("label", sorted(LABELS))
def test_every_label_of_the_standard_is_known(label: str) -> None:
    """In a header and in <meta>, in any case."""
    codec, name = codec_of(label), LABELS[label]
    body = b"<title>\xc4\xe3</title>"
    header = charset_of(f"text/html; charset={label.upper()}", body, "text/html")
    quoted = charset_of(f'text/html; x="; charset=utf-8"; charset="{label}"', body, "text/html")
    metas = (
        f"<meta charset='{label}'>",
        f"<meta http-equiv=Content-Type content='text/html; charset={label}'>",
    )
    declared = {charset_of("text/html", meta.encode() + body, "text/html") for meta in metas}
    if name == "replacement":
        assert codec is None
        assert header == quoted == detected(body) and declared == {detected(metas[0].encode() + body)}
        return
    assert codec in CODECS and codecs.lookup(codec)
    assert header == quoted == codec
    # a declaration that was read as ASCII is not UTF-16
    assert declared == {"utf-8" if codec.startswith("utf-16") else codec}
    again = codec_of(label_of(codec))
    assert again == codec


@cases(
    ("label", "codec"),
    [
        ("x-gbk", "gbk"),
        ("gb2312", "gbk"),
        ("windows-949", "cp949"),
        ("ks_c_5601-1987", "cp949"),
        ("iso88592", "iso8859-2"),
        ("ISO_8859-1:1987", "cp1252"),
        ("x-cp1251", "cp1251"),
        ("x-mac-cyrillic", "mac-cyrillic"),
        ("iso-8859-8-i", "iso8859-8"),
        ("windows-31j", "cp932"),
        ("unicode", "utf-16-le"),
        (" UTF-8\t", "utf-8"),
        # known to Python alone
        ("win-1251", "cp1251"),
        ("cp932", "cp932"),
        ("utf_8", "utf-8"),
        ("utf-7", None),
        ("base64", None),
        ("hz-gb-2312", None),
        ("", None),
    ],
)
def test_labels(label: str, codec: str | None) -> None:
    assert codec_of(label) == codec


@cases(
    ("codec", "body", "text"),
    [
        ("gbk", b"\x80 \xa2\xe3 \xa6\xd9 \x81\x30\x81\x30", "€ € \ufe10 \x80"),
        ("gb18030", b"\xa8\xbc\xfe\x59", "ḿ龴"),
        ("big5hkscs", b"\xa1\x45\xa1\xe3 \xa3\xe1 \x87\x7a \xa3\xc0\xa3\xe0 \x8e\x69", "‧～ € 㡵 ␀␡ 箸"),
        ("cp932", b"\x87\x40\x81\x60\xfa\x5c", "①～纊"),
        ("euc_jp", b"\xad\xa1\xa1\xc1\xa1\xdd\xf9\xa1\xa4\xa2", "①～－纊あ"),
        ("iso2022_jp", b"\x1b$B4A;z-!\x1b(B a \x1b(I1\x1b(J\\\x1b$@4A", "漢字① a ｱ\\漢"),
        ("iso2022_jp", "日本語、カタカナ text".encode("iso2022_jp"), "日本語、カタカナ text"),
        ("iso2022_jp", b"\xe9 \x1b$B\x30", "\ufffd \ufffd"),
        ("koi8-u", b"\xae\xbe", "ўЎ"),
        ("cp1252", b"\x80\x81\xe9", "€\x81é"),
        ("cp1253", b"\x81\xd2", "\x81\ufffd"),
        ("cp1255", b"\xca", "\u05ba"),
        ("euc_jp", b"\xad", "\ufffd"),
        ("big5hkscs", b"\xff\x87", "\ufffd\ufffd"),
    ],
)
def test_bytes_are_decoded_as_in_the_standard(codec: str, body: bytes, text: str) -> None:
    assert decode(body, codec) == text
    assert Document(body, "text/plain", codec, URL).text == text


@cases("codec", SINGLE)
def test_each_byte_is_encoded_to_what_decodes_to_it(codec: str) -> None:
    encode = encoder(codec)
    assert encode is not None
    for data in (bytes([byte]) for byte in range(256)):
        text = decode(data, codec)
        encoded = encode(text)
        if b"%26%23" not in encoded:
            assert decode(encoded, codec) == text


@pytest.mark.parametrize("codec", DOUBLE)
@given(data=st.binary(max_size=40))
def test_what_is_decoded_is_encoded_to_what_decodes_to_it(codec: str, data: bytes) -> None:
    text = decode(data, codec)
    encode = encoder(codec)
    assert encode is not None
    encoded = encode(text)
    if b"%26%23" not in encoded:
        assert decode(encoded, codec) == text


@pytest.mark.parametrize(
    ("codec", "body"), [("gbk", b"\x80"), ("euc_jp", b"\xad\xa1"), ("big5hkscs", b"\xa3\xe1")]
)
def test_python_decodes_the_rest_of_a_text_with_very_many_errors(codec: str, body: bytes) -> None:
    """A correction takes a microsecond or two, and a body may have millions of bytes."""
    letter, valid = decode(body, codec), "中文"
    text = decode(body * 6_000 + b" " + valid.encode(codec), codec)
    assert text.startswith(letter * 5_000) and text.endswith(valid)
    assert "\ufffd" in text


def test_utf_8_and_utf_16_need_no_encoder() -> None:
    assert [encoder(codec) for codec in (None, "utf-8", "utf-16-le", "utf-16-be", "no-such-codec")] == [
        None
    ] * 5


TEXTS = {
    "de": "Grüße aus Köln",
    "fr": "Été à la plage",
    "pl": "Zażółć gęślą jaźń",
    "tr": "Şu çılgın Türkçe",
    "vi": "Tiếng Việt",
    "ru": "Привет, мир",
    "el": "Καλημέρα κόσμε",
    "he": "שלום עולם",
    "ar": "مرحبا بالعالم",
    "hi": "नमस्ते दुनिया",
    "th": "สวัสดีชาวโลก",
    "ja": "こんにちは世界、日本語の文",
    "zh": "你好,世界,中文文本",
    "ko": "안녕하세요 세계",
}
BAD = [b"\xff", b"\x92", b"\xe9", b"\xc3", b"\xe4\xbd"]


@cases("language", TEXTS)
@cases("bad", BAD)
@cases("times", [1, 3, 500])
def test_utf_8_with_a_bad_byte_is_utf_8(language: str, bad: bytes, times: int) -> None:
    words = f"<title>x</title><p>{TEXTS[language]}</p>".encode() * times
    for body in (words + bad + b" ", bad + words, words[: len(words) // 2] + bad + b" " + words):
        assert sniff("text/html", body, URL).charset == "utf-8"
        assert TEXTS[language] in Document(body, "text/html", None, URL).text


def test_a_letter_at_the_end_of_a_whole_text_is_not_cut() -> None:
    assert detected("ein café".encode("cp1252")) == "cp1252"
    assert detected("grüße".encode()[:-3]) == detected("你好".encode()[:-1]) == "utf-8"
    long = "ü".encode() * (CHARSET_BYTES // 2 - 1) + b"xy"
    assert detected((long + "é".encode())[1 : CHARSET_BYTES + 1]) == "utf-8"


def test_bytes_of_another_encoding_are_not_mostly_utf_8() -> None:
    legacy = {
        "ru": "cp1251",
        "el": "cp1253",
        "he": "cp1255",
        "th": "cp874",
        "ja": "euc_jp",
        "zh": "gbk",
        "ko": "cp949",
    }
    assert not [name for name, codec in legacy.items() if is_mostly_utf8((TEXTS[name] * 5).encode(codec))]
    assert not is_mostly_utf8("Grüße aus Köln".encode("cp1252"))


@cases("codec", ["utf-16-le", "utf-16-be"])
@cases("mime_type", ["text/html", "text/plain", "application/xml", None])
def test_utf_16_without_a_mark_is_plain(codec: str, mime_type: str | None) -> None:
    markup = (
        "<?xml version='1.0'?><html><title>你好 ж</title><p>text"
        if mime_type != "text/plain"
        else "text 你好"
    )
    for end in (b"", b"x"):
        media = sniff(mime_type, markup.encode(codec) + end, URL)
        assert media.charset == codec
        assert media.mime_type in (mime_type, "application/xhtml+xml", "text/html")
    assert Document(markup.encode(codec), "text/html", codec, URL).html.css_first("title,body") is not None
    # a declared charset is trusted
    assert sniff("text/html; charset=utf-8", markup.encode(codec), URL).charset == "utf-8"


@cases("body", BINARY)
def test_binary_bytes_are_not_utf_16(body: bytes) -> None:
    assert not (sniff("text/html", body, URL).charset or "").startswith("utf-16")


@cases(
    ("mime_type", "body", "codec"),
    [
        ("text/html", b"<?xml version='1.0' encoding='koi8-r'?><meta charset=gbk>", "gbk"),
        ("text/html", b"<?xml version='1.0' encoding='koi8-r'?><p>", "koi8-r"),
        ("application/xhtml+xml", b"<?xml version='1.0' encoding='koi8-r'?><meta charset='gbk'/>", "koi8-r"),
        ("text/html", b"<meta charset=nonsense><meta charset=gbk>", "gbk"),
        ("text/html", b"<meta name=x content='charset=koi8-r'><meta charset=gbk>", "gbk"),
        ("text/html", b"<meta http_equiv=ContentType content='text/html;charset = \"gbk\"'>", "gbk"),
        ("text/html", b"<!-- <meta charset=koi8-r> --><META CHARSET = GBK >", "gbk"),
        ("text/html", b"<script>" + b"x" * 9_000 + b"</script><meta charset=gbk>", "gbk"),
        ("text/html", b"<body><meta charset=gbk>", "utf-8"),
        ("text/css", b'@charset "gbk"; a{}', "gbk"),
        ("text/css", b"@charset 'gbk'; a{}", "utf-8"),
        ("text/plain", b"<meta charset=gbk>", "utf-8"),
    ],
)
def test_declarations(mime_type: str, body: bytes, codec: str) -> None:
    assert charset_of(mime_type, body, mime_type) == codec
