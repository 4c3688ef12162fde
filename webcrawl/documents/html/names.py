"""What the attributes of an element say that it is: text, a note about the text, or something beside the text.

The words are those of class names and ids in common page templates. Ideas from Mozilla's Readability and trafilatura.
"""

from __future__ import annotations

import re
from functools import lru_cache

from webcrawl.documents.link_elements import Attributes

TEXT, NOTE, AUTHOR, GATED, BESIDE, COMMENTS, INVISIBLE = range(7)
"""NOTE: a date, tags, sources. AUTHOR: who wrote the text. BESIDE: menus, adverts, links to other pages.

GATED: text for subscribers, or the offer to become one; a section of the text, or the contents that list it.
"""

# Longer values are no names, and slow to search.
_MAX_NAMES = 500
_MOST_NAMES = 6
# A name is beside the text if it has one of these words,
_BESIDE_WORDS = """
    audioplayer flowplayer jwplayer mejs plyr videoplayer vjs yvp
    advert adverts advertisement advertisements advertiser advertising breadcrumb breadcrumbs
    disclaimer disclosure entryfooter footer footers linenodiv linenos
    newsletter newsletters pagefooter postfooter postmetadata promoted promotion promotions publicidad
    publicite recirculation recommend recommendation recommendations recommended related relatedposts relacionada
    relacionadas relacionado relacionados sharing sidebar sidebars sitefooter sponsor sponsored sponsors
    subscribe toolbar verwandt verwandte werbung widgetarea"""
# or begins or ends with one of these; between other words they may name a part of the text.
_BESIDE_ENDS = """
    ad ads adbox adsense banner banners captcha consent cookie cookies crosssell galleries gallery gdpr lightbox like
    likes login masthead menu modal mostread nav navbar navi navigation noprint outbrain overlay pager pagination paging
    popular popup popups promo promos  share sharebar sharedaddy shares signin signup skip social
    socials suggestion suggestions taboola teasers trending upsell"""
_GATED_WORDS = "gated metered paywall paywalled subscription subscriptions toc"
_COMMENTS_WORDS = """
    comentarios comment commentaires commentform commenti commentlist comments disqus kommentar kommentare replies
    respond reviews trackback trackbacks"""
# A widget has this word first; builders of pages end the names of all parts with it.
_BESIDE_FIRST_WORDS = "widget widgets"
_AUTHOR_WORDS = """
    about author authorbox authors auteur auteurs autor autore autoren bio byline bylines memberinfo postauthor
    postprofile profile userdetails userinfo userprofile userstats vcard"""
_NOTE_WORDS = """
    action actions button buttons cat categories category cats contact copy copyright credit credits date
    dateline dates datetime editsection facebook feedback follow hide keywords label labels legal license link linkedin
    linklist links meta metabar metadata more next pinterest postmeta prev previous print printer published rating
    ratings readmore reply search source sources tag tagcloud taglist tags timestamp tools topics whatsapp"""
# The end of a post, alone or with a word for text; but `member-signature` is the text of a reference.
_POST_NOTE_WORDS = "signature"
_TEXT_WORDS = """
    article blog body column container content contents entry hentry layout main page post row story text
    wrap wrapper"""
# These say how a page is laid out: `has-sidebar` is the element beside the sidebar. `js` is a hook for scripts, and
# `live-comment` belongs to a commentary.
_LAYOUT_WORDS = "deprecation has js left live no one open right two with without"

(
    _UNKNOWN_WORD,
    _LAYOUT_WORD,
    _TEXT_WORD,
    _POST_NOTE_WORD,
    _NOTE_WORD,
    _AUTHOR_WORD,
    _GATED_WORD,
    _BESIDE_FIRST,
    _BESIDE_END,
    _BESIDE_WORD,
    _COMMENTS_WORD,
) = range(11)
_WORDS = {
    word: kind
    for kind, words in (
        (_LAYOUT_WORD, _LAYOUT_WORDS),
        (_TEXT_WORD, _TEXT_WORDS),
        (_POST_NOTE_WORD, _POST_NOTE_WORDS),
        (_NOTE_WORD, _NOTE_WORDS),
        (_AUTHOR_WORD, _AUTHOR_WORDS),
        (_GATED_WORD, _GATED_WORDS),
        (_BESIDE_FIRST, _BESIDE_FIRST_WORDS),
        (_BESIDE_END, _BESIDE_ENDS),
        (_BESIDE_WORD, _BESIDE_WORDS),
        (_COMMENTS_WORD, _COMMENTS_WORDS),
    )
    for word in words.split()
}
_TELLING = frozenset(word for word, kind in _WORDS.items() if kind >= _POST_NOTE_WORD)
_HUMP = re.compile("(?<=[a-z])(?=[A-Z])")
_ROLES = frozenset(
    {"alertdialog", "banner", "complementary", "contentinfo", "dialog", "menu", "navigation", "search"}
)
_MAIN_NAME = re.compile(
    r"(?:^|\s)(?:entry|hentry|post|article|post-\d+)(?:$|\s)"
    r"|(?:^|[\s_-])(?:articlebody|storybody|bodytext"
    r"|(?:article|blog|content|entry|field|main|news|node|page|post|single|story|text)[_-]*(?:detail|full|main|single)?"
    r"[_-]*(?:body|contents?|contenu|copy|entry|inhalt|text))(?:$|[\s_-])",
    re.IGNORECASE,
)


def kind_of(attributes: Attributes) -> int:
    """Returns the kind of an element by its class, id, role and style."""
    names = attributes.get("class")
    if names and len(attributes) == 1:  # as most have
        return _kind_of_names(names) if len(names) <= _MAX_NAMES else TEXT
    if "hidden" in attributes:
        return INVISIBLE
    if attributes.get("role") in _ROLES or "style" in attributes and is_not_displayed(attributes):
        return BESIDE
    identifier = attributes.get("id")
    kind = _kind_of_names(names) if names and len(names) <= _MAX_NAMES else TEXT
    return max(kind, _kind_of_names(identifier)) if identifier and len(identifier) <= _MAX_NAMES else kind


def is_not_displayed(attributes: Attributes) -> bool:
    """Returns whether the style of an element hides it, at least until a script shows it."""
    style = attributes.get("style")
    return style is not None and "display:none" in style.replace(" ", "")


def is_article_body(attributes: Attributes) -> bool:
    """Returns whether the microdata of an element say that it is the text of an article."""
    names = attributes.get("itemprop")
    return names is not None and "articleBody" in names.split()


def names_main_part(attributes: Attributes) -> bool:
    """Returns whether an element has a class or id that templates give to the main part of a page."""
    names, identifier = attributes.get("class"), attributes.get("id")
    return bool(
        names
        and len(names) <= _MAX_NAMES
        and _is_main_name(names)
        or identifier
        and len(identifier) <= _MAX_NAMES
        and _is_main_name(identifier)
    )


@lru_cache(2**12)
def _is_main_name(name: str) -> bool:
    return _MAIN_NAME.search(name) is not None


@lru_cache(2**13)
def _kind_of_names(names: str) -> int:
    """Returns the kind of an element with these classes, which recur on page after page."""
    if not names.islower():
        names = _HUMP.sub("-", names).lower()
    if _TELLING.isdisjoint(_separated(names)):
        return TEXT
    kind = TEXT
    for name in names.split(None, _MOST_NAMES)[:_MOST_NAMES]:
        words = [_WORDS.get(word, _UNKNOWN_WORD) for word in _separated(name)]
        if words == [_TEXT_WORD]:
            return TEXT
        kind = max(kind, _kind_of_name(words))
    return kind


def _separated(names: str) -> list[str]:
    return names.replace("-", " ").replace("_", " ").split()


def _kind_of_name(words: list[int]) -> int:
    if not words or _LAYOUT_WORD in words:
        return TEXT
    has_text_word = _TEXT_WORD in words
    if _COMMENTS_WORD in words:
        return COMMENTS
    if words[0] == _BESIDE_FIRST or _BESIDE_WORD in words:
        return BESIDE
    if _BESIDE_END in words:
        return BESIDE if not has_text_word or _BESIDE_END in (words[0], words[-1]) else TEXT
    if _GATED_WORD in words:
        return GATED
    if _AUTHOR_WORD in words:
        return AUTHOR
    if words[-1] == _POST_NOTE_WORD:
        return TEXT if _UNKNOWN_WORD in words else NOTE
    return NOTE if words[-1] == _NOTE_WORD or _NOTE_WORD in words and not has_text_word else TEXT
