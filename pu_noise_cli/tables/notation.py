"""How numbers are written: decimal marks, separators between thousands, percent signs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import option
from ..numerics import BoolArray

MISSING_TEXTS = (
    *("", ".", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "-nan"),
    *("NULL", "null", "None"),
)
EXPONENT = r"([eE][+-]?[0-9]+)?"
INFINITE = r"[+-]?(?i:inf|infinity)"
NUMBER = rf"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+){EXPONENT}$|^{INFINITE}$"
SPACES = " \u00a0\u2009\u202f'\u2019"  # that only ever separate thousands
MINUS = "\u2212"  # as typeset
OTHER_MARK = {".": ",", ",": "."}

# by mark: 0,5 and 1.234,5 and 1.234.567 show a decimal comma; the point in 1.234 may be either
DECIMAL = {
    own: re.compile(
        rf"[+-]?(([0-9]*[{own}]([0-9]{{1,2}}|[0-9]{{4,}})|0*[{own}][0-9]+){EXPONENT}"
        rf"|[0-9]{{1,3}}(([{other}][0-9]{{3}})+[{own}][0-9]*|([{other}][0-9]{{3}}){{2,}}))"
    )
    for own, other in OTHER_MARK.items()
}
THOUSANDS = {
    own: re.compile(rf"[+-]?[0-9]{{1,3}}([{own}][0-9]{{3}})+([{other}][0-9]*)?")
    for own, other in OTHER_MARK.items()
}


@dataclass(frozen=True)
class Notation:
    """The decimal mark of a file's numbers, and whether the other mark separates thousands."""

    decimal: str = "."
    thousands: bool = False

    @cached_property
    def _pattern(self) -> str:
        """A number, perhaps with a percent sign."""
        marks = [SPACES, OTHER_MARK[self.decimal]] if self.thousands else [SPACES]
        whole = "|".join(["[0-9]+", *(f"[0-9]{{1,3}}([{mark}][0-9]{{3}})+" for mark in marks)])
        number = rf"[+-]?(({whole})([{self.decimal}][0-9]*)?|[{self.decimal}][0-9]+)"
        return rf"^{number}({EXPONENT}|[{SPACES}]?%)$|^{INFINITE}$"

    def parse(self, text: pa.Array) -> tuple[pa.Array, pa.Array, BoolArray]:
        """Which texts are numbers, the numbers, null for the others, and which are percentages.

        All are of shape (n,). A percentage is a fraction: 12% is 0.12.
        """
        text = pc.replace_substring(text, MINUS, "-")
        is_number = pc.match_substring_regex(text, self._pattern)
        digits = pc.if_else(is_number, text, pa.scalar(None, text.type))
        digits = pc.replace_substring_regex(digits, f"[{SPACES}{OTHER_MARK[self.decimal]}]", "")
        if self.decimal != ".":
            digits = pc.replace_substring(digits, self.decimal, ".")
        percent = np.asarray(pc.fill_null(pc.ends_with(digits, "%"), False))
        if percent.any():
            digits = pc.replace_substring(digits, "%", "e-2")
        return is_number, pc.cast(digits, pa.float64()), percent

    def number(self, text: str) -> float:
        """One number; NaN if it is none."""
        _, numbers, _ = self.parse(pa.array([text.strip()]))
        value = numbers[0].as_py()
        return float("nan") if value is None else float(value)


PLAIN = Notation()


def unclear(text: str | None) -> str:
    """What to say of a number like 1,234, whose mark may be either."""
    text = text or ""
    return (
        f"{text!r} may mean {text.replace(',', '.')} or {text.replace(',', '').replace('.', '')}: "
        f"say which mark is the decimal mark, {option('decimal')} '.' or {option('decimal')} ','"
    )


@dataclass(frozen=True)
class Marks:
    """What values seen so far say about the decimal mark: an example of each, if there is one."""

    point: str | None = None  # where a point can only be the decimal mark
    comma: str | None = None
    point_thousands: str | None = None  # where it may separate thousands
    comma_thousands: str | None = None

    @classmethod
    def of(cls, values: Iterable[str]) -> Marks:
        """What some values say."""
        found: dict[str, str] = {}
        names = {".": "point", ",": "comma"}
        for value in values:
            if "," not in value and "." not in value:
                continue
            value = value.strip().removesuffix("%").rstrip().replace(MINUS, "-")
            for mark, name in names.items():
                if DECIMAL[mark].fullmatch(value):
                    found.setdefault(name, value)
                if THOUSANDS[mark].fullmatch(value):
                    found.setdefault(f"{name}_thousands", value)
        return cls(**found)

    def __or__(self, other: Marks) -> Marks:
        return Marks(
            self.point or other.point,
            self.comma or other.comma,
            self.point_thousands or other.point_thousands,
            self.comma_thousands or other.comma_thousands,
        )

    @property
    def points_are_unclear(self) -> bool:
        """Whether points may separate thousands and nothing shows a decimal mark."""
        return bool(self.point_thousands and not self.point and not self.comma)

    def described(self, notation: Notation) -> list[str]:
        """What a user should know about a notation that was found."""
        said = []
        if notation.decimal == ",":
            said.append(f"numbers have a decimal comma, as in {self.comma}")
        if notation.thousands:
            example = self.point_thousands if notation.decimal == "," else self.comma_thousands
            said.append(f"'{OTHER_MARK[notation.decimal]}' separates thousands, as in {example}")
        return said

    def notation(self) -> Notation:
        """The notation; what contradicts it is then text in a column of numbers, and an error."""
        if self.comma and not self.point:
            return Notation(",", bool(self.point_thousands))
        return Notation(".", bool(self.point and self.comma_thousands and not self.comma))
