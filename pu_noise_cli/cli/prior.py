"""Large tables in parts: `score`, `sketch` and `merge-sketches`.

From tables to scores and priors: `transform`, `train` and `estimate-prior`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from ..errors import EstimationError, InputError, PunoiseError, UsageError
from .options import (
    CarriedColumns,
    Common,
    DaskOption,
    EstimationOptions,
    GroupsOption,
    InputFormat,
    LabelValues,
    MissingScore,
    NamedTables,
    OnFailure,
    ShardsOptions,
    SpectrumOption,
    Strict,
    TableOptions,
    argument,
    command,
    joined,
    option,
    reads,
    writes,
)
from .process import Console

if TYPE_CHECKING:
    from ..pipeline import Request
    from ..posterior.groups import Groups
    from ..prior.document import Prior
    from ..scale.engine import Engine
    from ..score.model import HonestScorer
    from ..score.sketch import Sketch
    from ..score.training import Trained
    from ..tables.rows import Rows


@dataclass(frozen=True, kw_only=True)
class ScoreOptions(ShardsOptions, CarriedColumns, InputFormat, MissingScore, LabelValues):
    model: str = reads(
        "--model", "MODEL", "What 'run', 'transform' or 'train' wrote.", required=True
    )
    table: str = reads("--table", "FILE", "The rows to score.", required=True)
    set_name: str | None = option(
        "--set",
        "Input",
        "The table is, or is a file of, this one of the tables that 'train' read.",
        type=click.Choice(["labeled", "unlabeled", "negative"]),
    )
    label_column: str | None = option(
        "--label-column",
        "Input",
        "The same, where 'train' read one --table of both.",
        metavar="NAME",
    )
    out: str = writes(
        "--out", "SCORES", "Table to write; DIR/ for shards, from Parquet files.", required=True
    )


@command(ScoreOptions)
def score(given: ScoreOptions, console: Console) -> None:
    """Score new rows with a trained model.

    A row that the model was trained on would get an overconfident score: for the tables of the
    training use --set (or --label-column) and a model that 'train' wrote.

    \b
    punoise score --model model.punoise --table new.csv --out new_scores.tsv
    """
    from ..prior.checks import missing_scores
    from ..proteomics.pin import PinRoles
    from ..scale.engine import open_engine
    from ..score.model import load_model
    from ..score.scores import WriteScores, write_training_scores
    from ..tables.files import read_bytes
    from ..tables.rows import SETS, Rows

    if given.label_column is not None and given.set_name is not None:
        raise UsageError("give either --set or --label-column, not both")
    stored = load_model(given.model, read_bytes(given.model)).skipping(given.skip_missing)
    known = given.label_column is not None or given.set_name is not None
    if known and given.out.endswith("/"):
        raise UsageError("--set and --label-column write one table: 'transform' writes shards")
    if known and stored.scorer is None:
        raise UsageError(f"{given.model}: does not know its training rows; 'train' writes one")
    table = given.open_table(given.table)
    features = [column.name for column in stored.model.encoding.columns]
    is_pin = table.shards[0].format.kind == "pin"
    known_ids = (PinRoles.from_table(table).id,) if is_pin else ()
    rows = Rows.from_tables(
        [table],
        features=features,
        id_columns=joined(given.id_column) or known_ids,
        label_column=given.label_column,
        label_values=given.label_values(given.label_column),
        group_column=stored.scorer.group_column if known and stored.scorer else None,
        keep=joined(given.keep_columns),
        wanted_by="model",
    )
    given.check_table_out(given.out, rows)
    used = {*features, *rows.roles}
    extra = [column for column in table.columns if column not in used]
    if extra:
        console.say(f"punoise: {table.name}: not in the model and left out: {', '.join(extra)}")
    if known and stored.scorer is not None:
        of = None if given.set_name is None else SETS.index(given.set_name)
        count, missing = write_training_scores(rows, stored.scorer, of, given.threads, given.out)
    else:
        with open_engine(given.dask, given.threads, console, given.resume) as engine:
            step = WriteScores(stored.model)
            sketch = engine.write(step, rows, "score", given.out).sketch
        count, missing = sketch.n_unlabeled + sketch.missing, sketch.missing
    console.warn(missing_scores(missing))
    console.detail(f"punoise: {count} rows scored")


@dataclass(frozen=True, kw_only=True)
class SketchOptions(Common):
    scores: str = reads("--scores", "SCORES", "Scores with the column 'set'.", required=True)
    out: str = writes("--out", "SKETCH", "Where the sketch goes.", required=True)


@command(SketchOptions)
def sketch(given: SketchOptions, console: Console) -> None:
    """Condense scores into a small file that can be merged.

    It is all that estimate-prior and the calibration of posterior need. Sketches of the parts of a
    table, merged in any order, give exactly the sketch of the whole.

    \b
    punoise sketch --scores scores/1.parquet --out 1.sketch
    punoise estimate-prior --sketch 1.sketch 2.sketch 3.sketch --out prior.json
    """
    from ..score.scores import Scores
    from ..tables.writing import check_target

    check_target(given.out)
    scored = Scores.open(given.scores)
    with console.rows("sketch", scored.rows.num_rows) as done:
        _write_sketch(scored.sketch(done), given.out)


@dataclass(frozen=True, kw_only=True)
class MergeSketchesOptions(Common):
    sketches: tuple[str, ...] = argument(nargs=-1, required=True, reads=True, metavar="SKETCH...")
    out: str = writes("--out", "SKETCH", "Where the merged sketch goes.", required=True)


@command(MergeSketchesOptions, "merge-sketches")
def merge_sketches(given: MergeSketchesOptions, console: Console) -> None:
    """Merge the sketches of parts into the sketch of all rows.

    \b
    punoise merge-sketches sketches/*.sketch --out all.sketch
    """
    from ..tables.writing import check_target

    check_target(given.out)
    _write_sketch(merged(given.sketches, enough=False), given.out)


def merged(names: Sequence[str], enough: bool = True) -> Sketch:
    """The sketch of all rows that the sketches in some files were made of.

    `enough` says that it is to be estimated from.
    """
    from ..score.sketch import Sketch, check_rows, load_sketch
    from ..score.training import check_sizes
    from ..tables.files import read_bytes

    if len({os.path.realpath(name) for name in names}) < len(names):
        raise UsageError("a sketch is named twice, and its rows would count twice")
    parts = [load_sketch(name, read_bytes(name)) for name in names]
    try:
        check_rows(*parts)
    except ValueError as error:
        raise InputError(f"{names[0]} and the other sketches: {error}") from error
    merged = Sketch.merge(parts)
    if enough:
        check_sizes(names[0], merged.counts.sum(0), merged.missing)
    return merged


def _write_sketch(sketch: Sketch, out: str) -> None:
    from ..score.sketch import save_sketch
    from ..tables.writing import write_atomically

    with write_atomically(out) as file:
        save_sketch(sketch, file)


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
        from ..pipeline import Request

        settings = self.estimation_settings()
        if self.of_decoys and not self.given("beta", "beta_between"):
            settings = replace(settings, beta=1.0)
        return Request(self.transform_settings(), settings, self.chosen_method, self.sample)

    @property
    def chosen_method(self) -> str:
        from ..proteomics.matches import COUNTING

        return self.method or (COUNTING if self.of_decoys else super().chosen_method)

    def failed_prior(self, error: PunoiseError, console: Console) -> Prior:
        """The prior to write in spite of an error, or the error where none is wanted."""
        from ..prior.estimation import failed_prior

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
    from ..pipeline import transform
    from ..prior.checks import missing_scores
    from ..scale.engine import open_engine
    from ..tables.writing import check_target

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
    from ..pipeline import train_only
    from ..scale.engine import open_engine
    from ..tables.writing import check_target

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
    from ..tables.writing import check_target, write_json

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
        tell_groups(groups, console)
    if console.on_terminal and given.out != "-":
        console.say(f"files  {given.out}")
    given.check_strict(notices)


def _prior(given: EstimatePriorOptions, console: Console) -> tuple[Prior, Sketch, Groups | None]:
    """Estimate from --scores, from sketches, or from tables that are scored on the way."""
    from ..audit.design import read_audits
    from ..audit.verdicts import revise
    from ..pipeline import analyse
    from ..posterior.groups import check_by
    from ..prior.estimation import conclude, run_methods
    from ..scale.engine import check_parquet, open_engine
    from ..score.scores import Scores

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
        given.check_possible(given.labeled_negatives)
        rows = given.rows(given.by_columns)
    if given.by is not None:
        if rows is None:
            raise UsageError("--by goes with tables or --scores: a sketch knows of no groups")
        check_by(rows, given.by)
    if rows is not None and given.dask is not None:
        check_parquet(rows, f"--dask {given.dask}")
        if rows.keys:
            raise UsageError("--dask: matches of one spectrum may be in several shards")
    with open_engine(given.dask, given.threads, console) as engine:
        if rows is not None and scored is None:
            found = analyse(rows, request, engine)
            tell_score(found.trained, console)
            scorer = found.trained.scorer
            groups = _groups(given, rows, found.prior, found.sketch, engine, scorer)
            return found.prior, found.sketch, groups
        sketch = merged(sketches) if scored is None else scored.checked_sketch(engine)
        if given.negatives_in(sketch):
            sketch = replace(sketch, labeled_class="negative")
        given.check_possible(sketch.labeled_class == "negative")
        notices = () if scored is None else scored.notices
        audit = None
        if scored is not None and given.verdicts:
            audit = read_audits(given.verdicts, scored, sketch)
        with engine.timed("estimate"):
            estimation = run_methods(sketch, request.method, request.estimation)
            if audit is not None:
                estimation = revise(estimation, audit)
            prior = conclude(estimation, sample=given.sample, notices=notices)
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
    from ..posterior.calibration import calibrate
    from ..posterior.groups import estimate_groups
    from ..prior.document import shares_for

    if given.by is None or rows is None:
        return None
    sketch, shares, _ = shares_for(prior, sketch)
    calibration = calibrate(sketch, shares)
    return estimate_groups(rows, given.by, calibration, engine, scorer)


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
    from ..prior.summary import summarize_prior

    console.warn(prior.notices)
    for line in summarize_prior(prior):
        console.say(line)
    if console.on_terminal:
        from ..report.content import BLOCKS, PLAIN_BLOCKS, histogram_lines

        for line in histogram_lines(sketch, BLOCKS if console.has_blocks else PLAIN_BLOCKS):
            console.say(line)
