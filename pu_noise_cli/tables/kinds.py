"""The kind of a column, decided by plain counts of its values, and what to say where it is unclear.

Text among numbers never makes a column a category in silence.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..errors import option
from ..numerics import FloatArray, IntArray
from .notation import NUMBER, THOUSANDS, unclear

Kind = Literal["number", "boolean", "category"]

MIN_NUMERIC = 0.9  # fraction of the values that are numbers in a numeric column
MIN_MIXED = 0.2  # from which on a column of text may be one of numbers
MAX_EXAMINED = 1000  # distinct texts
MIN_DISTINCT = 10  # numbers with the same unit
MAX_OFFERED = 3  # texts that a message names

_NUMBER = re.compile(NUMBER)
_BOUND = re.compile(r"[<>≤≥~]=?\s*(.+)")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")
_UNIT = re.compile(r"[+-]?[0-9.]+ ?([A-Za-zµ°/]{1,8})")
_LIST = re.compile(r"[;&,|]")
_CHROMOSOMES = {"X", "Y", "XY", "M", "MT", "W", "Z"}
_NOTHING = ("", ".", "-", "NA", "nan")
_LISTS = {
    ";": "keep that of one transcript, or the largest (dbNSFP has one for each transcript)",
    "&": "choose one, as with bcftools +split-vep -s worst",
    ",": "split alleles with bcftools norm -m-, or choose one",
    "|": "choose one",
}
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec|mrz|mai|okt|dez"
NAME_AS_DATE = rf"(?i)^([0-9]{{1,2}}[-. ]+({_MONTHS})\.?|({_MONTHS})[-. ]+[0-9]{{2}})$"
DATE = (
    r"^([0-9]{4}[-/][0-9]{1,2}[-/][0-9]{1,2}([T ][0-9:.Z+-]+)?"
    r"|[0-9]{1,2}[-/.][0-9]{1,2}[-/.]([0-9]{4}|[0-9]{2}))$"
)
ID_NAME = re.compile(r"(?i)(.*[^a-z])?(id|idx|index|row|nr|no)([^a-z].*)?|.*[a-z]I[Dd]|unnamed.*")


class Counts(NamedTuple):
    """What a table has in a column."""

    values: int  # that are not missing
    numbers: int
    booleans: int
    typed: bool  # the file itself states that it holds numbers
    texts: Mapping[str, int]  # how often each text that is not a number occurs

    def kind(self) -> Kind | Literal["mixed"] | None:
        """The kind of column; None if it has no values, "mixed" if it is unclear."""
        if self.values == 0:
            return None
        if self.typed or self.numbers >= MIN_NUMERIC * self.values:
            return "number"
        if self.booleans == self.values:
            return "boolean"
        like_numbers = self.numbers + _like_numbers(self.texts)
        return "mixed" if like_numbers >= MIN_MIXED * self.values else "category"


def _examined(texts: Mapping[str, int]) -> list[tuple[str, int]]:
    return list(itertools.islice(texts.items(), MAX_EXAMINED))


def _like_numbers(texts: Mapping[str, int]) -> int:
    """How many values are lists of numbers, bounds such as <0.1, or numbers with one unit."""
    count, units = 0, Counter[str]()
    distinct = Counter[str]()
    for text, rows in _examined(texts):
        bound = _BOUND.fullmatch(text)
        if _separator(text) or (bound and _NUMBER.fullmatch(bound[1])):
            count += rows
        elif unit := _UNIT.fullmatch(text):
            units[unit[1]] += rows
            distinct[unit[1]] += 1
    return count + sum(rows for unit, rows in units.items() if distinct[unit] >= MIN_DISTINCT)


def _separator(text: str) -> str | None:
    """What separates the numbers of a list, or the digits of a number with a comma."""
    found = _LIST.search(text)
    if found is None:
        return None
    parts = [part.strip() for part in text.split(found[0])]
    numbers = [part for part in parts if _NUMBER.fullmatch(part)]
    others = [part for part in parts if part not in numbers and part not in _NOTHING]
    if not numbers or others or (found[0] == "|" and all(len(part) < 3 for part in numbers)):
        return None  # 0|1 is a genotype
    return found[0]


def remedy(column: str, texts: Mapping[str, int]) -> str:
    """What to do about text among numbers, to follow the place of the first one."""
    by_separator: dict[str | None, Counter[str]] = {}
    for text, rows in _examined(texts):
        by_separator.setdefault(_separator(text), Counter())[text] = rows
    separator = max(by_separator, key=lambda s: by_separator[s].total(), default=None)
    found = by_separator.get(separator, Counter())
    drop = f"{option('drop_columns', column)} leaves it out"
    if separator == "," and all(map(_COMMA.fullmatch, found)):
        if all(map(THOUSANDS[","].fullmatch, found)):
            return f"; {unclear(next(iter(found)))}"
        return (
            f"; if these are decimal commas, use {option('decimal')} ','; if they are lists, "
            f"{_LISTS[',']}; {drop}"
        )
    if separator is not None:
        what = f"a list separated by {separator!r} is not a number"
        return f"; {what}: {_LISTS[separator]}; {drop}"
    as_text = option("categorical", column)
    if all(text.upper().removeprefix("CHR") in _CHROMOSOMES for text in found):
        return f"; if these are chromosomes, read the column as text with {as_text}, or {drop}"
    repeated = [text for text, rows in found.most_common(MAX_OFFERED) if rows > 1]
    offered = repeated or list(found)[:1]
    missing = " ".join(f"{option('na')} {_quoted(text)}" for text in offered)
    return f"; mark missing values with {missing}, or read the column as text with {as_text}"


def _quoted(text: str) -> str:
    return repr(text[:60])


def described(kinds: Mapping[Kind, int]) -> str:
    """How many columns there are of which kind: 6 numeric, 3 categories, 1 yes/no."""
    category = "category" if kinds.get("category") == 1 else "categories"
    names: dict[Kind, str] = {"number": "numeric", "category": category, "boolean": "yes/no"}
    return ", ".join(f"{kinds[kind]} {name}" for kind, name in names.items() if kinds.get(kind))


def looks_like_id(name: str, values: FloatArray, tables: IntArray, rows: IntArray) -> bool:
    """Whether a column of numbers looks like an id.

    It does if it counts the rows of each table, or is called an id and never repeats.

    Parameters
    ----------
    values, tables, rows : (n,)
        Of sampled rows: the number, the table, and the place in the table.
    """
    if len(values) < MIN_DISTINCT or (values != np.rint(values)).any():  # NaN differs, too
        return False
    if ID_NAME.fullmatch(name) and len(np.unique(values)) == len(values):
        return True
    for table in np.unique(tables):
        here = tables == table
        counts = np.unique(values[here] - rows[here], return_counts=True)[1]
        if counts.max() < MIN_NUMERIC * counts.sum():
            return False
    return True


def counts_rows(
    name: str, values: FloatArray, tables: IntArray, rows: IntArray, sizes: Sequence[int]
) -> bool:
    """Whether a column numbers the rows, from 0 or 1, without a gap: then it is not a feature.

    It numbers those of each table, or goes on from one table to another. In a single table, it
    must be called an id, too: a protein's residues may have positions that count the rows.
    """
    first = dict[int, float]()
    for table in np.unique(tables):
        here = tables == table
        offset = values[here] - rows[here]
        if here.sum() < MIN_DISTINCT or offset[0] != offset.max() or offset[0] != offset.min():
            return False
        first[int(table)] = float(offset[0])
    if len(first) == 1:
        return {*first.values()} <= {0, 1} and ID_NAME.fullmatch(name) is not None
    order = sorted(first, key=lambda table: first[table])
    goes_on = all(first[a] + sizes[a] == first[b] for a, b in itertools.pairwise(order))
    return {*first.values()} <= {0, 1} or (first[order[0]] in (0, 1) and goes_on)
