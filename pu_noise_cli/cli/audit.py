"""Rows to verify by hand: `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..errors import InputError, UsageError
from .options import (
    InputFormat,
    NameList,
    NameLists,
    Seeded,
    Strict,
    command,
    joined,
    option,
    reads,
    writes,
)
from .process import Console

if TYPE_CHECKING:
    import pyarrow as pa

    from ..audit.design import Design
    from ..numerics import IntArray
    from ..score.scores import Scores
    from ..tables.reading import Table


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Seeded, Strict, InputFormat):
    scores: str = reads("--scores", "SCORES", "Scores that 'transform' wrote.", required=True)
    prior: str = reads("--prior", "PRIOR.json", "What 'estimate-prior' wrote.", required=True)
    rows: int = option(
        "--rows",
        "Audit",
        "Unlabeled rows to draw, for alpha.",
        type=click.IntRange(0, 10**5),
        default=100,
    )
    labeled_rows: int = option(
        "--labeled-rows",
        "Audit",
        "Labeled rows to draw, for beta.",
        type=click.IntRange(0, 10**5),
        default=0,
    )
    verdicts: tuple[str, ...] = reads(
        "--verdicts",
        "AUDIT",
        "Earlier audits with the same --scores and --prior: draw other rows; may be repeated.",
        multiple=True,
    )
    keep_columns: NameLists = option(
        "--keep-columns",
        "Columns",
        "Columns to show beside each row: of SCORES, or of the tables that are given; by default "
        "those that SCORES has beyond its own.",
        metavar="A,B,...",
        type=NameList(),
        multiple=True,
    )
    labeled: str | None = reads("--labeled", "FILE", "Table of labeled rows, for --keep-columns.")
    unlabeled: str | None = reads(
        "--unlabeled", "FILE", "Table of unlabeled rows, for --keep-columns."
    )
    negatives: str | None = reads(
        "--negatives", "FILE", "Table of known negatives, for --keep-columns where scores have any."
    )
    table: str | None = reads("--table", "FILE", "One table of all, for --keep-columns.")
    out: str = writes("--out", "AUDIT", "Table to write, to be filled in.", required=True)


@command(AuditOptions)
def audit(given: AuditOptions, console: Console) -> None:
    """Draw rows to verify by hand, which make alpha sharp.

    Write yes or no into the column 'verdict' and leave it empty where unsure; keep all rows.
    'estimate-prior --verdicts' then gives alpha with an interval that assumes nothing but that the
    verdicts are right.

    \b
    punoise audit --scores scores.tsv --prior prior.json --rows 100 --out audit.tsv
    punoise estimate-prior --scores scores.tsv --verdicts audit.tsv --out verified.json
    """
    import numpy as np

    from ..audit.design import check_no_verdicts, designs, draw_rows, earlier_rows
    from ..posterior.calibration import calibrate
    from ..prior.document import read_prior, shares_for
    from ..scale.engine import open_engine
    from ..score.scores import Scores
    from ..tables.writing import check_table_target, write_table

    check_table_target(given.out)
    check_no_verdicts(given.out)
    if given.rows + given.labeled_rows == 0:
        raise UsageError("give --rows or --labeled-rows above 0")
    prior = read_prior(given.prior)
    scored = Scores.open(given.scores)
    tables = _tables(given, scored)
    with open_engine(None, given.threads, console) as engine:
        sketch = scored.checked_sketch(engine)
    if not sketch.n_unlabeled:
        raise InputError(f"{given.scores}: has no unlabeled rows to verify")
    if given.unlabeled is not None and (given.negatives is None) != (sketch.n_negative == 0):
        raise UsageError("--negatives goes with scores of known negatives, and they with it")
    sketch, shares, notices = shares_for(prior, sketch)
    calibration = calibrate(sketch, shares)
    by_set = designs(calibration)
    earlier, taken = earlier_rows(given.verdicts, scored, sketch, by_set)
    wanted = given.rows, given.labeled_rows
    drawn = draw_rows(scored, sketch, by_set, wanted, taken, earlier, given.seed)
    keep = joined(given.keep_columns) or scored.rows.kept
    drawn = _with_columns(drawn, tables, keep, np.asarray(drawn["row"]) - 1)
    write_table(given.out, drawn.combine_chunks().to_batches()[0])
    _foretell(given, by_set, console)
    notices = (*notices, *calibration.notices)
    console.warn(notices)
    given.check_strict(notices)


def _tables(given: AuditOptions, scored: Scores) -> Sequence[Table]:
    """The tables that columns are to be taken from, whose rows are those of SCORES in order."""
    of_sets = given.labeled, given.negatives, given.unlabeled  # in the order of SCORES
    named = given.given("labeled", "unlabeled", "negatives", "table", "input_format")
    if named and not given.keep_columns:
        raise UsageError(f"{named[0]} goes with --keep-columns")
    if not named:
        return scored.rows.tables
    if given.table is not None:
        if any(name is not None for name in of_sets):
            raise UsageError("give either --table, or --labeled and --unlabeled, not both")
        return [given.open_table(given.table)]
    if given.labeled is None or given.unlabeled is None:
        raise UsageError("give both --labeled and --unlabeled, or --table")
    return [given.open_table(name) for name in of_sets if name is not None]


def _with_columns(
    drawn: pa.Table, tables: Sequence[Table], columns: Sequence[str], rows: IntArray
) -> pa.Table:
    from ..audit.design import kept_columns

    if clash := set(columns) & set(drawn.column_names):
        raise UsageError(f"--keep-columns: {min(clash)!r} is a column of its own in an audit")
    if not columns:
        return drawn
    kept = kept_columns(tables, columns, rows)
    for column in columns:
        drawn = drawn.append_column(column, kept[column])
    return drawn


def _foretell(given: AuditOptions, by_set: tuple[Design, Design], console: Console) -> None:
    from ..audit.design import SAMPLE_SIZES

    for name, wanted, design in zip(
        ("alpha", "beta"), (given.rows, given.labeled_rows), by_set, strict=True
    ):
        if wanted:
            widths = [
                f"{w:.3f} after {n}"
                for n, w in zip(SAMPLE_SIZES, design.expected_widths(), strict=True)
            ]
            console.say(f"width  of the interval of {name}: {', '.join(widths)} rows verified")
