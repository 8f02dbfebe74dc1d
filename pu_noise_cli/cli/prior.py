"""Scores to priors: `estimate-prior`."""

from __future__ import annotations

from ..errors import EstimationError, InputError, UsageError
from .options import Options, command
from .process import Console

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
    from ..recipes import steps

    options.check_data_out()
    if options.negatives is not None and (options.unlabeled, options.table) == (None, None):
        raise UsageError("alpha cannot be estimated without --unlabeled")
    if options.more_sketches and not options.sketch:
        extra = options.more_sketches[0]
        raise UsageError(f"unexpected argument {extra!r}: put --scores or --sketch before it")
    settings = options.pick(
        steps.EstimateSettings,
        prior=options.pick(pipeline.PriorSettings),
        inputs=options.pick(pipeline.Inputs),
        scoring=options.pick(pipeline.ScoreSettings),
        sketches=(*options.sketch, *options.more_sketches),
    )
    try:
        if options.model is not None:
            _estimate_new(options, console)
            return
        with options.engine(console) as engine:
            estimated = steps.estimate_prior(settings, engine)
    except (InputError, EstimationError) as error:
        if options.on_failure != "write":
            raise
        console.say(f"punoise: warning: no estimate: {error}")
        prior = pipeline.failed_prior_for(settings.prior, error)
        options.write_data(prior.to_json())
        console.check_strict(prior.notices)
        return
    prior, scored, groups = estimated.prior, estimated.scored, estimated.groups
    if scored.trained is not None:
        console.print_score(scored)
    console.print_prior(prior, scored.sketch)
    if prior.alpha is not None:
        scores, out = options.scores or "SCORES", options.out or "PRIOR"
        console.print_next(prior, pipeline.calibrate_scores(scored, prior), scores, out)
    options.write_data(prior.to_json())  # after all work, so that a failure leaves no file
    if options.by is not None and groups is None:
        console.say("punoise: no groups without alpha")
    if groups is not None:
        console.print_groups(groups)
        console.warn(groups.notices)
    console.check_strict(estimated.notices)


def _estimate_new(options: Options, console: Console) -> None:
    """Alpha of new rows that a model scores."""
    from .. import pipeline
    from ..prior.document import percent, show_interval
    from ..recipes import steps

    new = options.pick(steps.NewRows, inputs=options.pick(pipeline.Inputs))
    is_stated = any(options.values[name] is not None for name in ESTIMATION)
    stated = options.pick(pipeline.PriorSettings) if is_stated else None
    with options.engine(console) as engine:
        trained, prior = steps.estimate_new_sample(new, stated, options.sample, engine)
    options.write_data(prior.to_json())
    console.warn(prior.notices)
    for label, estimate, rows in (("alpha", prior, "new"), ("before", trained, "training")):
        count = f"{estimate.n_unlabeled} new" if estimate is prior else f"unlabeled {rows}"
        interval = "" if estimate.alpha_ci is None else f" {show_interval(estimate.alpha_ci)}"
        fraction = percent(estimate.alpha or 0.0)
        console.say(f"{label:<6} {fraction}{interval}  of the {count} rows are positive")
    console.check_strict(prior.notices)
