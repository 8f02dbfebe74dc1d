"""Groups of options of commands that read tables which others have made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from .errors import UsageError
from .parameters import Common, LazyChoice, NameList, NameLists, joined, option, reads, writes

if TYPE_CHECKING:
    from .tables import Table


def _kinds() -> Iterable[str]:
    from .files import KINDS

    return KINDS


@dataclass(frozen=True, kw_only=True)
class InputFormat(Common):
    """Commands that read tables which others have made."""

    input_format: str | None = option(
        "--input-format",
        "Input",
        "What the tables are, whatever their names say.",
        type=LazyChoice(_kinds),
    )

    def open_table(self, name: str) -> Table:
        """A table of the user's, of the format that it is said to have."""
        from .tables import open_table

        return open_table(name, self.input_format)


@dataclass(frozen=True, kw_only=True)
class CarriedColumns(Common):
    """Commands whose output has columns of their input."""

    id_column: NameLists = option(
        "--id-column",
        "Columns",
        "Column of row ids, kept as written, or several that are an id together; by default rows "
        "are numbered.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    keep_columns: NameLists = option(
        "--keep-columns",
        "Columns",
        "Columns that the outputs are to have too, as written; they are no features unless named "
        "as such.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )


@dataclass(frozen=True, kw_only=True)
class MissingScore(Common):
    """Commands that may use a column as the score."""

    missing_score: str | None = option(
        "--missing-score",
        "Score",
        "Where a column is the score and a row has no value there: stop, or skip the row, which "
        "then has no posterior and counts nowhere.  [default: stop]",
        type=click.Choice(["stop", "skip"]),
    )

    @property
    def skip_missing(self) -> bool | None:
        """Whether to skip rows without a score, where that was said."""
        return None if self.missing_score is None else self.missing_score == "skip"


@dataclass(frozen=True, kw_only=True)
class NamedTables(Common):
    """The tables of labeled and unlabeled rows and of known negatives, or one of all.

    As the last base of a class of options it comes first in the help.
    """

    labeled: str | None = reads("--labeled", "FILE", "Table of labeled positives.")
    unlabeled: str | None = reads("--unlabeled", "FILE", "Table of unlabeled rows.")
    negatives: str | None = reads(
        "--negatives", "FILE", "Table of known negatives that look like those among the unlabeled."
    )
    table: str | None = reads("--table", "FILE", "One table of all, with --label-column.")
    label_column: str | None = option(
        "--label-column",
        "Input",
        "Column of --table that says which rows are labeled: 1/0, true/false, yes/no or "
        "labeled/unlabeled; and negative, for known negatives.",
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class LabelValues(Common):
    """Commands that can read a label column in words of the user's own."""

    labeled_value: NameLists = option(
        "--labeled-value",
        "Input",
        "Values of --label-column that mean labeled, such as P; rows with others are unlabeled.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    negative_value: NameLists = option(
        "--negative-value",
        "Input",
        "With --labeled-value: values that mean a known negative, such as B.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )

    def label_values(self, label_column: str | None) -> list[tuple[str, int]]:
        """What values of the label column say, where that is the user's own."""
        from .sketch import LABELED, NEGATIVE

        stated = self.given("labeled_value", "negative_value")
        if stated and label_column is None:
            raise UsageError(f"{stated[0]} goes with --label-column")
        labeled, negative = joined(self.labeled_value), joined(self.negative_value)
        if negative and not labeled:
            raise UsageError("--negative-value goes with --labeled-value")
        if both := set(labeled) & set(negative):
            raise UsageError(f"{min(both)!r} cannot be a labeled and a negative value")
        return [(v, LABELED) for v in labeled] + [(v, NEGATIVE) for v in negative]


@dataclass(frozen=True, kw_only=True)
class ByOption(Common):
    """Commands that can tell groups of rows apart."""

    by: str | None = option(
        "--by",
        "Columns",
        "Estimate alpha for each group of rows that this column names (gene, charge, tissue); the "
        "smaller a group, the more it leans on all the others. The outputs keep the column.",
        metavar="COLUMN",
    )

    @property
    def by_columns(self) -> tuple[str, ...]:
        """The columns that must be carried through for it."""
        return () if self.by is None else (self.by,)


@dataclass(frozen=True, kw_only=True)
class GroupsOption(ByOption):
    """Commands that write the groups to a file of any name."""

    groups_out: str | None = writes(
        "--groups-out", "GROUPS", "With --by: the table of groups to write."
    )

    def check_groups_out(self) -> None:
        """Stop, before any work is done, where the groups cannot be written."""
        from .outputs import check_table_target

        if self.groups_out is None:
            return
        if self.by is None:
            raise UsageError("--groups-out goes with --by, which says what groups there are")
        check_table_target(self.groups_out)
