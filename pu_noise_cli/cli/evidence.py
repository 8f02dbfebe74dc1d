"""Evidence for variants: `calibrate` and `apply`."""

from __future__ import annotations

import re

from ..errors import UsageError
from .options import Options, command
from .process import Console
from .run import print_run

MONDO = re.compile(r"MONDO:\d{7}")


@command("calibrate")
def calibrate(options: Options, console: Console) -> None:
    """Calibrate a predictor: score thresholds for PP3 and BP4.

    The classes may both be known (--negatives), or only the positive one (--unlabeled). Writes
    thresholds.tsv, thresholds.json (a score calibration as MaveDB takes it, with the rows of known
    class), report.html, model.punoise, and everything else that 'run' writes into DIR. With --by,
    group_thresholds.tsv has thresholds for each gene.

    \b
    punoise calibrate --labeled pathogenic.tsv --negatives benign.tsv --score-column REVEL \\
        --alpha 0.0441 --out-dir revel
    punoise apply --thresholds revel/thresholds.tsv --table new.tsv --score-column REVEL --out e.tsv
    """
    from .. import pipeline
    from ..report.page import converter, write_figures

    if options.disease is not None and not MONDO.fullmatch(options.disease):
        raise UsageError(f"--disease {options.disease}: is not an id such as MONDO:0007254")
    check_classes(options)
    if options.figures is not None:
        converter()  # a usage error if it is missing
    settings = options.pick(
        pipeline.RunSettings,
        inputs=options.pick(pipeline.Inputs),
        scoring=options.pick(pipeline.ScoreSettings),
        prior=options.pick(pipeline.PriorSettings),
        wanted=options.pick(pipeline.Wanted),
        calibration=options.pick(pipeline.CalibrationRecord),
        options=options.recorded(affects_results=True),
        execution={"command": "calibrate", **options.recorded(affects_results=False)},
    )
    with options.engine(console) as engine:
        result = pipeline.run(settings, engine, options.out_dir)
    if options.figures is not None:
        write_figures(result.page.drawn, options.figures)
    print_run(result, options.out_dir, console)
    console.check_strict(result.notices)


def check_classes(options: Options) -> None:
    """Stop if rows of unnamed labels, such as benign ones, would become the population."""
    from ..tables.dialect import Layout
    from ..tables.reading import open_table
    from ..tables.rows import EVERY_OTHER, count_labels, listed_labels

    labeled = options.labeled_value
    if not labeled or EVERY_OTHER in labeled or options.negative_value or options.unlabeled_value:
        return
    table, column = open_table(options.table, options.pick(Layout)), options.label_column
    table.require(column, "--label-column")
    others = count_labels(table, column)
    for value in labeled:
        del others[value]
    also = f" column {column!r} also has {listed_labels(others)};" if others else ""
    raise UsageError(
        f"{table.name}: --labeled-value alone does not say what the other rows are;{also} name "
        f"known negatives with --negative-value, and the population with --unlabeled-value "
        f"('{EVERY_OTHER}' for all others)"
    )


@command("apply")
def apply(options: Options, console: Console) -> None:
    """Give each row its level of evidence and points, by thresholds of your own or published ones.

    \b
    punoise apply --thresholds revel/thresholds.tsv --table new.tsv --score-column REVEL --out e.tsv
    punoise apply --thresholds pejaver2022:REVEL --table new.tsv --score-column REVEL --out e.tsv
    punoise apply --thresholds revel/group_thresholds.tsv --by GENE --table new.tsv \\
        --score-column REVEL --out e.tsv
    """
    from ..evidence.apply import GroupRanges, LevelRanges, WriteEvidence
    from ..tables.dialect import Layout
    from ..tables.reading import open_table
    from ..tables.rows import Rows

    by, table = options.by, open_table(options.table, options.pick(Layout))
    if by is not None:
        table.require(by, "--by")
    ranges = (LevelRanges if by is None else GroupRanges).read(options.thresholds)
    step = WriteEvidence(ranges, options.score_column, options.add_points, options.na, by)
    rows = Rows.from_tables(
        [table],
        features=step.columns,
        id_columns=options.id_column,
        keep=(*options.keep_columns, *(() if by is None else (by,))),
        wanted_by="score_column",
    )
    options.check_table_out(rows)
    if isinstance(ranges, GroupRanges):
        ranges.check_column(rows, by)
    with options.engine(console) as engine:
        counts = engine.write(step, rows, "apply", options.out)
    for level in (*ranges.levels[1:], ranges.levels[0]):
        console.say(f"{counts.levels[level]:>9}  {level}")
    if counts.levels[""]:
        console.say(f"{counts.levels['']:>9}  without a score")
    if counts.other_rows:
        n = len(counts.other_groups)
        groups = f" of {n:,} group{'s' * (n > 1)}" if n else ""
        console.say(f"{counts.other_rows:>9}  rows{groups} have the thresholds of (other)")
    if isinstance(ranges, LevelRanges):
        console.warn(ranges.check_predictor(options.score_column))
