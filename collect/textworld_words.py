"""The words of goals in TextWorld-Sync: verbs with what they ask for, and the pattern that finds all that a goal names.

Invariant: the words are data; `collect.textworld_goals` gives them their grammar.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple


class Asked(NamedTuple):
    """Forms of a verb as a pattern, and the kinds of condition it asks of a food and of a dish; none for a look."""

    forms: str
    of_food: tuple[str, ...] = ()
    of_dish: tuple[str, ...] = ()


VERBS: Mapping[str, Asked] = {
    "take": Asked(
        r"take|taking|collect(?:ing)?|gather(?:ing)?|get(?:ting)?|fetch(?:ing)?|pick(?:ing)?(?: up)?|grab(?:bing)?|"
        r"obtain(?:ing)?|acquire|bring(?:ing)?|retriev(?:e|ing)|touch(?:ing)?|taken|collected|gathered",
        ("taken",),
    ),
    "chop": Asked(r"chop(?:ping|ped)?", ("chopped",)),
    "slice": Asked(r"slic(?:e|ing|ed)", ("sliced",)),
    "dice": Asked(r"dic(?:e|ing|ed)", ("diced",)),
    "cut": Asked(r"cut(?:ting)?", ("cut",)),
    "fry": Asked(r"fry(?:ing)?|fried", ("fried",)),
    "roast": Asked(r"roast(?:ing|ed)?", ("roasted",)),
    "grill": Asked(r"grill(?:ing|ed)?", ("grilled",)),
    "cook": Asked(r"cook(?:ing|ed)?", ("cooked",), ("prepared",)),
    "prepare": Asked(r"prepar(?:e|ing|ed)|mak(?:e|ing)(?! sure)|assembl(?:e|ing|ed)", ("ready",), ("prepared",)),
    "process": Asked(r"process(?:ing|ed)?|ready", ("ready",), ("prepared",)),
    "place": Asked(r"plac(?:e|ing|ed)|put(?:ting)?(?! down)", ("placed",)),
    "eat": Asked(r"eat(?:ing|en)?|serv(?:e|ing|ed)|consum(?:e|ing|ed)", (), ("eaten",)),
    "complete": Asked(
        r"complet(?:e|ing|ed)|finish(?:ing|ed)?|accomplish|do|doing|handl(?:e|ing)|solv(?:e|ing)|fulfil+|deliver(?:ing)?",
        ("ready",),
        ("prepared", "eaten"),
    ),
    "open": Asked(r"open(?:ing|ed)?|unlock(?:ing|ed)?"),
    "look": Asked(
        r"find(?:ing)?|look(?:ing)?|check(?:ing)?|see|locat(?:e|ing)|inspect(?:ing)?|report(?:ing)?|tell(?:ing)?|"
        r"read(?:ing)?|list(?:ing)?|search(?:ing)?|watch(?:ing)?|verify(?:ing)?|explor(?:e|ing)|ask(?:ing)?|"
        r"wait(?:ing)?|return(?:ing)?|confirm(?:ing)?"
    ),
}
STOPS = r"[.;!?\n]|\bthen\b|\bbut\b|\bbefore\b|\bafter\b|\bonce\b|\bso that\b|\bwhile\b"
DEVICES: Mapping[str, str] = {"stove": "fry", "oven": "roast", "grill": "grill"}
LOOSE = ("complete", "look", "take", "process")  # without an object they say nothing: "and finish", "and report"
NEGATIONS = r"\b(?:do not|don't|dont|not|never|without|avoid|nobody|instead of)\b"


@lru_cache(maxsize=1024)
def tokens(things: tuple[str, ...], dishes: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern for everything that a goal can name; longer names first."""
    names = "|".join(re.escape(name) for name in sorted(things, key=len, reverse=True))
    ids = "|".join(re.escape(dish) for dish in sorted(dishes, key=len, reverse=True))
    parts = [
        (
            "all_dishes",
            r"\b(?:all|every|each|both|whole|entire)(?: of)?(?: the)?(?: \w+)? (?:dish(?:es)?|task|meals?)\b",
        ),
        ("dish", rf"\b(?:{ids}|dish[ _-]?\d+|(?:the|this|that|your) (?:dish|meal))\b"),
        ("every_food", r"\b(?:all|every|each)(?: of)?(?: the| its)?(?: \w+)? (?:ingredients?|foods?)\b"),
        ("foods", r"\b(?:ingredients?|foods?)\b"),
        ("thing", rf"\b(?:{names})s?\b"),
        ("gate", r"\b(?:gate|door)\b"),
        ("device", r"\b(?:in|on|with|using)(?: the)? (?:stove|oven|grill)\b"),
        ("counter", r"\b(?:on|onto|to)(?: the)? counter\b"),
        ("colon", r":"),
        ("them", r"\b(?:it|them)\b"),
        ("no", NEGATIONS),
        ("except", r"\b(?:except(?: for)?|other than|apart from)\b"),
        ("qualifier", r"\b(?:for|of|in|from|needed by|to)\b(?=(?: the)? dish)"),
        ("bracket", r"\("),
        ("stop", STOPS),
        *((f"verb_{stem}", rf"\b(?:{asked.forms})\b") for stem, asked in VERBS.items()),
        ("comma", r","),
    ]
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in parts))
