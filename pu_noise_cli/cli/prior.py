"""Scores to priors: `estimate-prior`, `sketch` and `merge-sketches`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import EstimationError, InputError, UsageError
from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    from ..pipeline import ScoredRows
    from ..scale.engine import Engine

ESTIMATION = ("method", "beta", "purity", "alpha_between", "beta_between")


@command("estimate-prior")
def estimate_prior(options: Options, console: Console) -> None:
    """Estimate alpha and beta from scores, sketches or tables.

    \b
    punoise estimate-prior --scores scores.tsv --out prior.json
    punoise estimate-prior --labeled labeled.csv --unlabeled unlabeled.csv
    punoise estimate-prior --scores scores.tsv --verdicts audit.tsv --out prior.json
    punoise estimate-prior --scores scores.tsv --by gene --groups-out genes.tsv --out prior.json
    punoise estimate-prior --model model.punoise --table new.csv --out new_prior.json
    """
    from .. import pipeline
    from ..tables.writing import check_table_target

    options.check_data_out()
    if options.groups_out is not None:
        check_table_target(options.groups_out)
    if options.negatives is not None and (options.unlabeled, options.table) == (None, None):
        raise UsageError("alpha cannot be estimated without --unlabeled")
    settings, groups = options.pick(pipeline.PriorSettings), None
    try:
        if options.model is not None:
            _estimate_new(options, console)
            return
        with options.engine(console) as engine:
            scored = _read(options, engine, console)
            prior = pipeline.estimate(scored, settings, engine, options.verdicts)
            if options.by is not None and prior.alpha is not None:
                calibration = pipeline.calibrate_scores(scored, prior)
                groups = pipeline.estimate_groups(scored, calibration, options.by, engine)
    except (InputError, EstimationError) as error:
        if options.on_failure != "write":
            raise
        console.say(f"punoise: warning: no estimate: {error}")
        prior = pipeline.failed_prior_for(settings, error)
        options.write_data(prior.to_json())
        console.check_strict(prior.notices)
        return
    console.print_prior(prior, scored.sketch)
    if prior.alpha is not None:
        scores, out = options.scores or "SCORES", options.out or "PRIOR"
        console.print_next(prior, pipeline.calibrate_scores(scored, prior), scores, out)
    options.write_data(prior.to_json())  # after all work, so that a failure leaves no file
    if options.by is not None and groups is None:
        console.say("punoise: no groups without alpha")
    if groups is not None:
        groups.write(options.groups_out)
        console.print_groups(groups)
        console.warn(groups.notices)
    console.check_strict((*prior.notices, *(() if groups is None else groups.notices)))


def _estimate_new(options: Options, console: Console) -> None:
    """Alpha of new rows that a model scores."""
    from .. import pipeline
    from ..prior.document import percent, show_interval
    from ..score.model import load_model
    from ..tables.dialect import Layout
    from ..tables.files import read_bytes
    from ..tables.reading import open_table
    from ..tables.rows import Rows

    stored = load_model(options.model, read_bytes(options.model))
    features = [column.name for column in stored.model.encoding.columns]
    table = open_table(options.table, options.pick(Layout))
    rows = Rows.from_tables([table], features=features, wanted_by="model")
    stated = any(options.values[name] is not None for name in ESTIMATION)
    settings = options.pick(pipeline.PriorSettings) if stated else None
    with options.engine(console) as engine:
        trained = pipeline.prior_of_model(stored, options.model, engine, settings)
        prior = pipeline.estimate_new(stored, trained, rows, engine, options.sample)
    options.write_data(prior.to_json())
    console.warn(prior.notices)
    for name, its in (("alpha", prior), ("before", trained)):
        which = f"{its.n_unlabeled} new" if its is prior else "unlabeled training"
        interval = "" if its.alpha_ci is None else f" {show_interval(its.alpha_ci)}"
        fraction = percent(its.alpha or 0.0)
        console.say(f"{name:<6} {fraction}{interval}  of the {which} rows are positive")
    console.check_strict(prior.notices)


def _read(options: Options, engine: Engine, console: Console) -> ScoredRows:
    """The scores to estimate from: of a file, of sketches, or of tables scored on the way."""
    from .. import pipeline
    from ..posterior.groups import check_by
    from ..score.scores import open_scores

    if options.more_sketches and not options.sketch:
        extra = options.more_sketches[0]
        raise UsageError(f"unexpected argument {extra!r}: put --scores or --sketch before it")
    if options.sketch:
        return pipeline.read_sketches(
            (*options.sketch, *options.more_sketches), options.labeled_are
        )
    if options.scores is not None:
        scored = pipeline.read_scores(open_scores(options.scores), engine, options.labeled_are)
        if options.by is not None and scored.rows is not None:
            check_by(scored.rows, options.by)
        return scored
    inputs = options.pick(pipeline.Inputs)
    pipeline.check_unlabeled(inputs, None)
    rows = pipeline.open_rows(inputs)
    pipeline.check_settings(options.pick(pipeline.PriorSettings), rows)
    trained = pipeline.train(rows, options.pick(pipeline.ScoreSettings), engine)
    scored = pipeline.score_rows(rows, trained, engine)
    console.print_score(scored)
    return scored


@command("sketch")
def sketch(options: Options, console: Console) -> None:
    """Summarize scores in a small, mergeable file.

    It is all that estimate-prior and the calibration of posterior need. Sketches of the parts of a
    table, merged in any order, give exactly the sketch of the whole.

    \b
    punoise sketch --scores scores/1.parquet --out 1.sketch
    punoise estimate-prior --sketch 1.sketch 2.sketch 3.sketch --out prior.json
    """
    from ..score.scores import SketchScores, open_scores
    from ..score.sketch import write_sketch
    from ..tables.writing import check_target

    check_target(options.out)
    rows = open_scores(options.scores)
    with options.engine(console) as engine:
        write_sketch(engine.gather(SketchScores(), rows, "sketch"), options.out)


@command("merge-sketches")
def merge_sketches(options: Options, console: Console) -> None:
    """Merge the sketches of several files.

    \b
    punoise merge-sketches sketches/*.sketch --out all.sketch
    """
    from ..score.sketch import read_sketches, write_sketch
    from ..tables.writing import check_target

    check_target(options.out)
    write_sketch(read_sketches(options.sketches), options.out)
