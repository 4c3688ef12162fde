"""What stands in a text and is not part of it: notices about cookies, dates, counters of forums, marks "[edit]"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from selectolax.lexbor import LexborNode

from webcrawl.documents.html.names import AUTHOR, NOTE
from webcrawl.documents.html.text import BLOCK, HIDDEN, TEXT_NODE, tag_ids, walk

# Longer notes and texts about authors may belong to the text.
_MAX_NOTE, _MAX_AUTHOR = 150, 700
MAX_DATE = 45
"""A paragraph or `div` of no more characters with a day and a year is a date, such as that of the last change."""
_DATE = re.compile(r"\b\d{1,2}\D{1,15}(?:19|20)\d\d\b|\b(?:19|20)\d\d\D{1,3}\d{1,2}\D{1,3}\d{1,2}\b")

MAX_NOTICE = 800
"""A notice about cookies has no more characters,"""
NOTICE_DEPTH = 2
"""and at most so many elements around it in `body`."""
_COOKIES = ("cookie", "kakor", "ciastecz", "informasjonskapsl", "slapuk")
_NOT_ASCII_COOKIES = (
    *(
        "evästei",
        "evästeet",
        "vafrakök",
        "sütik",
        "küpsis",
        "sīkdat",
        "piškot",
        "kolačić",
        "çerez",
        "куки",
        "бисквит",
    ),
    *("колачић", "クッキー", "쿠키", "עוגיות", "الارتباط", "کوکی"),
)
# It wants an answer: a control or a link whose text is short and has one of these words.
_CONTROLS = "button,input,[role=button],a"
_MOST_CONTROLS, _MAX_ANSWER = 12, 40
_ANSWER_STEMS = """
    accept akceptuj akkoord akzeptier ablehn autoriser avvis cerrar chiudi continue decline dismiss einverstanden
    elfogad entendi fechar godkänn hyväksy nõustu odrzu piekr povol prihvat prijať přijm rechaz refus reject rendben
    rifiut rozum schließ sluiten souhlas sprejm strinjam súhlas sutinku tillad tillåt toesta understood verstanden
    weiger zgadzam zulassen zustimm αποδοχ συμφων закры погодж прийн приним принят прием прихвати соглас съглас
    同意 接受 允许 确定 許可 承諾 閉じ 동의 확인 수락 אישור מסכים موافق قبول"""
_ANSWER_WORDS = """
    accetto aceito aceitar aceptar acepto afvis agree allow close compris consent deny fermer godta ja kabul nein no non
    ok okay oui sim tamam yes x × ✕"""
_ANSWER = re.compile(
    rf"\b(?:{'|'.join(_ANSWER_STEMS.split())})|(?<!\w)(?:{'|'.join(_ANSWER_WORDS.split())})(?!\w)"
)
_ARTICLES = "article,h1,main"

MAX_COUNTERS = 200
"""What a forum counts of the author of a post has no more characters."""
_MIN_COUNTERS, _COUNTER_LEVELS, _MOST_SIBLINGS = 2, 4, 6
_SINGLE_LABELS = """
    post posts message messages thread threads topics joined registered reputation likes karma beiträge themen
    registriert inscrit inscription mensajes registrado mensagens registado messaggi berichten inlägg innlegg
    indlæg viestejä liittynyt posty postów dołączył rejestracja příspěvky registrace üzenetek csatlakozott
    mesajlar mesaj üyelik сообщения сообщений регистрация зарегистрирован повідомлень 帖子 注册 投稿 登録"""
_LABELS = frozenset(_SINGLE_LABELS.split()) | {
    *(
        "join date",
        "member since",
        "registriert seit",
        "dabei seit",
        "mitglied seit",
        "inscrit le",
        "iscritto dal",
    ),
    *("lid sinds", "medlem sedan"),
}
_DIGIT = re.compile(r"\d")
_OTHER_TEXT = 40

_MOST_MARK_NODES = 40
_MARK_IDS, _EDITING = tag_ids("span small sup"), "a[href*='action=edit']"


def is_note(kind: int, size: int) -> bool:
    """Returns whether a part of a kind is a short note, or a text about the author."""
    return kind == AUTHOR and size < _MAX_AUTHOR or kind == NOTE and size < _MAX_NOTE


def is_date(pieces: list[str]) -> bool:
    """Returns whether a short text has a day and a year in it."""
    text = "".join([piece[:200] for piece in pieces])  # white space may be long
    return ("20" in text or "19" in text) and _DATE.search(text) is not None


def is_cookie_notice(node: LexborNode, text: str) -> bool:
    """Returns whether an element, with this text, speaks of cookies and wants an answer, and is not the page itself."""
    text = text.lower()
    if not (_has_any(_COOKIES, text) or not text.isascii() and _has_any(_NOT_ASCII_COOKIES, text)):
        return False
    return node.css_first(_ARTICLES) is None and any(map(_is_answer, node.css(_CONTROLS)[:_MOST_CONTROLS]))


def _has_any(words: Sequence[str], text: str) -> bool:
    return any(word in text for word in words)


def _is_answer(control: LexborNode) -> bool:
    text = control.text().strip() or control.attributes.get("value") or ""
    return len(text) <= _MAX_ANSWER and _ANSWER.search(text.lower()) is not None


def has_counters(node: LexborNode, text: str) -> bool:
    """Returns whether an element, with this text, counts what the author of a post did: "Posts: 12, Joined: 2020".

    The post has other text, and a sibling of the same kind with such counters.
    """
    if not _counts(text):
        return False
    post, size = node.parent, len(text.strip())
    for _ in range(_COUNTER_LEVELS):
        if post is None:
            return False
        if any(_counts("".join(walk(sibling, HIDDEN))) for sibling in _alike(post)):
            return len(post.text().strip()) >= size + _OTHER_TEXT
        post = post.parent
    return False


def _counts(text: str) -> bool:
    """Returns whether a text has two labels of counters, each before a colon or alone in a block."""
    if _DIGIT.search(text) is None:
        return False
    # twice as fast as re.split
    parts = text.lower().replace("\n", BLOCK).replace(":", BLOCK).replace("：", BLOCK).split(BLOCK)
    return len(_LABELS.intersection(map(str.strip, parts))) >= _MIN_COUNTERS


def _alike(node: LexborNode) -> Iterator[LexborNode]:
    """Yields the next sibling of the same kind, and the one before, if they are near."""
    names = node.attributes.get("class")
    for step in ("next", "prev"):
        sibling = getattr(node, step)
        for _ in range(_MOST_SIBLINGS):
            if sibling is None:
                break
            if sibling.tag_id == node.tag_id and sibling.attributes.get("class") == names:
                yield sibling
                break
            sibling = getattr(sibling, step)


def edit_mark(heading: LexborNode) -> LexborNode | None:
    """Returns the last element of a heading if it is a mark such as "[edit]", whose links edit the section."""
    mark = heading.last_child
    while mark is not None and mark.tag_id == TEXT_NODE and not (mark.text_content or "").strip():
        mark = mark.prev
    if mark is None or mark.tag_id not in _MARK_IDS:
        return None
    if sum(1 for _ in islice(mark.traverse(include_text=True), _MOST_MARK_NODES)) == _MOST_MARK_NODES:
        return None
    text = mark.text().strip()
    is_edited = "editsection" in (mark.attributes.get("class") or "") or mark.css_first(_EDITING) is not None
    return mark if is_edited and text[:1] == "[" and text[-1:] == "]" else None


def remove_mark(mark: LexborNode, pieces: list[str], start: int) -> tuple[int, int]:
    """Empties the pieces of a mark, the last ones of a heading that begins with the piece `start`.

    Returns how many characters they had, and how many of them in links.
    """
    length, size = len("".join(mark.text().split())), 0
    for number in range(len(pieces) - 1, start - 1, -1):
        if pieces[number] != BLOCK and length > 0:
            length -= len("".join(pieces[number].split()))
            size += len(pieces[number].strip())
            pieces[number] = ""
    return size, sum(len(link.text().strip()) for link in mark.css("a"))
