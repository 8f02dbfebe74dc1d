"""Rows to verify by hand: `audit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InputError, UsageError
from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    import pyarrow as pa

    from ..tables.reading import Table
    from ..tables.rows import Rows


@command("audit")
def audit(options: Options, console: Console) -> None:
    """Choose rows to verify by hand, to narrow the interval of alpha.

    Fill in the column 'verdict' with yes or no. Leave it empty if you are unsure, and keep all
    rows. Then run 'estimate-prior --verdicts': the interval assumes only that the verdicts are
    correct. With --top, fewer verdicts are enough: they show how many of the best-scoring rows are
    positive, and alpha follows from that and from the scores.

    \b
    punoise audit --scores scores.tsv --prior prior.json --top --rows 20 --out audit.tsv
    punoise audit --scores scores.tsv --prior prior.json --rows 100 --out audit.tsv
    punoise estimate-prior --scores scores.tsv --verdicts audit.tsv --out verified.json
    """
    from .. import pipeline
    from ..audit.design import check_no_verdicts, designs, draw_rows, earlier_rows
    from ..prior.document import read_prior
    from ..score.scores import open_scores
    from ..tables.writing import check_table_target, write_table

    check_table_target(options.out)
    check_no_verdicts(options.out)
    wanted = (options.rows, options.labeled_rows)
    if sum(wanted) == 0:
        raise UsageError("give --rows or --labeled-rows above 0")
    prior = read_prior(options.prior)
    with options.engine(console) as engine:
        scored = pipeline.read_scores(open_scores(options.scores), engine)
    assert scored.rows is not None
    tables, sketch = _tables(options, scored.rows), scored.sketch
    if not sketch.n_unlabeled:
        raise InputError(f"{options.scores}: has no unlabeled rows to verify")
    if options.unlabeled is not None and (options.negatives is None) != (sketch.n_negative == 0):
        raise UsageError("scores with known negatives need --negatives, and vice versa")
    calibration = pipeline.calibrate_scores(scored, prior)
    sketch, by_set = calibration.sketch, designs(calibration, options.top)
    earlier, taken = earlier_rows(options.verdicts, scored.rows, sketch, by_set)
    drawn = draw_rows(scored.rows, sketch, by_set, wanted, taken, earlier, options.seed)
    n_scores = int(sketch.counts.sum()) + sketch.missing + sketch.overlap
    drawn = _with_columns(drawn, tables, options.keep_columns or scored.rows.kept, n_scores)
    write_table(options.out, drawn.combine_chunks().to_batches()[0])
    fewer = (
        f" (there are no more than that; asked for {sum(wanted)})"
        if len(drawn) < sum(wanted)
        else ""
    )
    console.say(
        f"rows   {len(drawn)} to verify in {options.out}{fewer}: fill in the column verdict"
    )
    for name, rows, design in zip(("alpha", "beta"), wanted, by_set, strict=True):
        if rows:
            widths = design.expected_widths(calibration, prior).items()
            expected = ", ".join(f"{100 * width:.1f} after {n}" for n, width in widths)
            interval = getattr(prior, f"{name}_ci")
            now = f" (now {100 * (interval[1] - interval[0]):.1f})" if interval else ""
            where = " at the top" if design.top else ""
            console.say(
                f"width  of the interval of {name} in percentage points, expected: {expected} "
                f"verdicts{where}{now}"
            )
    console.conclude(calibration.notices)


def _with_columns(
    drawn: pa.Table, tables: Sequence[Table], columns: Sequence[str], n_scores: int
) -> pa.Table:
    """The drawn rows with further columns of the tables."""
    import numpy as np

    from ..audit.design import kept_columns

    if clash := set(columns) & set(drawn.column_names):
        raise UsageError(f"--keep-columns: {min(clash)!r} is a column of the audit itself")
    if not columns:
        return drawn
    kept = kept_columns(tables, columns, np.asarray(drawn["row"]) - 1, n_scores)
    for column in columns:
        drawn = drawn.append_column(column, kept[column])
    return drawn


def _tables(options: Options, rows: Rows) -> Sequence[Table]:
    """The tables to take columns from; their rows are those of SCORES, in order."""
    from ..tables.dialect import Layout
    from ..tables.reading import open_table

    by_set = (options.labeled, options.negatives, options.unlabeled)
    layout = options.pick(Layout)
    if options.table is not None:
        return [open_table(options.table, layout)]
    if not any(by_set):
        return rows.tables
    if options.labeled is None or options.unlabeled is None:
        raise UsageError("give both --labeled and --unlabeled, or --table")
    return [open_table(name, layout) for name in by_set if name is not None]
