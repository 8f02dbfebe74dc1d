"""From scores and a prior to decisions: `posterior` and `performance`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import InputError, UsageError
from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    from ..notices import Notice
    from ..pipeline import ScoredRows
    from ..posterior.performance import Figures
    from ..prior.document import Prior
    from ..scale.engine import Engine
    from ..tables.rows import Rows

CALLED = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # fractions of rows that the summary calls


@command("posterior")
def posterior(options: Options, console: Console) -> None:
    """Compute each row's probability of being positive.

    \b
    punoise posterior --scores scores.tsv --prior prior.json --out posterior.tsv
    punoise posterior --scores scores.tsv --alpha 0.0441 --beta 0.99 --out posterior.tsv
    """
    from .. import pipeline
    from ..posterior.groups import check_by
    from ..prior.checks import missing_scores
    from ..score.scores import open_scores
    from ..tables.writing import check_table_target

    if options.by is not None and options.groups is None and (options.model or options.sketch):
        raise UsageError("--by with --model or --sketch needs --groups")
    if options.groups_out is not None:
        check_table_target(options.groups_out)
    with_set = None if options.sketch is not None else options.model is None
    rows = open_scores(options.scores, with_set, options.group_column)
    options.check_table_out(rows)
    if options.by is not None:
        check_by(rows, options.by)
    with options.engine(console) as engine:
        scored, prior, notices = _read(options, rows, engine)
        prior, target_alpha = pipeline.in_population(prior, options.target_alpha)
        wanted = replace(options.pick(pipeline.Wanted), target_alpha=target_alpha)
        calibration, bounds = pipeline.calibrate_scores(scored, prior), None
        if wanted.bounds:
            bounds = pipeline.bound(calibration, scored, engine, wanted.seed, of_groups=True)
        posteriors = pipeline.interpret(calibration, wanted, bounds)
        if wanted.by is not None:
            posteriors = pipeline.by_group(posteriors, scored, wanted, engine)
        written = engine.write(posteriors.step, rows, "posterior", options.out)
    if posteriors.by_group is not None:
        groups = posteriors.by_group.groups
        if options.groups_out is not None:
            groups.write(options.groups_out)
        console.print_groups(groups)
    if options.fdr is not None and written.unlabeled:
        lowest = f"; the lowest fdr of any row is {written.lowest_fdr:.2g}"
        console.say(
            f"calls  {written.called:,} unlabeled rows have an fdr of at most {options.fdr}"
            f"{'' if written.called else lowest}"
        )
    missing = missing_scores(written.missing) if written.missing else ()
    console.conclude((*notices, *posteriors.notices, *missing))


def _read(
    options: Options, rows: Rows, engine: Engine
) -> tuple[ScoredRows, Prior, tuple[Notice, ...]]:
    """The scores to calibrate by, the prior, and the warnings about a stated one."""
    from .. import pipeline
    from ..prior.document import read_prior
    from ..prior.estimation import check_stated

    if (options.prior is None) == (options.alpha is None):
        raise UsageError("give either --prior, or --alpha (and --beta)")
    prior = None if options.prior is None else read_prior(options.prior)
    scored = _reference(options, rows, engine)
    if prior is not None:
        return scored, prior, ()
    labeled_class = scored.sketch.labeled_class
    prior = pipeline.checked_prior(options.alpha, options.beta, labeled_class)
    return scored, prior, check_stated(scored.sketch, prior)


def _reference(options: Options, rows: Rows, engine: Engine) -> ScoredRows:
    """The scores to calibrate by: of a sketch, of the model's rows, or of the file itself."""
    from .. import pipeline
    from ..score.model import load_model
    from ..tables.files import read_bytes

    values = options.values  # `performance` has neither --model nor --sketch
    if (sketch := values.get("sketch")) is not None:
        return pipeline.read_sketches([sketch], options.labeled_are)
    if (model := values.get("model")) is None:
        return pipeline.read_scores(rows, engine, options.labeled_are)
    stored = load_model(model, read_bytes(model))
    if stored.sketch is None:
        raise InputError(f"{model}: holds no scores to calibrate by; give --sketch")
    return pipeline.stored_scores(stored, options.labeled_are)


@command("performance")
def performance(options: Options, console: Console) -> None:
    """Estimate precision, recall and AUC without knowing the true classes.

    All measures describe the population of the unlabeled rows and come with 95% intervals.

    \b
    punoise performance --scores scores.tsv --prior prior.json --threshold 0.5 --out perf.json
    """
    import pyarrow as pa

    from .. import pipeline
    from ..posterior.performance import figures
    from ..score.scores import open_scores
    from ..tables.writing import check_table_target, is_json, write_table

    as_table = options.out is not None and not is_json(options.out)
    check_table_target(options.out) if as_table else options.check_data_out()
    with options.engine(console) as engine:
        scored, prior, notices = _read(options, open_scores(options.scores), engine)
    calibration = pipeline.calibrate_scores(scored, prior)
    measured = figures(calibration, options.threshold, options.seed)
    if as_table:
        arrays = [pa.array(values, from_pandas=True) for values in measured.columns.values()]
        write_table(options.out, pa.RecordBatch.from_arrays(arrays, list(measured.columns)))
    else:
        options.write_data(measured.to_json())
    low, high = measured.auc_ci
    console.say(f"AUC    {measured.auc:.4f} [{low:.4f}, {high:.4f}]  positives against negatives")
    if options.data_out is None:
        _print_thresholds(measured, console)
    console.conclude((*notices, *calibration.notices))


def _print_thresholds(measured: Figures, console: Console) -> None:
    """Precision and recall at a few thresholds; the file has them all."""
    import numpy as np

    from ..prior.document import percent

    columns = measured.columns
    console.say("score      called  precision                recall")
    for row in np.unique([abs(columns["called"] - wanted).argmin() for wanted in CALLED])[::-1]:
        threshold, called = columns["threshold"][row], percent(columns["called"][row])
        precision, recall = (
            "{} [{}, {}]".format(*(percent(columns[name + e][row]) for e in ("", "_low", "_high")))
            for name in ("precision", "recall")
        )
        console.say(f"{threshold:<9.4g}  {called:>6}  {precision:<23}  {recall}")
