"""`run`: everything in one go."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from ..errors import EstimationError, InputError, PunoiseError, UsageError
from .options import (
    INNER_SHARE,
    ByOption,
    EvidenceOptions,
    RollUpOptions,
    ShardsOptions,
    command,
    flag,
    option,
    stated_shares,
)
from .posterior import tell_thresholds
from .prior import Estimating, tell, tell_groups, tell_score
from .process import Console

if TYPE_CHECKING:
    from ..pipeline import Request, RunOutput


ACCEPTED = 0.01  # the rate of false discoveries for which the summary counts matches


@dataclass(frozen=True, kw_only=True)
class RunOptions(RollUpOptions, Estimating, EvidenceOptions, ByOption, ShardsOptions):
    out_dir: str = option(
        "--out-dir",
        "Output",
        "Directory for the results.",
        metavar="DIR",
        settles=False,
        required=True,
    )
    table_format: str = option(
        "--format",
        "Output",
        "Format of the tables.",
        settles=False,
        type=click.Choice(["parquet", "tsv", "csv"]),
        default="parquet",
    )
    alpha: float | None = option(
        "--alpha",
        "Estimation",
        "Your own alpha (and --beta, by default 1), not to be estimated; with --negatives, "
        "--unlabeled may then be left out.",
        type=INNER_SHARE,
    )
    shards: bool = flag(
        "--shards",
        "Large tables",
        "From Parquet files: write scores/ and posterior/ with a Parquet file for each "
        "input file; --dask implies it.",
        settles=False,
    )

    @property
    def only_to_learn(self) -> tuple[str, ...]:
        return ("classifier", "max_train_rows")  # bounds are by groups, whatever the score

    def request(self) -> Request:
        """What the user has fixed about the way, α included where it is the user's own."""
        from ..prior.document import stated

        if self.alpha is None:
            if self.negatives is not None and (self.unlabeled, self.table) == (None, None):
                raise UsageError("alpha cannot be estimated without --unlabeled: give --alpha")
            self.check_possible(self.labeled_negatives)
            return super().request()
        if self.by is not None and (self.unlabeled, self.table) == (None, None):
            raise UsageError(f"--by {self.by}: the share of positives in a group needs --unlabeled")
        if ignored := self.given("purity", "alpha_between", "beta_between", "method"):
            raise UsageError(f"{ignored[0]} does nothing with --alpha")
        alpha, beta = stated_shares(self.alpha, self.beta, self.labeled_negatives)
        prior = stated(alpha, beta, "negative" if self.labeled_negatives else "positive")
        return replace(super().request(), stated=prior)


@command(RunOptions)
def run(given: RunOptions, console: Console) -> None:
    """Scores, prior, posteriors and report in one go.

    Writes scores, prior.json, posterior, model.punoise, report.html and provenance.json into DIR,
    with --evidence also thresholds.tsv and thresholds.json, with --by also groups, and of a search
    with decoys also psms.tsv and peptides.tsv. They replace those of an earlier run as one, once
    all steps have succeeded, except shards, which are written in place. Other files there stay.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    punoise run --table variants.csv --label-column known --score-column REVEL --evidence acmg \\
        --target-alpha 0.0441 --out-dir results
    punoise run --table search.pin --out-dir results
    """
    from .. import pipeline
    from ..posterior.groups import check_by
    from ..scale.engine import open_engine
    from ..tables.results import OUTPUTS
    from ..tables.writing import check_distinct, new_directory

    sharded = given.shards or given.dask is not None
    given.check_population(given.by)
    if given.resume and not sharded:
        raise UsageError("--resume goes with --shards")
    if sharded and given.table_format != "parquet":
        raise UsageError(f"--format {given.table_format}: shards are Parquet files")
    inputs = (given.labeled, given.unlabeled, given.negatives, given.table)
    check_distinct([os.path.join(given.out_dir, name) for name in OUTPUTS], inputs)
    settings = pipeline.RunSettings(
        given.request(),
        given.table_format,
        given.values(True),
        given.values(False),
        given.grading(),
        given.target_alpha,
        given.by,
    )
    try:
        rows = given.rows(given.by_columns)
        if given.by is not None:
            check_by(rows, given.by)
        if rows.keys:
            _check_matches(given, sharded)
        with (
            new_directory(given.out_dir),
            open_engine(given.dask, given.threads, console, given.resume) as engine,
        ):
            pipeline.check_targets(given.out_dir, rows if sharded else None)
            result = pipeline.run(rows, settings, engine, given.out_dir, sharded)
    except (InputError, EstimationError) as error:
        _write_failure(given, error, console)
        return
    _tell(result, given.out_dir, console)
    given.check_strict(result.notices)


def _check_matches(given: RunOptions, sharded: bool) -> None:
    """Stop at what cannot be said of matches of spectra."""
    if sharded:
        raise UsageError("--shards: matches of one spectrum may be in several shards")
    if given.target_alpha is not None:
        raise UsageError("--target-alpha does not go with matches: their PEPs are of these spectra")


def _tell(result: RunOutput, out_dir: str, console: Console) -> None:
    """What was found, in a few lines on stderr."""
    tell_score(result.analysis.trained, console)
    tell(result.analysis.prior, result.analysis.sketch, console)
    sketch = result.analysis.sketch
    if sketch.n_unlabeled and result.groups is None:  # by group, posteriors are others
        sure = sketch.unlabeled[result.posterior >= 0.5].sum()
        console.say(f"calls  {sure} unlabeled rows have a posterior of at least 0.5")
    for name, level in result.levels.items():
        console.say(f"{name:<5}  {level.accepted(ACCEPTED)} at a q-value of at most {ACCEPTED}")
    if result.thresholds is not None:
        tell_thresholds(result.thresholds, console)
    if result.groups is not None:
        tell_groups(result.groups, console)
    console.say(f"files  {', '.join(result.files)} in {out_dir}")
    console.warn(result.notices[len(result.analysis.prior.notices) :])


def _write_failure(given: RunOptions, error: PunoiseError, console: Console) -> None:
    """Write prior.json that says why there is no estimate, beside what an earlier run has left."""
    from ..tables.results import abandon, earlier_files, is_unfinished
    from ..tables.writing import make_directory, write_json

    failed = given.failed_prior(error, console)
    make_directory(given.out_dir)
    if is_unfinished(given.out_dir):  # an earlier run was killed
        abandon(given.out_dir)
    if earlier := [name for name in earlier_files(given.out_dir) if name != "prior.json"]:
        failed = failed.with_remark(f"of an earlier run, not of this one: {', '.join(earlier)}")
        console.say(f"punoise: {failed.notices[-1].message}")
    write_json(os.path.join(given.out_dir, "prior.json"), failed.to_json())
    given.check_strict(failed.notices)
