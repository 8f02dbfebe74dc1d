"""Scores to priors: `estimate-prior`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..errors import EstimationError, InputError, UsageError
from ..settings import EstimateSettings, NewRows, PriorSettings
from .options import command, engine_for
from .process import Console

if TYPE_CHECKING:
    from ..prior.document import Prior


@command("estimate-prior", EstimateSettings)
def estimate_prior(settings: EstimateSettings, console: Console) -> None:
    """Estimate alpha and beta from scores, sketches or tables.

    \b
    punoise estimate-prior --scores scores.tsv --out prior.json
    punoise estimate-prior --labeled labeled.csv --unlabeled unlabeled.csv
    punoise estimate-prior --scores scores.tsv --verdicts audit.tsv --out prior.json
    punoise estimate-prior --scores scores.tsv --by gene --groups-out genes.tsv --out prior.json
    punoise estimate-prior --model model.punoise --table new.csv --out new_prior.json
    """
    from .. import pipeline
    from ..recipes import steps

    _check(settings)
    try:
        if settings.model is not None:
            _estimate_new(settings, settings.model, console)
            return
        with engine_for(settings.process, console) as engine:
            estimated = steps.estimate_prior(settings, engine)
    except (InputError, EstimationError) as error:
        if settings.process.on_failure != "write":
            raise
        console.say(f"punoise: warning: no estimate: {error}")
        prior = pipeline.failed_prior_for(settings.prior, error)
        _write(prior, settings)
        console.check_strict(prior.notices)
        return
    prior, scored, groups = estimated.prior, estimated.scored, estimated.groups
    if scored.trained is not None:
        console.print_score(scored)
    console.print_prior(prior, scored.sketch)
    if prior.alpha is not None:
        files = settings.scores or "SCORES", settings.out or "PRIOR"
        console.print_next(prior, pipeline.calibrate_scores(scored, prior), *files)
    _write(prior, settings)  # after all work, so that a failure leaves no file
    if settings.by is not None and groups is None:
        console.say("punoise: no groups without alpha")
    if groups is not None:
        console.print_groups(groups)
        console.warn(groups.notices)
    console.check_strict(estimated.notices)


def _check(settings: EstimateSettings) -> None:
    """Stop, before any work is done, where the prior cannot be estimated or written."""
    from ..tables.writing import check_target

    out, inputs = _target(settings), settings.inputs
    if out is not None:
        check_target(out)
    if inputs.negatives is not None and (inputs.unlabeled, inputs.table) == (None, None):
        raise UsageError("alpha cannot be estimated without --unlabeled")
    if settings.more_sketches and not settings.sketch:
        extra = settings.more_sketches[0]
        raise UsageError(f"unexpected argument {extra!r}: put --scores or --sketch before it")


def _target(settings: EstimateSettings) -> str | None:
    """Where the prior goes: by default to standard output, unless that is a terminal."""
    return "-" if settings.out is None and not sys.stdout.isatty() else settings.out


def _write(prior: Prior, settings: EstimateSettings) -> None:
    from ..tables.writing import write_json

    out = _target(settings)
    if out is not None:
        write_json(out, prior.to_json())


def _estimate_new(settings: EstimateSettings, model: str, console: Console) -> None:
    """Alpha of new rows that a model scores."""
    from ..prior.document import percent, show_interval
    from ..recipes import steps

    new = NewRows(model=model, table=str(settings.inputs.table), inputs=settings.inputs)
    sample, seed = settings.prior.sample, settings.prior.seed
    is_stated = settings.prior != PriorSettings(sample=sample, seed=seed)
    stated = settings.prior if is_stated else None
    with engine_for(settings.process, console) as engine:
        trained, prior = steps.estimate_new_sample(new, stated, sample, engine)
    _write(prior, settings)
    console.warn(prior.notices)
    for label, estimate, rows in (("alpha", prior, "new"), ("before", trained, "training")):
        count = f"{estimate.n_unlabeled} new" if estimate is prior else f"unlabeled {rows}"
        interval = "" if estimate.alpha_ci is None else f" {show_interval(estimate.alpha_ci)}"
        fraction = percent(estimate.alpha or 0.0)
        console.say(f"{label:<6} {fraction}{interval}  of the {count} rows are positive")
    console.check_strict(prior.notices)
