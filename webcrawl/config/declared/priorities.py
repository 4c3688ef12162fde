"""Settings that choose what is crawled first."""

from __future__ import annotations

from webcrawl.config.kinds import PartsOfWhole
from webcrawl.config.rules import LevelRules, WeightedPatterns
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

GROUP = SettingGroup(
    "Choose what comes first",
    Setting(
        "PRIORITIZERS",
        IN_PARTS,
        "The terms whose sum is the weight of a URL; `None` leaves one out. The numbers are the order in which "
        "`scrapy checkurl` prints them. See [Add a term](priorities.md#add-a-term).",
        example={"webcrawl.policies.terms.Parameters": None},
        unset={},
    ),
    Setting(
        "URL_LEVELS",
        [],
        "Pairs of a regular expression, searched anywhere in a URL, and a level. A number from 0 to 7 sets the "
        'level of the URLs that match; 0 is the best, 3 the usual one. Text with a sign shifts it: `"+2"` is two '
        'levels worse, `"-1"` one better. The first pair that sets a level counts, and all that shift it.',
        values=LevelRules(),
        example=[("^https://news.example.org/[a-z]+/$", 0), ("/tag/", "+2")],
    ),
    Setting(
        "ANCHOR_WORDS",
        {},
        "Regular expressions that are searched for in the text of links, in upper and lower case, and how many "
        "levels better a match is than usual; a negative number is worse. Link texts are extracted only if this "
        "is set.",
        values=WeightedPatterns(),
        example={"next|weiter": 1, "log ?in|print": -2},
    ),
    Setting(
        "MINED",
        False,
        "Weighs links by what [`scrapy mine`](../guide/mining.md) has learned from the pages and links of earlier "
        "crawls or of this one, and gives less importance to links of boilerplate. The weights are the file `weights` "
        "in `DATA_DIR/mined`, or in `mined/` below `STORE_URI`. Workers read it again when it has changed. Without "
        "the file, it changes nothing.",
    ),
    Setting(
        "TRAFFIC",
        {},
        "The [shares of fetches](../guide/shares-of-fetches.md) that classes of fetches get, as "
        "parts of a whole of any size. A class that is not named gets what the others do not use. What a class does "
        "not use goes to the others by their shares. A domain may have a table of its own, for its hosts. Without a "
        "table, the best URL comes first whatever its fetch is for.",
        values=PartsOfWhole(("coverage-get", "freshness-get", "coverage-chk", "freshness-chk", "update-chk")),
        example={"coverage-get": 60, "update-chk": 40},
    ),
    intro="`scrapy checkurl URL --from PAGE` shows the weight of a URL, its terms and its level. See "
    "[Priorities](../guide/priorities.md).",
)
