"""Numbers as a reader wants them, and strangers' text as a page can carry it."""

from __future__ import annotations

import json
import unicodedata
from html import escape
from typing import Any

from ..estimators import Interval
from ..prior import lower_end

NBSP = "\u00a0"
SHORT = 48  # characters of a name that are shown at once
LONGEST = 20_000  # characters of a name that are kept at all
FULL_TEXT_BYTES = 150_000  # of all long names of a page together, so that it stays light
WIDE = 0.4  # an interval beyond which an estimate says little
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, bidi marks, lone surrogates


def percent(share: float) -> str:
    """A share for reading: 18.5 %, and two decimals where it is nearly none or nearly all."""
    value = 100 * share
    edge = min(value, 100 - value)
    if 0 < edge < 0.005:
        return f"{value:.1g}{NBSP}%" if value < 50 else f"more than 99.99{NBSP}%"
    decimals = 0 if edge == 0 else 2 if edge < 1 else 1
    return f"{value:.{decimals}f}{NBSP}%"


def percent_range(interval: Interval) -> str:
    return f"{percent(lower_end(interval))} to {percent(interval[1])}"


def is_wide(share: float, interval: Interval | None) -> bool:
    """Whether an interval is wider than the estimate itself, or than four tenths."""
    return interval is not None and interval[1] - interval[0] > min(share, WIDE)


def count(number: float) -> str:
    """A number of rows, in groups of three digits."""
    return f"{round(number):,}"


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a table; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}g}"


def rounded(value: float) -> float:
    """A value as charts carry it: six digits say more than a screen can."""
    return float(f"{value:.6g}")


def visible(text: str) -> str:
    """Text in which what cannot be seen, or turns the writing around, is spelled out."""
    return "".join(
        c if c == " " or unicodedata.category(c) not in INVISIBLE else _spelled(c)
        for c in text[:LONGEST]
    )


def _spelled(character: str) -> str:
    names = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(character)
    return names.get(character) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def shortened(text: str, limit: int = SHORT) -> str:
    """A name on one line, cut where it is long."""
    line = visible(text[: limit + 1])
    return line if len(line) <= limit else line[: limit - 1] + "…"


def script_json(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element or a line."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


class Names:
    """Strangers' text as HTML: isolated, on one line, the whole of a long one behind a click.

    The whole text is kept until a budget is spent; of later long ones only the beginning is.
    """

    def __init__(self, budget: int = FULL_TEXT_BYTES) -> None:
        self.budget = budget

    def html(self, text: str, limit: int = SHORT) -> str:
        short = f"<bdi>{escape(shortened(text, limit))}</bdi>"
        if len(text) <= limit and len(visible(text)) <= limit:
            return short
        whole = f"<bdi>{escape(visible(text))}</bdi>"
        size = len(whole.encode())
        if size > self.budget:
            return f"{short} <small>({count(len(text))} characters)</small>"
        self.budget -= size
        cut = "" if len(text) <= LONGEST else f" … ({count(len(text))} characters)"
        return (
            f'<details class="long"><summary>{short}</summary>'
            f'<div class="whole">{whole}{cut}</div></details>'
        )
