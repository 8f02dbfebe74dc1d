"""`run`: everything in one go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from ..errors import EstimationError, InputError
from .options import Options, command
from .process import Console

Settings = TypeVar("Settings", bound="RunSettings")

if TYPE_CHECKING:
    from ..recipes.run import RunSettings, WrittenRun
    from ..result import Result


@command("run")
def run(options: Options, console: Console) -> None:
    """Run the whole analysis: scores, alpha and beta, posteriors, report.

    Writes report.html, candidates.tsv (the most likely positives), labels_to_check.tsv (the most
    doubtful labels), prior.json, posterior, scores, model.punoise and provenance.json into DIR. A
    learned score adds columns.tsv, and --by adds groups.

    Files of an earlier run are replaced together after all steps succeed. Other files in DIR stay.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    punoise run --table variants.csv --label-column known --score-column REVEL --out-dir results
    """
    from ..recipes import run as recipe

    settings = pick_settings(recipe.RunSettings, options)
    try:
        with options.engine(console) as engine:
            written = recipe.run(settings, engine, options.out_dir)
    except (InputError, EstimationError) as error:
        if options.on_failure != "write":
            raise
        console.say(f"punoise: warning: no estimate: {error}")
        console.check_strict(recipe.write_failure(settings, error, options.out_dir).notices)
        return
    print_run(written, options.out_dir, console)
    console.check_strict(written.result.notices)


def pick_settings(kind: type[Settings], options: Options) -> Settings:
    """The settings of a run, or of a recipe that takes its steps."""
    from .. import pipeline

    return options.pick(
        kind,
        inputs=options.pick(pipeline.Inputs),
        scoring=options.pick(pipeline.ScoreSettings),
        prior=options.pick(pipeline.PriorSettings),
        wanted=options.pick(pipeline.Wanted),
        sharded=options.values.get("shards", False) or options.values.get("dask") is not None,
        options=options.recorded(affects_results=True),
        execution=options.recorded(affects_results=False),
    )


def print_run(written: WrittenRun, out_dir: str, console: Console) -> None:
    """The results in a few lines."""
    result = written.result
    print_answer(result, written.files, out_dir, console)
    if result.groups is not None:
        console.print_groups(result.groups)
    print_files(result, written.files, out_dir, console)


def print_answer(result: Result, files: Sequence[str], out_dir: str, console: Console) -> None:
    """The score, alpha and beta, and how many rows are likely positive."""
    sketch, posteriors, prior = result.scored.sketch, result.posteriors, result.prior
    console.print_score(result.scored)
    console.print_prior(prior, sketch)
    scores = next(name for name in files if name.startswith("scores"))
    named = (os.path.join(out_dir, name) for name in (scores, "prior.json"))
    console.print_next(prior, posteriors.calibration, *named)
    if (likely := result.summary.likely) is not None:
        console.say(f"calls  {likely:,} unlabeled rows have a posterior of at least 0.5")


def print_files(result: Result, files: Sequence[str], out_dir: str, console: Console) -> None:
    """The files that were written, and what was noticed."""
    others = [name for name in files if name != "report.html"]
    if len(others) < len(files):
        console.say(f"report {os.path.join(out_dir, 'report.html')}")
    console.say(f"files  {', '.join(others)} in {out_dir}")
    console.warn(result.posteriors.notices)
