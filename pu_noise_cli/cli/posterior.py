"""From scores and a prior to decisions: `posterior` and `performance`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from ..errors import InputError, UsageError
from .options import (
    NUMBER,
    SHARE,
    EvidenceOptions,
    GroupsOption,
    PriorSource,
    ShardsOptions,
    command,
    flag,
    option,
    reads,
    writes,
)
from .prior import merged, tell_groups
from .process import Console

if TYPE_CHECKING:
    from ..evidence.strengths import Level
    from ..evidence.thresholds import Thresholds
    from ..notices import Notice
    from ..posterior.bounds import Bounds
    from ..posterior.calibration import Calibration
    from ..posterior.groups import GroupPosteriors
    from ..posterior.table import Columns, PosteriorRows
    from ..prior.base import Shares
    from ..prior.document import Prior
    from ..scale.engine import Engine
    from ..score.scores import Scores
    from ..score.sketch import Sketch


@dataclass(frozen=True, kw_only=True)
class PosteriorOptions(PriorSource, EvidenceOptions, GroupsOption, ShardsOptions):
    scores: str = reads("--scores", "SCORES", "What 'transform' or 'score' wrote.", required=True)
    model: str | None = reads(
        "--model",
        "MODEL",
        "For new rows, scored by 'score': calibrate by the rows MODEL was trained on.",
    )
    sketch: str | None = reads(
        "--sketch",
        "SKETCH",
        "For a part of the scores, or for new ones: calibrate by this sketch of all.",
    )
    out: str = writes(
        "--out", "POSTERIOR", "Table to write; DIR/ for shards, from Parquet files.", required=True
    )
    groups: str | None = reads(
        "--groups",
        "GROUPS",
        "With --by: the groups as estimated elsewhere; by default from these scores.",
    )
    group_column: str | None = option(
        "--group-column",
        "Posterior",
        "With --bounds or --evidence: a column of SCORES that names groups of rows that are alike, "
        "which makes the bounds wider.",
        metavar="NAME",
    )
    bounds: bool = flag("--bounds", "Posterior", "Add one-sided 95 % bounds on the posterior.")
    fdr: float | None = option(
        "--fdr", "Posterior", "Add a column 'call': true where the fdr is at most this.", type=SHARE
    )
    thresholds: str | None = writes(
        "--thresholds",
        "FILE",
        "With --evidence: the score from which on each strength is reached; JSON if the name ends "
        "in .json, else a table.",
    )
    lower_is_positive: bool = flag(
        "--lower-is-positive",
        "Posterior",
        "With --thresholds: the scores were written with the opposite sign, so give the "
        "thresholds that of the predictor.",
    )


@command(PosteriorOptions)
def posterior(given: PosteriorOptions, console: Console) -> None:
    """For each row the probability that it is positive.

    \b
    punoise posterior --scores scores.tsv --prior prior.json --out posterior.tsv
    punoise posterior --scores scores.tsv --alpha 0.0441 --beta 0.99 --out posterior.tsv
    """
    from ..evidence.strengths import strengths
    from ..evidence.thresholds import Thresholds
    from ..posterior.bounds import GatherGroups, bounds
    from ..posterior.calibration import calibrate
    from ..posterior.groups import WriteGroupPosteriors, check_by
    from ..posterior.table import WritePosteriors, posterior_columns
    from ..prior.checks import missing_scores
    from ..scale.engine import open_engine
    from ..score.scores import Scores

    _check_use(given)
    grading = given.grading()
    may_lack_set = given.sketch is not None
    with_set = None if may_lack_set else given.model is None
    scored = Scores.open(given.scores, with_set, given.group_column)
    prior = given.read_prior(scored)
    given.check_table_out(given.out, scored.rows)
    if given.by is not None:
        check_by(scored.rows, given.by)
    groups = None
    with open_engine(given.dask, given.threads, console, given.resume) as engine:
        sketch = _calibration_sketch(given, scored, engine)
        sketch, shares, notices = _shares(given, prior, sketch)
        levels = [] if grading is None else grading.levels(shares.alpha)
        calibration = calibrate(sketch, shares)
        if given.group_column is not None:
            groups = engine.gather(GatherGroups(), scored.rows, "groups")
            notices = (*notices, *groups.notices)
        held = None
        if given.bounds or levels:
            held = bounds(calibration, given.seed, groups)
        columns = posterior_columns(
            calibration,
            bounds=held if given.bounds else None,
            target_alpha=given.target_alpha,
            fdr=given.fdr,
            further={"evidence": strengths(levels, *held.lr)} if levels and held else None,
        )
        step = WritePosteriors(sketch, columns, calibration.label_sign)
        by_group = _by_group(given, scored, calibration, held, engine)
        if by_group is not None:
            step = WriteGroupPosteriors(sketch, columns, calibration.label_sign, by_group)
        found = engine.write(step, scored.rows, "posterior", given.out)
    if by_group is not None:
        _conclude_groups(given, by_group, found, console)
    if given.thresholds is not None and grading and held and prior.beta is not None:
        thresholds = Thresholds.from_calibration(
            calibration, held, grading, given.lower_is_positive
        )
        dataset = prior.sample or PurePath(given.scores).name.split(".")[0]
        thresholds.write(given.thresholds, dataset, prior.method, prior.beta)
        tell_thresholds(thresholds, console)
    if by_group is None and found.unlabeled.any():
        _tell_calls(given, levels, columns, found, console)
    notices = (*notices, *calibration.notices, *missing_scores(found.missing))
    console.warn(notices)
    given.check_strict(notices)


def _shares(
    given: PriorSource, prior: Prior, sketch: Sketch
) -> tuple[Sketch, Shares, tuple[Notice, ...]]:
    """α and β for the rows of a sketch, with a warning where they do not go with these."""
    from ..prior.document import shares_for
    from ..prior.estimation import check_stated

    sketch, shares, notices = shares_for(prior, sketch)
    if given.prior is None:  # else prior.json has the warnings about the scores
        notices = (*notices, *check_stated(sketch, prior))
    return sketch, shares, notices


def _check_use(given: PosteriorOptions) -> None:
    """Stop, before any work is done, at options that do not go together."""
    from ..tables.writing import check_table_target, check_target, is_json

    if given.model is not None and given.sketch is not None:
        raise UsageError("give either --model or --sketch, not both")
    given.check_groups_out()
    given.check_population(given.by)
    if given.groups is not None and given.by is None:
        raise UsageError("--groups goes with --by, which says by what column")
    new = given.model is not None or given.sketch is not None
    if given.by is not None and given.groups is None and new:
        raise UsageError("--by needs --groups where the scores to calibrate by are others")
    if given.group_column is not None:
        if not (given.bounds or given.evidence):
            raise UsageError("--group-column goes with --bounds or --evidence")
        if given.model is not None or given.sketch is not None:
            raise UsageError("--group-column is for the scores that are calibrated by")
    if given.thresholds is None:
        if given.lower_is_positive and given.groups_out is None:
            raise UsageError("--lower-is-positive goes with --thresholds or --groups-out")
        return
    if given.evidence is None:
        raise UsageError("--thresholds needs --evidence, which says what levels there are")
    check_target(given.thresholds)
    if not is_json(given.thresholds):
        try:
            check_table_target(given.thresholds)
        except UsageError as error:
            raise UsageError(f"{error}; thresholds may also be .json") from error


def _calibration_sketch(given: PosteriorOptions, scored: Scores, engine: Engine) -> Sketch:
    """The sketch to calibrate by: a file's, that of the model's rows, or that of the scores."""
    from ..score.model import load_model
    from ..tables.files import read_bytes

    if given.sketch is not None:
        return merged([given.sketch])
    if given.model is None:
        return scored.checked_sketch(engine)
    stored = load_model(given.model, read_bytes(given.model))
    if stored.sketch is None:
        raise InputError(f"{given.model}: holds no scores to calibrate by; give --sketch")
    return stored.sketch


def _by_group(
    given: PosteriorOptions,
    scored: Scores,
    calibration: Calibration,
    held: Bounds | None,
    engine: Engine,
) -> GroupPosteriors | None:
    """What scores say in each group, if there are any."""
    from ..posterior.groups import GroupPosteriors, Groups, estimate_groups

    if given.by is None:
        return None
    if given.groups is not None:
        groups = Groups.read(given.groups, given.by)
    else:
        groups = estimate_groups(scored.rows, given.by, calibration, engine)
    levels, grading = None, given.grading()
    if grading is not None:
        levels = grading.group_levels(calibration.shares.alpha, groups.shares.alpha)
    return GroupPosteriors(groups, calibration, held, levels, given.fdr)


def _conclude_groups(
    given: PosteriorOptions, by_group: GroupPosteriors, found: PosteriorRows, console: Console
) -> None:
    """Write the groups where that is wanted, and tell how many rows are called by theirs."""
    from ..posterior.groups import CALLED

    if given.groups_out is not None:
        by_group.write(given.groups_out, given.lower_is_positive)
    tell_groups(by_group.groups, console)
    if given.fdr is not None:
        called = found.reached[CALLED]
        console.say(f"calls  {called} unlabeled rows have an fdr of at most {given.fdr}")
    if by_group.levels is not None:
        for i in (-by_group.levels.overall_lr).argsort(kind="stable"):
            name = by_group.levels.names[i + 1]
            console.say(f"{found.reached[name]:>9}  {name}")


def _tell_calls(
    given: PosteriorOptions,
    levels: list[Level],
    columns: Columns,
    found: PosteriorRows,
    console: Console,
) -> None:
    if given.fdr is not None:
        called = found.unlabeled[columns["call"]].sum()
        console.say(f"calls  {called} unlabeled rows have an fdr of at most {given.fdr}")
    for level in sorted(levels, key=lambda level: -level.lr) if given.thresholds is None else []:
        rows = found.unlabeled[columns["evidence"] == level.name].sum()
        console.say(f"{rows:>9}  {level.name} (likelihood ratio {level.lr:.4g})")


def tell_thresholds(thresholds: Thresholds, console: Console) -> None:
    """Where each level begins."""
    for threshold in thresholds.levels:
        said = f"{threshold.level.code:<16}"
        if threshold.reached is None:
            console.say(f"{said} not reached")
            continue
        sign = "<=" if threshold.level.against != thresholds.lower_is_positive else ">="
        counts = {
            "unlabeled": threshold.n_unlabeled,
            "labeled": threshold.n_labeled,
            "negative": threshold.n_negatives,
        }
        rows = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        console.say(f"{said} score {sign} {threshold.reached.score_from:.4g}  {rows} rows")


@dataclass(frozen=True, kw_only=True)
class PerformanceOptions(PriorSource):
    scores: str = reads("--scores", "SCORES", "Scores that 'transform' wrote.", required=True)
    threshold: tuple[float, ...] = option(
        "--threshold",
        "Posterior",
        "Call rows from this score up; may be repeated. By default every score there is.",
        type=NUMBER,
        multiple=True,
    )
    out: str = writes(
        "--out",
        "FILE",
        "JSON or a table, by its name; by default JSON on standard output.",
        default="-",
    )


@command(PerformanceOptions)
def performance(given: PerformanceOptions, console: Console) -> None:
    """How good the score is at telling positives from negatives.

    Precision, recall and the like on the population of the unlabeled rows, though none of their
    classes is known, with 95 % intervals.

    \b
    punoise performance --scores scores.tsv --prior prior.json --threshold 0.5 --out perf.json
    """
    import pyarrow as pa

    from ..posterior.calibration import calibrate
    from ..posterior.performance import figures
    from ..scale.engine import open_engine
    from ..score.scores import Scores
    from ..tables.writing import check_table_target, check_target, is_json, write_json, write_table

    (check_target if is_json(given.out) else check_table_target)(given.out)
    scored = Scores.open(given.scores)
    prior = given.read_prior(scored)
    with open_engine(None, given.threads, console) as engine:
        sketch = scored.checked_sketch(engine)
    sketch, shares, notices = _shares(given, prior, sketch)
    calibration = calibrate(sketch, shares)
    found = figures(calibration, given.threshold, given.seed)
    if is_json(given.out):
        write_json(given.out, found.to_json())
    else:
        arrays = [pa.array(values, from_pandas=True) for values in found.columns.values()]
        write_table(given.out, pa.RecordBatch.from_arrays(arrays, list(found.columns)))
    low, high = found.auc_ci
    console.say(f"AUC    {found.auc:.4f} [{low:.4f}, {high:.4f}]  positives against negatives")
    notices = (*notices, *calibration.notices)
    console.warn(notices)
    given.check_strict(notices)
