"""Evidence for variants: `calibrate` and `apply`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..settings import ApplySettings, CalibrateSettings, Inputs
from .options import command, engine_for
from .process import Console
from .run import print_answer, print_files

if TYPE_CHECKING:
    from ..variants.groups import GroupThresholds
    from ..variants.rules import Level
    from ..variants.thresholds import Thresholds

MONDO = re.compile(r"MONDO:\d{7}")


@command("calibrate", CalibrateSettings)
def calibrate(settings: CalibrateSettings, console: Console) -> None:
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
    from ..recipes import calibrate as recipe
    from ..report.page import converter, write_figures

    if settings.disease is not None and not MONDO.fullmatch(settings.disease):
        raise UsageError(f"--disease {settings.disease}: is not an id such as MONDO:0007254")
    check_classes(settings.inputs)
    if settings.figures is not None:
        converter()  # a usage error if it is missing
    settings = replace(settings, execution={"command": "calibrate", **settings.execution})
    with engine_for(settings.process, console) as engine:
        calibrated = recipe.calibrate(settings, engine, settings.out_dir)
    result = calibrated.result
    if settings.figures is not None:
        write_figures(result.page().drawn, settings.figures)
    print_answer(result, calibrated.files, settings.out_dir, console)
    print_thresholds(calibrated.thresholds, console)
    if calibrated.group_thresholds is not None:
        print_group_thresholds(calibrated.group_thresholds, console)
    print_files(result, calibrated.files, settings.out_dir, console)
    console.check_strict(result.notices)


def print_thresholds(thresholds: Thresholds, console: Console) -> None:
    """The score at which each level of evidence begins."""
    for threshold in thresholds.levels:
        level = f"{threshold.level.code:<16}"
        if threshold.reached is None:
            console.say(f"{level} not reached{_why_not(threshold.level, thresholds)}")
            continue
        sign = "<=" if threshold.level.against != thresholds.lower_is_positive else ">="
        counts = {
            "unlabeled": threshold.n_unlabeled,
            "labeled": threshold.n_labeled,
            "negative": threshold.n_negatives,
        }
        rows = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        console.say(f"{level} score {sign} {threshold.reached.score_from:.4g}  {rows} rows")


def _why_not(level: Level, thresholds: Thresholds) -> str:
    """Why a level cannot be reached at all, if it cannot."""
    from ..variants.thresholds import rows_that_limit

    if not thresholds.is_out_of_reach(level):
        return ""
    limit, most = thresholds.reach[not level.against], "least" if level.against else "most"
    rows = rows_that_limit(thresholds.calibration.sketch, level.against)
    return f": {rows} can show a ratio of at {most} {limit:.3g}, not {level.lr:.3g}"


def print_group_thresholds(by_group: GroupThresholds, console: Console) -> None:
    """The range of alpha over groups or, if they share it, of the weakest thresholds."""
    alpha = by_group.groups.shares.alpha[1:]
    if len(alpha) == 0 or alpha.min() < alpha.max():
        console.print_groups(by_group.groups)
        return
    weakest = {level.against: level.code for level in by_group.levels}.values()
    begins = {code: sorted(b for b in by_group.columns[code] if b == b) for code in weakest}
    parts = [f"{code} from {b[0]:.4g} to {b[-1]:.4g}" for code, b in begins.items() if b]
    console.print_groups(by_group.groups, parts)


def check_classes(inputs: Inputs) -> None:
    """Stop if rows of unnamed labels, such as benign ones, would become the population."""
    from ..tables.reading import open_table
    from ..tables.rows import EVERY_OTHER, count_labels, listed_labels

    labeled, column = inputs.labeled_value, inputs.label_column
    if not labeled or EVERY_OTHER in labeled or inputs.negative_value or inputs.unlabeled_value:
        return
    assert column is not None  # which the values need
    table = open_table(str(inputs.table), inputs.layout)
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


@command("apply", ApplySettings)
def apply(settings: ApplySettings, console: Console) -> None:
    """Give each row its level of evidence and points, by thresholds of your own or published ones.

    \b
    punoise apply --thresholds revel/thresholds.tsv --table new.tsv --score-column REVEL --out e.tsv
    punoise apply --thresholds pejaver2022:REVEL --table new.tsv --score-column REVEL --out e.tsv
    punoise apply --thresholds revel/group_thresholds.tsv --by GENE --table new.tsv \\
        --score-column REVEL --out e.tsv
    """
    from ..recipes import apply as recipe

    with engine_for(settings.process, console) as engine:
        applied = recipe.apply(settings, engine)
    counts = applied.rows
    for level in (*applied.levels[1:], applied.levels[0]):
        console.say(f"{counts.levels[level]:>9}  {level}")
    if counts.levels[""]:
        console.say(f"{counts.levels['']:>9}  without a score")
    if counts.other_rows:
        n = len(counts.other_groups)
        groups = f" of {n:,} group{'s' * (n > 1)}" if n else ""
        console.say(f"{counts.other_rows:>9}  rows{groups} have the thresholds of (other)")
    console.warn(applied.notices)
