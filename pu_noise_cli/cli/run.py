"""`run`: everything in one go."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..errors import EstimationError, InputError
from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    from ..pipeline import RunResult

ACCEPTED = 0.01  # q-value up to which the summary counts matches


@command("run")
def run(options: Options, console: Console) -> None:
    """Run the whole analysis: scores, alpha and beta, posteriors, report.

    Writes report.html, candidates.tsv (the most likely positives), labels_to_check.tsv (the most
    doubtful labels), prior.json, posterior, scores, model.punoise and provenance.json into DIR. A
    learned score adds columns.tsv, --evidence adds thresholds.tsv and thresholds.json, --by adds
    groups, and a search with decoys adds psms.tsv and peptides.tsv.

    Files of an earlier run are replaced together after all steps succeed; shards are written in
    place. Other files in DIR stay.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    punoise run --table variants.csv --label-column known --score-column REVEL --evidence acmg \\
        --target-alpha 0.0441 --out-dir results
    punoise run --table search.pin --out-dir results
    """
    from .. import pipeline

    settings = options.pick(
        pipeline.RunSettings,
        inputs=options.pick(pipeline.Inputs),
        scoring=options.pick(pipeline.ScoreSettings),
        prior=options.pick(pipeline.PriorSettings),
        wanted=options.pick(pipeline.Wanted),
        sharded=options.shards or options.dask is not None,
        options=options.recorded(affects_results=True),
        execution=options.recorded(affects_results=False),
    )
    try:
        with options.engine(console) as engine:
            result = pipeline.run(settings, engine, options.out_dir)
    except (InputError, EstimationError) as error:
        if options.on_failure != "write":
            raise
        console.say(f"punoise: warning: no estimate: {error}")
        console.check_strict(pipeline.write_failure(settings, error, options.out_dir).notices)
        return
    print_run(result, options.out_dir, console)
    console.check_strict(result.notices)


def print_run(result: RunResult, out_dir: str, console: Console) -> None:
    """The results in a few lines."""
    sketch, posteriors, prior = result.scored.sketch, result.posteriors, result.prior
    console.print_score(result.scored)
    console.print_prior(prior, sketch)
    scores = next(name for name in result.files if name.startswith("scores"))
    files = (os.path.join(out_dir, name) for name in (scores, "prior.json"))
    console.print_next(prior, posteriors.calibration, *files)
    if sketch.n_unlabeled and posteriors.by_group is None:  # groups have posteriors of their own
        likely = sketch.unlabeled[posteriors.columns["posterior"] >= 0.5].sum()
        console.say(f"calls  {likely:,} unlabeled rows have a posterior of at least 0.5")
    for name, level in posteriors.levels.items():
        console.say(f"{name:<5}  {level.accepted(ACCEPTED):,} at {ACCEPTED:.0%} FDR")
    if posteriors.levels:
        console.say("next   'punoise matches' does this for many runs, with q-values of each")
    if posteriors.thresholds is not None:
        console.print_thresholds(posteriors.thresholds)
    if posteriors.by_group is not None:
        by_group = posteriors.by_group
        console.print_groups(by_group.groups, by_group, posteriors.negated)
    others = [name for name in result.files if name != "report.html"]
    if len(others) < len(result.files):
        console.say(f"report {os.path.join(out_dir, 'report.html')}")
    console.say(f"files  {', '.join(others)} in {out_dir}")
    console.warn(posteriors.notices)
