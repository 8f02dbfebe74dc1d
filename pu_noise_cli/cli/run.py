"""`run`: everything in one go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import EstimationError, InputError
from ..settings import RunSettings
from .options import command, engine_for
from .process import Console

if TYPE_CHECKING:
    from ..recipes.run import WrittenRun
    from ..result import Result


@command("run", RunSettings)
def run(settings: RunSettings, console: Console) -> None:
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

    out_dir = settings.out_dir
    try:
        with engine_for(settings.process, console) as engine:
            written = recipe.run(settings, engine, out_dir)
    except (InputError, EstimationError) as error:
        if settings.process.on_failure != "write":
            raise
        console.say(f"punoise: warning: no estimate: {error}")
        console.check_strict(recipe.write_failure(settings, error, out_dir).notices)
        return
    print_run(written, out_dir, console)
    console.check_strict(written.result.notices)


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
