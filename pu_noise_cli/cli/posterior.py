"""From scores and a prior to decisions: `posterior` and `performance`."""

from __future__ import annotations

from pathlib import PurePath
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
    from ..evidence.thresholds import Publication
    from ..posterior.groups import check_by
    from ..prior.checks import missing_scores
    from ..score.scores import open_scores
    from ..tables.writing import check_table_target

    if options.by is not None and options.groups is None and (options.model or options.sketch):
        raise UsageError("--by with --model or --sketch needs --groups")
    if options.groups_out is not None:
        check_table_target(options.groups_out)
    if options.thresholds is not None:
        _check_thresholds_target(options.thresholds)
    with_set = None if options.sketch is not None else options.model is None
    rows = open_scores(options.scores, with_set, options.group_column)
    options.check_table_out(rows)
    if options.by is not None:
        check_by(rows, options.by)
    with options.engine(console) as engine:
        scored, prior, notices = _read(options, rows, engine)
        wanted = options.pick(pipeline.Wanted)
        posteriors = pipeline.posteriors(scored, prior, wanted, engine)
        written = engine.write(posteriors.step, rows, "posterior", options.out)
    if posteriors.by_group is not None:
        if options.groups_out is not None:
            posteriors.by_group.write(options.groups_out, posteriors.negated)
        by_group = posteriors.by_group
        console.print_groups(by_group.groups, by_group, posteriors.negated)
    if (
        options.thresholds is not None
        and posteriors.thresholds is not None
        and prior.beta is not None
    ):
        dataset = prior.sample or PurePath(options.scores).name.split(".")[0]
        about = Publication(dataset, prior.method, prior.beta)
        posteriors.thresholds.write(options.thresholds, about)
        is_text = rows.tables[0].shards[0].format.kind != "parquet"
        if is_text and options.model is None and not posteriors.negated:
            console.say(
                f"punoise: thresholds are on the scale of {options.scores}, which cannot say "
                "whether its scores have the opposite sign (--lower-is-positive)"
            )
        console.print_thresholds(posteriors.thresholds)
    console.print_calls(posteriors, written, options.fdr, graded=options.thresholds is None)
    missing = missing_scores(written.missing) if written.missing else ()
    console.conclude((*notices, *posteriors.notices, *missing))


def _check_thresholds_target(name: str) -> None:
    from ..tables.writing import check_table_target, check_target, is_json

    check_target(name)
    if not is_json(name):
        try:
            check_table_target(name)
        except UsageError as error:
            raise UsageError(f"{error}; thresholds may also be .json") from error


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
