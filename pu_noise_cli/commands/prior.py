"""From tables to scores and priors: `transform`, `train` and `estimate-prior`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..console import Console
from ..errors import EstimationError, InputError, PunoiseError, UsageError
from ..match_options import SpectrumOption
from ..options import (
    EstimationOptions,
    OnFailure,
    Strict,
    TableOptions,
)
from ..parameters import argument, command, reads, writes
from ..shard_options import DaskOption, ShardsOptions
from ..table_options import (
    CarriedColumns,
    GroupsOption,
    InputFormat,
    LabelValues,
    MissingScore,
    NamedTables,
)
from .parts import merged

if TYPE_CHECKING:
    from ..analysis import Request
    from ..engine import Engine
    from ..groups import Groups
    from ..prior import Prior
    from ..rows import Rows
    from ..sketch import Sketch
    from ..transform.scoring import HonestScorer
    from ..transform.training import Trained


# not of scores or sketches
OF_TABLES = (
    *(TableOptions, NamedTables, SpectrumOption),
    *(CarriedColumns, InputFormat, MissingScore, LabelValues),
)


@dataclass(frozen=True, kw_only=True)
class Estimating(SpectrumOption, EstimationOptions, OnFailure, Strict):
    """Commands that lead from tables to a prior."""

    def request(self) -> Request:
        """What the user has fixed about the way."""
        from ..analysis import Request

        settings = self.estimation_settings()
        if self.of_decoys and not self.given("beta", "beta_between"):
            settings = replace(settings, beta=1.0)
        return Request(self.transform_settings(), settings, self.chosen_method, self.sample)

    @property
    def chosen_method(self) -> str:
        from ..estimators.target_decoy import COUNTING

        return self.method or (COUNTING if self.of_decoys else super().chosen_method)

    def failed_prior(self, error: PunoiseError, console: Console) -> Prior:
        """The prior to write in spite of an error, or the error where none is wanted."""
        from ..estimation import failed_prior

        if self.on_failure != "write":
            raise error
        console.say(f"punoise: warning: no estimate: {error}")
        return failed_prior(self.chosen_method, self.seed, error, self.sample)


@dataclass(frozen=True, kw_only=True)
class TransformOptions(TableOptions, ShardsOptions, Strict):
    out: str = writes(
        "--out", "SCORES", "Table to write; DIR/ for shards, from Parquet files.", required=True
    )
    model_out: str | None = writes(
        "--model-out", "MODEL", "Where the trained model goes, for 'score'."
    )


@command(TransformOptions)
def transform(given: TransformOptions, console: Console) -> None:
    """Score each row: how much it looks like a labeled one.

    The score is that of a classifier of labeled against unlabeled rows. No row is scored by a model
    that was trained on it or on its group.

    \b
    punoise transform --labeled labeled.csv --unlabeled unlabeled.csv --out scores.tsv
    punoise transform --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out scores/
    """
    from ..analysis import transform
    from ..diagnosis import missing_scores
    from ..engine import open_engine
    from ..outputs import check_target

    if given.model_out is not None:
        check_target(given.model_out)
    rows, settings = given.rows(), given.transform_settings()
    given.check_table_out(given.out, rows)
    with open_engine(given.dask, given.threads, console, given.resume) as engine:
        scored, trained = transform(rows, settings, engine, given.out, given.model_out)
    notices = (*trained.notices, *missing_scores(scored.sketch.missing))
    tell_score(trained, console)
    console.warn(notices)
    given.check_strict(notices)


@dataclass(frozen=True, kw_only=True)
class TrainOptions(TableOptions, Strict):
    out: str = writes("--out", "MODEL", "Where the trained model goes.", required=True)


@command(TrainOptions)
def train(given: TrainOptions, console: Console) -> None:
    """Train a model only, to score files one by one.

    The model knows the rows it was trained on: 'score --set' gives each file the scores that
    'transform' would have given its rows.

    \b
    punoise train --labeled labeled.parquet --unlabeled 'shards/*.parquet' --out model.punoise
    punoise score --model model.punoise --table shards/1.parquet --set unlabeled --out 1.parquet
    """
    from ..analysis import train_only
    from ..engine import open_engine
    from ..outputs import check_target

    check_target(given.out)
    with open_engine(None, given.threads, console) as engine:
        trained = train_only(given.rows(), given.transform_settings(), engine, given.out)
    tell_score(trained, console)
    console.warn(trained.notices)
    given.check_strict(trained.notices)


@dataclass(frozen=True, kw_only=True)
class EstimatePriorOptions(Estimating, GroupsOption, DaskOption):
    scores: str | None = reads(
        "--scores", "SCORES", "What 'transform' wrote, or your own: id, set, score."
    )
    sketches: tuple[str, ...] = reads(
        "--sketch", "SKETCH", "What 'sketch' wrote; may be repeated.", multiple=True
    )
    more_sketches: tuple[str, ...] = argument(nargs=-1, reads=True, metavar="[SKETCH]...")
    verdicts: tuple[str, ...] = reads(
        "--verdicts",
        "AUDIT",
        "With --scores: rows that 'audit' drew, with what was found; may be repeated.",
        multiple=True,
    )
    out: str = writes("--out", "PRIOR.json", "By default standard output.", default="-")


@command(EstimatePriorOptions, "estimate-prior")
def estimate_prior(given: EstimatePriorOptions, console: Console) -> None:
    """Estimate alpha and beta from scores, sketches or tables.

    \b
    punoise estimate-prior --scores scores.tsv --out prior.json
    punoise estimate-prior --labeled labeled.csv --unlabeled unlabeled.csv
    punoise estimate-prior --scores scores.tsv --verdicts audit.tsv --out prior.json
    punoise estimate-prior --scores scores.tsv --by gene --groups-out genes.tsv --out prior.json
    """
    from ..outputs import check_target, write_json

    check_target(given.out)
    given.check_groups_out()
    if given.by is not None and given.groups_out is None:
        raise UsageError("--by needs --groups-out, the table of groups to write")
    try:
        prior, sketch, groups = _prior(given, console)
    except (InputError, EstimationError) as error:
        failed = given.failed_prior(error, console)
        write_json(given.out, failed.to_json())
        given.check_strict(failed.notices)
        return
    write_json(given.out, prior.to_json())
    tell(prior, sketch, console)
    notices = prior.notices
    if groups is not None and given.groups_out is not None:
        groups.write(given.groups_out)
        console.warn(groups.notices)
        tell_groups(groups, console)
        notices = (*notices, *groups.notices)
    if console.on_terminal and given.out != "-":
        console.say(f"files  {given.out}")
    given.check_strict(notices)


def _prior(given: EstimatePriorOptions, console: Console) -> tuple[Prior, Sketch, Groups | None]:
    """Estimate from --scores, from sketches, or from tables that are scored on the way."""
    from ..analysis import analyse
    from ..audit import read_audits
    from ..engine import open_engine
    from ..estimation import estimate_prior
    from ..groups import check_by
    from ..scores import Scores
    from ..shards import check_parquet

    request = given.request()
    if given.verdicts:
        _check_verdicts(given)
    sketches = (*given.sketches, *given.more_sketches)
    scored = rows = None
    if given.scores is not None or sketches:
        _check_no_tables(given)
    if given.scores is not None:
        scored = Scores.open(given.scores)
        rows = scored.rows
    elif not sketches:
        if given.negatives is not None and (given.unlabeled, given.table) == (None, None):
            raise UsageError("alpha cannot be estimated without --unlabeled")
        rows = given.rows(given.by_columns)
    if given.by is not None:
        if rows is None:
            raise UsageError("--by goes with tables or --scores: a sketch knows of no groups")
        check_by(rows, given.by)
    if rows is not None and given.dask is not None:
        check_parquet(rows, f"--dask {given.dask}")
        if rows.matches is not None:
            raise UsageError("--dask: matches of one spectrum may be in several shards")
    with open_engine(given.dask, given.threads, console) as engine:
        if rows is not None and scored is None:
            found = analyse(rows, request, engine)
            tell_score(found.trained, console)
            scorer = found.trained.scorer
            groups = _groups(given, rows, found.prior, found.sketch, engine, scorer)
            return found.prior, found.sketch, groups
        sketch = merged(sketches) if scored is None else scored.checked_sketch(engine)
        negatives = given.negatives_in(sketch)
        notices = () if scored is None else scored.notices
        audit = None
        if scored is not None and given.verdicts:
            audit = read_audits(given.verdicts, scored, sketch)
        with engine.timed("estimate"):
            prior = estimate_prior(
                sketch,
                request.method,
                replace(request.estimation, labeled_negatives=negatives),
                sample=given.sample,
                notices=notices,
                audit=audit,
            )
        return prior, sketch, _groups(given, rows, prior, sketch, engine)


def _groups(
    given: EstimatePriorOptions,
    rows: Rows | None,
    prior: Prior,
    sketch: Sketch,
    engine: Engine,
    scorer: HonestScorer | None = None,
) -> Groups | None:
    """What is estimated of each group, if that is wanted."""
    from ..calibration import DEFAULT_CALIBRATOR, calibrate
    from ..groups import estimate_groups

    if given.by is None or rows is None:
        return None
    shares, _ = prior.shares(sketch)
    calibration = calibrate(sketch, shares)
    return estimate_groups(rows, given.by, calibration, engine, DEFAULT_CALIBRATOR, scorer)


def _check_verdicts(given: EstimatePriorOptions) -> None:
    """Stop where verdicts would be ignored, or what is not verified could not be told."""
    if given.scores is None:
        raise UsageError("--verdicts goes with --scores, in which the verified rows are found")
    if given.method not in (None, "auto", "all"):
        raise UsageError(f"--verdicts goes with --method auto or all, not with {given.method}")


def _check_no_tables(given: EstimatePriorOptions) -> None:
    """Stop where options that are for tables were given with scores or sketches."""
    if given.more_sketches and not given.sketches:
        raise UsageError(
            f"unexpected argument {given.more_sketches[0]!r}: put --scores or --sketch before it"
        )
    if given.scores is not None and given.sketches:
        raise UsageError("give either --scores or --sketch, not both")
    source = "--scores" if given.scores is not None else "--sketch"
    of_tables = {name for of in OF_TABLES for name in of.__annotations__}
    if source == "--sketch":
        of_tables.add("dask")
    if unused := given.given(*of_tables):
        raise UsageError(f"{unused[0]} goes with tables, not with {source}")


def tell_score(trained: Trained, console: Console) -> None:
    columns = [column.name for column in trained.model.encoding.columns]
    if trained.learned:
        console.say(f"punoise: a score was learned from {len(columns)} columns")
    else:
        console.say(f"punoise: column {columns[0]!r} is used as the score")


def tell_groups(groups: Groups, console: Console) -> None:
    """How many groups there are, and between what shares of positives."""
    alpha = groups.shares.alpha[1:] if len(groups.names) > 1 else groups.shares.alpha
    console.say(
        f"groups {len(groups.names) - 1} by {groups.by}, with alpha from {alpha.min():.4f} to "
        f"{alpha.max():.4f}; of all unlabeled rows {groups.alpha:.4f}"
    )


def tell(prior: Prior, sketch: Sketch, console: Console) -> None:
    """The answer in a few lines on stderr; on a terminal with what the scores look like."""
    console.warn(prior.notices)
    for line in prior.summary():
        console.say(line)
    if console.on_terminal:
        from ..report.terminal import BLOCKS, PLAIN_BLOCKS, histogram_lines

        for line in histogram_lines(sketch, BLOCKS if console.has_blocks else PLAIN_BLOCKS):
            console.say(line)
