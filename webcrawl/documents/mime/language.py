"""Detects the language of a text with Compact Language Detector 2, as in Chromium, or else with py3langid.

Only confident answers are used. Measured with program messages of 800 characters in 91 languages:

    pycld2     0.06 ms a text; 94% of all answers and 97% of the confident are right (39 largest: 99% and 99%)
    py3langid  0.5 ms a text, 0.6 s and 80 MB to load; 96% and 98% are right (39 largest: 98% and 99%)

py3langid is pure Python with NumPy. It is installed where pycld2 has no wheel; see pyproject.toml.

Four short passages are read, because the start and end of a page, and parts of it, may be in other languages. If they
give no confident answer, eight longer ones are read.

The codes of languages are those of ISO 639-1, which the Web uses, and of ISO 639-3, which archives use. Source:
https://iso639-3.sil.org/code_tables/download_tables
"""

from __future__ import annotations

from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from webcrawl.documents.mime.facts import language

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

try:
    import pycld2
except ImportError:
    pycld2 = None


class _Passages(NamedTuple):
    """What is read of a text: passages, spread evenly, and the least share of a confident answer in percent."""

    number: int
    length: int
    sure: int


_FEW = _Passages(4, 200, 70)
_MANY = _Passages(8, 800, 50)
_TO_COMPARE = _Passages(4, 80, 70)
"""To compare a text with its declared language: enough to notice 22 wrong declarations of 22."""
_LEAST = 60
"""The fewest bytes of letters in UTF-8: twenty Chinese characters are enough, two short Latin words are not."""
_PART = 10
"""The least share of a further language, in percent."""
_LIKELY = 0.6
"""The least probability that py3langid reports. Sentences have over 0.8; menus, code and numbers have below 0.3."""
_CONTRADICTION = 80
"""The least share, in percent, of a language that was not declared and yet is that of the page.

22 pages with a wrong declaration had 82% or more, five mixed ones with a right declaration had 77% or less.
"""
_LEAST_CONTRADICTION = 500
"""The fewest bytes of letters that contradict a declaration."""
# The detector, or whoever declares a language, does not tell these apart.
_ALIKE = tuple(
    frozenset(names.split())
    for names in ("no nb nn", "hr sr bs sh cnr", "id ms", "zh yue cmn", "tl fil", "ro mo", "fa prs")
)
# "Lorem ipsum" stands for a text in any language.
_PLACEHOLDER = "la"
_NO_ASCII_LETTERS = bytes(byte for byte in range(256) if byte > 127 or not chr(byte).isalpha())
# Tags for an unknown language, and for scripts of many languages.
_NONE = ("un", "xx-")
# Outdated tags of CLD2.
_TAGS = {"iw": "he", "jw": "jv"}


class Detection(NamedTuple):
    """The languages of a text, as primary subtags.

    best       the most likely language, or None
    score      its share of the text from 0 to 1; its probability if py3langid was used
    is_sure    whether the answer is confident
    languages  those with at least a tenth of the text, the largest share first, at most three; none in doubt
    """

    best: str | None = None
    score: float = 0.0
    is_sure: bool = False
    languages: tuple[str, ...] = ()


class DecidedLanguage(NamedTuple):
    """The language of a text, whether it is "declared" or "detected", and what was detected."""

    language: str | None
    source: str | None
    detection: Detection


def decided(text: str, declared: str | None) -> DecidedLanguage:
    """Decides between the declared language and that of the text.

    The text decides if no language is declared, or if it is long and nearly all of it is clearly in another language.
    """
    if declared is None:
        detection = _detection(text)
        answer = detection.best if detection.is_sure else None
        return DecidedLanguage(answer, "detected" if answer else None, detection)
    if pycld2 is None:  # py3langid would take a tenth of the time of a page
        return DecidedLanguage(declared, "declared", Detection())
    detection = _read(text, _TO_COMPARE)
    if detection.best not in (None, declared):
        detection = _read(text, _MANY)
        if _contradicts(detection, declared, text):
            return DecidedLanguage(detection.best, "detected", detection)
    return DecidedLanguage(declared, "declared", detection)


def detected(text: str) -> str | None:
    """Returns the language of a text as a primary subtag; None without a confident answer, or without a detector."""
    return decided(text, None).language


def _detection(text: str) -> Detection:
    detection = _read(text, _FEW)
    if detection.is_sure or len(text) <= _FEW.number * _FEW.length:
        return detection
    return _read(text, _MANY)


def _contradicts(detection: Detection, declared: str, text: str) -> bool:
    best = detection.best
    return (
        detection.is_sure
        and detection.score * 100 >= _CONTRADICTION
        and best not in (declared, _PLACEHOLDER)
        and _is_comparable(declared)
        and not any({best, declared} <= alike for alike in _ALIKE)
        and _has_letters(_sample(text, _MANY), _LEAST_CONTRADICTION)
    )


def _is_comparable(declared: str) -> bool:
    """Returns whether the detector knows this language, or there is no such language ("cz", "jp")."""
    return declared in _detectable() or (len(declared) == 2 and iso_639_3(declared) is None)


@cache
def _detectable() -> frozenset[str | None]:
    tags = dict(pycld2.LANGUAGES)
    return frozenset(_subtag(tags[name]) for name in pycld2.DETECTED_LANGUAGES)


def _read(text: str, passages: _Passages) -> Detection:
    sample = _sample(text, passages)
    if not _has_letters(sample, _LEAST):
        return Detection()
    return _by_langid(sample) if pycld2 is None else _by_cld2(sample, passages.sure)


def _sample(text: str, passages: _Passages) -> str:
    """Returns passages of a text without the characters for which CLD2 raises: control signs and lone surrogates."""
    number, length, _ = passages
    if len(text) > number * length:
        step = len(text) / number
        starts = [int(step * passage + (step - length) / 2) for passage in range(number)]
        text = " ".join([text[start : start + length] for start in starts])
    sample = " ".join(text.split())
    return sample if sample.isprintable() else "".join(filter(str.isprintable, sample))


def _by_cld2(sample: str, sure: int) -> Detection:
    is_reliable, _, parts = pycld2.detect(sample, isPlainText=True)
    shares: dict[str, int] = {}
    for _, tag, percent, _ in parts:
        if not tag.startswith(_NONE) and (name := _subtag(tag)):
            shares[name] = shares.get(name, 0) + percent
    if not shares:
        return Detection()
    ((best, share), *_) = by_share = sorted(shares.items(), key=itemgetter(1), reverse=True)
    known = tuple(name for name, percent in by_share if percent >= _PART) if is_reliable else ()
    return Detection(best, share / 100, is_reliable and share >= sure, known)


@cache
def _subtag(tag: str) -> str | None:
    return language(_TAGS.get(tag, tag))


def _by_langid(sample: str) -> Detection:
    identifier = _identifier()
    if identifier is None:
        return Detection()
    tag, probability = identifier.classify(sample)
    is_sure, best = bool(probability >= _LIKELY), _subtag(str(tag))
    return Detection(best, float(probability), is_sure, (best,) if is_sure and best else ())


@cache
def _identifier() -> LanguageIdentifier | None:
    """Returns the model of py3langid, loaded at the first text that needs it; None if it is not installed."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _has_letters(text: str, least: int) -> bool:
    """Returns whether the letters of a text have so many bytes in UTF-8."""
    # counting letters of ASCII takes a twentieth of the time, and most texts have enough of them
    if len(text.encode("utf-8", "replace").translate(None, _NO_ASCII_LETTERS)) >= least:
        return True
    return not text.isascii() and len("".join(filter(str.isalpha, text)).encode("utf-8", "replace")) >= least


_TABLE = """
    aa aar ab abk ae ave af afr ak aka am amh an arg ar ara as asm av ava ay aym az aze ba bak be bel bg bul bi bis
    bm bam bn ben bo bod br bre bs bos ca cat ce che ch cha co cos cr cre cs ces cu chu cv chv cy cym da dan de deu
    dv div dz dzo ee ewe el ell en eng eo epo es spa et est eu eus fa fas ff ful fi fin fj fij fo fao fr fra fy fry
    ga gle gd gla gl glg gn grn gu guj gv glv ha hau he heb hi hin ho hmo hr hrv ht hat hu hun hy hye hz her ia ina
    id ind ie ile ig ibo ii iii ik ipk io ido is isl it ita iu iku ja jpn jv jav ka kat kg kon ki kik kj kua kk kaz
    kl kal km khm kn kan ko kor kr kau ks kas ku kur kv kom kw cor ky kir la lat lb ltz lg lug li lim ln lin lo lao
    lt lit lu lub lv lav mg mlg mh mah mi mri mk mkd ml mal mn mon mr mar ms msa mt mlt my mya na nau nb nob nd nde
    ne nep ng ndo nl nld nn nno no nor nr nbl nv nav ny nya oc oci oj oji om orm or ori os oss pa pan pi pli pl pol
    ps pus pt por qu que rm roh rn run ro ron ru rus rw kin sa san sc srd sd snd se sme sg sag sh hbs si sin sk slk
    sl slv sm smo sn sna so som sq sqi sr srp ss ssw st sot su sun sv swe sw swa ta tam te tel tg tgk th tha ti tir
    tk tuk tl tgl tn tsn to ton tr tur ts tso tt tat tw twi ty tah ug uig uk ukr ur urd uz uzb ve ven vi vie vo vol
    wa wln wo wol xh xho yi yid yo yor za zha zh zho zu zul
    in ind iw heb ji yid jw jav mo ron
"""
"""The last line has codes that were withdrawn."""
_WORDS = _TABLE.split()
_CODES = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))


def iso_639_3(language: str | None) -> str | None:
    """Returns the three-letter code of a language ("eng" for "en"), or None if it has none."""
    if language is None or len(language) == 3:
        return language
    return _CODES.get(language)
