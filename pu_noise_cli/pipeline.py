"""The steps from tables to files: rows, scores, prior, posteriors, results.

    rows        = open_rows(inputs)                         tables, matched by column name
    trained     = train(rows, scoring, engine)              labeled against unlabeled rows
    scored      = score_rows(rows, trained, engine, out)    honest scores, and their sketch
    prior       = estimate(scored, settings, engine)        alpha and beta
    calibration = calibrate_scores(scored, prior)           posterior, lr and tau of each cell
    bounds      = compute_bounds(calibration, scored, ...)  how sure these are
    posteriors  = interpret(calibration, wanted, bounds)    the columns of POSTERIOR
    posteriors  = with_groups(posteriors, scored, ...)      each row by its own group, if wanted
    write_posteriors(posteriors, scored, engine, out)       POSTERIOR, row by row

These are the steps; recipes/ has what each command makes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .answer import Answer
from .audit.design import next_steps, read_audits
from .audit.verdicts import revise
from .errors import EstimationError, InputError, PunoiseError, UsageError, option
from .notices import Notice
from .numerics import FloatArray, IntArray
from .posterior.calibration import Bounds, Calibration, GatherGroups, bounds, calibrate
from .posterior.candidates import ListedRows
from .posterior.columns import CellColumn, Column, Columns
from .posterior.groups import GroupPosteriors, Groups, check_by
from .posterior.groups import estimate_groups as pool_groups
from .posterior.pooling import Bins
from .posterior.summary import Summary
from .posterior.table import (
    Arrays,
    PosteriorRows,
    WritePosteriors,
    bound_columns,
    posterior_columns,
)
from .prior.base import ESTIMATORS, Settings
from .prior.checks import training_rows
from .prior.document import Prior, shares_for, stated
from .prior.estimation import (
    DEFAULT_METHOD,
    conclude,
    failed_prior,
    needs_features,
    run_methods,
    stated_prior,
)
from .prior.multivariate import feature_samples
from .prior.shift import shifted_prior
from .report.content import WORDING, sample_page
from .report.page import Page, Section
from .scale.engine import Engine
from .score.classifiers import CLASSIFIERS
from .score.contributions import Contribution
from .score.model import HonestScorer
from .score.overlap import NO_OVERLAP, find_overlap
from .score.scores import SketchScores, WriteScores, are_negated, column_notices
from .score.sketch import Sketch, check_sizes
from .score.sketch import read_sketches as merge_sketch_files
from .score.training import Trained, survey_step
from .score.training import train as train_model
from .settings import Inputs, PriorSettings, ScoreSettings, Wanted
from .tables.reading import Table, open_table
from .tables.results import InputFile, Provenance
from .tables.rows import IGNORED, LABELED, NEGATIVE, UNLABELED, LabeledClass, Rows
from .tables.spool import copy_text, is_text
from .tables.writing import MemoryTable


def registered(kind: str) -> Collection[str]:
    """The available methods or classifiers."""
    registries = {"methods": (*ESTIMATORS, "all"), "classifiers": CLASSIFIERS}
    return registries[kind]


# ---- Tables to rows


def check_unlabeled(inputs: Inputs, alpha: float | None) -> None:
    """Stop if alpha would have to be estimated without unlabeled rows."""
    # without negatives, open_rows itself demands unlabeled rows
    if inputs.negatives is None or inputs.unlabeled is not None or inputs.table is not None:
        return
    if alpha is None:
        unlabeled, known = option("unlabeled"), option("alpha")
        raise UsageError(
            f"alpha cannot be estimated without {unlabeled}; give it, or state {known}"
        )


def open_rows(inputs: Inputs) -> Rows:
    """Open the tables and match their columns by name."""
    by_set = {LABELED: inputs.labeled, NEGATIVE: inputs.negatives, UNLABELED: inputs.unlabeled}
    named = {code: table for code, table in by_set.items() if table is not None}
    if inputs.table is not None:
        named = {UNLABELED: inputs.table}
    elif inputs.labeled is None or len(named) < 2:
        missing = "labeled" if inputs.labeled is None else "unlabeled"
        one_table = f"{option('table')} with {option('label_column')}"
        raise UsageError(f"no {missing} table: add {option(missing)}, or use {one_table}")
    if list(named.values()).count("-") > 1:
        raise UsageError("only one table can come from standard input")
    tables = [
        open_table(table, inputs.layout) if isinstance(table, str) else table
        for table in named.values()
    ]
    if inputs.table is not None and inputs.label_column is None:
        raise UsageError(f"{option('table')} needs {option('label_column')}")
    rows = Rows.from_tables(
        tables,
        sets=list(named),
        features=inputs.features if inputs.score_column is None else (inputs.score_column,),
        drop=inputs.drop_columns,
        id_columns=inputs.id_column,
        group_column=inputs.group_column,
        label_column=inputs.label_column,
        label_values=label_values(inputs),
        keep=(*inputs.keep_columns, *(() if inputs.by is None else (inputs.by,))),
        labeled_class="negative" if inputs.labeled_are == "negatives" else "positive",
        wanted_by="features" if inputs.score_column is None else "score_column",
    )
    if inputs.by is not None:
        check_by(rows, inputs.by)
    return rows


def label_values(inputs: Inputs) -> list[tuple[str, int]]:
    """What the user's own values of the label column mean."""
    named = {
        LABELED: inputs.labeled_value,
        NEGATIVE: inputs.negative_value,
        UNLABELED: inputs.unlabeled_value,
        IGNORED: inputs.ignore_value,
    }
    pairs = [(value, code) for code, values in named.items() for value in dict.fromkeys(values)]
    for value, count in Counter(value for value, _ in pairs).items():
        if count > 1:
            raise UsageError(f"the label {value!r} cannot have two meanings")
    return pairs


# ---- Rows to scores


@dataclass(frozen=True)
class ScoredRows:
    """Rows with honest scores, and what the scores say together."""

    sketch: Sketch
    rows: Rows | None = None  # none if there is only a sketch; without scores, the scorer has them
    scores: Rows | None = None  # the same rows in a SCORES file
    notices: tuple[Notice, ...] = ()
    trained: Trained | None = None
    scorer: HonestScorer | None = None
    learned: bool = False  # the score is known to be a classifier's, not a column's
    negated: bool = False  # the score is known to be a column's with the opposite sign
    widening: FloatArray | None = None  # of bounds, by groups that only the model knows


@dataclass(frozen=True, eq=False)
class SurveyedRows:
    """Rows after the pass that every training starts from."""

    rows: Rows  # with their overlap
    survey: Any  # a Survey; on a cluster, its future
    twins: IntArray  # the labeled rows that the overlap consists of


def survey_rows(
    rows: Rows, scoring: ScoreSettings, engine: Engine, keep_digests: bool = False
) -> SurveyedRows:
    """Profile the columns and draw a sample; keep the digests of the files if wanted."""
    step = survey_step(rows, scoring, keep_digests)  # stops if there are too many columns
    text = any(is_text(shard) for table in rows.tables for shard in table.shards)
    if text and engine.client is None:  # workers of a cluster do not see the copies
        with engine.timed("read"), engine.progress.rows("read", None) as done:
            copy_text(rows, scoring.categorical, done)
    overlap = NO_OVERLAP if scoring.count_overlap else find_overlap(rows, engine)
    rows = replace(rows, overlap=overlap.rows)
    return SurveyedRows(rows, engine.gather_remote(step, rows, "sample"), overlap.twins)


def train(
    rows: Rows,
    scoring: ScoreSettings,
    engine: Engine,
    keep_digests: bool = False,
    groups_matter: bool = False,
) -> Trained:
    """Learn a score, or take the only column as the score.

    Parameters
    ----------
    keep_digests
        Keep the digests of the files, which are read anyway.
    groups_matter
        Whether the group column of a score that is not learned is used later, for bounds.
    """
    found = survey_rows(rows, scoring, engine, keep_digests)
    given = found.rows, found.survey, scoring, groups_matter, found.twins
    trained = engine.call("train", train_model, *given, watched=True)
    set_digests(rows, trained)
    return trained


def set_digests(rows: Rows, trained: Trained) -> None:
    """Give the files the digests that training found, so that they are not read again."""
    for shard in (shard for table in rows.tables for shard in table.shards):
        if shard.path in trained.digests:
            shard.set_digest(trained.digests[shard.path])


def score_rows(
    rows: Rows,
    trained: Trained,
    engine: Engine,
    out: str | MemoryTable | None = None,
) -> ScoredRows:
    """Score the rows honestly, and write SCORES if wanted."""
    rows = replace(rows, overlap=trained.scorer.overlap)
    step = WriteScores(trained.scorer, notices=trained.notices)
    if out is None:
        sketch = engine.gather(step, rows, "score")
    else:
        sketch = engine.write(step, rows, "score", out)
    check_sizes(rows.set_names, sketch.counts.sum(0), sketch.missing, rows.named_sets)
    return ScoredRows(
        sketch,
        rows,
        notices=trained.notices,
        trained=trained,
        scorer=trained.scorer,
        learned=trained.learned,
        negated=trained.model.lower_is_positive,
    )


def read_scores(rows: Rows, engine: Engine, labeled_are: str | None = None) -> ScoredRows:
    """The sketch of the scores of a SCORES file, whose rows are given."""
    sketch = engine.gather(SketchScores(), rows, "sketch")
    check_sizes(rows.tables[0].name, sketch.counts.sum(0), sketch.missing)
    return ScoredRows(
        with_labels(sketch, labeled_are),
        rows,
        rows,
        notices=column_notices(rows),
        negated=are_negated(rows),
    )


def stored_scores(stored: Answer, labeled_are: str | None = None) -> ScoredRows:
    """The scores that a model was trained on, as far as it holds them: without their rows."""
    assert stored.sketch is not None
    sketch, negated = with_labels(stored.sketch, labeled_are), stored.model.lower_is_positive
    return ScoredRows(sketch, negated=negated, widening=stored.widening)


def read_sketches(names: Sequence[str], labeled_are: str | None = None) -> ScoredRows:
    """Merge sketch files; the result has a sketch but no rows."""
    sketch = merge_sketch_files(names)
    check_sizes(names[0], sketch.counts.sum(0), sketch.missing)
    return ScoredRows(with_labels(sketch, labeled_are))


def with_labels(sketch: Sketch, labeled_are: str | None) -> Sketch:
    """The sketch with the class of its labeled rows as the user states it."""
    if labeled_are == "positives" and sketch.labeled_class == "negative":
        name = option("labeled_are")
        raise UsageError(f"these scores were made with {name} negatives; remove {name} positives")
    return replace(sketch, labeled_class="negative") if labeled_are == "negatives" else sketch


# ---- Scores to the prior


def estimate(
    scored: ScoredRows,
    settings: PriorSettings,
    engine: Engine,
    verdicts: Sequence[str | Table] = (),
) -> Prior:
    """Alpha and beta: as stated, by the scores or, where rows were verified, by their verdicts."""
    sketch, learned, seed = scored.sketch, scored.learned, settings.seed
    about: dict[str, Any] = {"sample": settings.sample, "notices": scored.notices}
    if settings.alpha is not None:
        prior = checked_prior(settings.alpha, settings.beta, sketch.labeled_class)
        return stated_prior(sketch, prior, seed=seed, learned=learned, **about)
    method, fixed = _method_settings(settings, sketch.labeled_class)
    if verdicts and method not in (DEFAULT_METHOD, "all"):
        raise UsageError(f"{option('verdicts')} needs {option('method', 'auto')} or all")
    samples = None
    if scored.trained is not None and needs_features(method):
        samples = engine.call("features", feature_samples, scored.rows, scored.trained, seed)
    with engine.timed("estimate"):
        estimation = run_methods(sketch, method, fixed, samples=samples, learned=learned)
        if verdicts:
            estimation = revise(estimation, read_audits(verdicts, _scores_of(scored), sketch))
        return conclude(estimation, **about)


def prior_of_model(
    stored: Answer, name: str, engine: Engine, settings: PriorSettings | None = None
) -> Prior:
    """Alpha and beta of the rows that a model was trained on: stored, or estimated from scores."""
    if stored.sketch is None:
        raise InputError(f"{name}: holds no scores of its training rows; use a model of 'run'")
    prior = stored.prior
    if prior is None or settings is not None:
        prior = estimate(stored_scores(stored), settings or PriorSettings(), engine)
    if prior.alpha is None:
        raise EstimationError(f"{name}: no estimate: {prior.reason}")
    return prior


def estimate_new(
    stored: Answer, prior: Prior, rows: Rows, engine: Engine, sample: str | None = None
) -> Prior:
    """Alpha of new rows, which a model scores; the prior is that of its training rows."""
    assert stored.sketch is not None
    sketch = engine.gather(WriteScores(stored.model), rows, "score")
    notices = training_rows(stored.model.count_seen(rows))
    with engine.timed("estimate"):
        return shifted_prior(prior, stored.sketch, sketch, sample, notices)


def _scores_of(scored: ScoredRows) -> Rows:
    assert scored.scores is not None  # a sketch has no rows
    return scored.scores


def check_settings(settings: PriorSettings, rows: Rows) -> None:
    """Stop, before any work is done, where alpha and beta cannot be estimated as wanted."""
    if settings.alpha is not None:
        checked_prior(settings.alpha, settings.beta, rows.labeled_class)
    else:
        _method_settings(settings, rows.labeled_class)


def _method_settings(settings: PriorSettings, labeled_class: LabeledClass) -> tuple[str, Settings]:
    """The method and its settings, checked against each other."""
    method = settings.method or DEFAULT_METHOD
    chosen = ESTIMATORS.values() if method == "all" else [ESTIMATORS[method]]
    heeded = {name for estimator in chosen for name in estimator.options}
    fixed: dict[str, Any] = {
        "purity": settings.purity,
        "alpha_between": settings.alpha_between,
        "beta_between": settings.beta_between,
    }
    for name, value in fixed.items():
        if value is not None and name not in heeded:
            methods = ", ".join(key for key, one in ESTIMATORS.items() if name in one.options)
            raise UsageError(f"{option(name)} applies only to {option('method')} {methods}")
        if isinstance(value, tuple) and value[0] > value[1]:
            ends = f"the lower end {value[0]:g} is above the upper end {value[1]:g}"
            raise UsageError(f"{option(name)}: {ends}")
    low, high = settings.alpha_between or (0.0, 1.0)
    _, highest = settings.beta_between or (0.0, 1.0 if settings.beta is None else settings.beta)
    if labeled_class == "negative" and 1 - high >= highest:
        raise UsageError(f"alpha cannot be {high:g} or less where beta is at most {highest:g}")
    if labeled_class == "positive" and low >= highest:
        raise UsageError(f"alpha cannot be {low:g} or more where beta is at most {highest:g}")
    return method, Settings(beta=settings.beta, seed=settings.seed, **fixed)


def checked_prior(alpha: float, beta: float | None, labeled_class: LabeledClass) -> Prior:
    """The user's own alpha and beta, which must be possible together."""
    beta = 1.0 if beta is None else beta
    minus, fraction = ("1 - ", 1 - alpha) if labeled_class == "negative" else ("", alpha)
    if fraction >= beta:
        raise UsageError(f"{minus}{option('alpha')} {alpha} must be below {option('beta')} {beta}")
    return stated(alpha, beta, labeled_class)


def failed_prior_for(settings: PriorSettings, error: PunoiseError) -> Prior:
    """The prior that says why there is no estimate."""
    return failed_prior(settings.method or DEFAULT_METHOD, settings.seed, error, settings.sample)


# ---- Prior to posteriors


@dataclass(frozen=True, eq=False)
class Posteriors:
    """What each score says about its row, given alpha and beta."""

    calibration: Calibration
    by_cell: Arrays  # columns of POSTERIOR, for all rows together
    beside: Arrays  # columns of candidates that POSTERIOR does not have
    notices: tuple[Notice, ...]
    target_alpha: float | None = None
    bounds: Bounds | None = None
    group_posteriors: GroupPosteriors | None = None  # in place of the columns by cell
    further: Columns = field(default_factory=dict)  # columns that a domain adds

    @property
    def columns(self) -> Columns:
        """The columns of POSTERIOR after the score."""
        return {**self._columns(self.by_cell), **self.further}

    def with_column(self, name: str, column: Column) -> Posteriors:
        """The same with a further column."""
        return replace(self, further={**self.further, name: column})

    def with_notices(self, notices: Sequence[Notice]) -> Posteriors:
        """The same with further warnings."""
        return replace(self, notices=(*self.notices, *notices))

    @property
    def step(self) -> WritePosteriors:
        """The step that writes POSTERIOR."""
        sketch, label_sign = self.calibration.sketch, self.calibration.label_sign
        return WritePosteriors(sketch, self.columns, label_sign, self._columns(self.beside))

    def _columns(self, by_cell: Arrays) -> Columns:
        columns = {name: CellColumn(values) for name, values in by_cell.items()}
        return columns if self.group_posteriors is None else self.group_posteriors.columns(columns)


def calibrate_scores(scored: ScoredRows, prior: Prior) -> Calibration:
    """What the scores of all rows mean, with a warning if the prior is that of other rows."""
    if prior.alpha is None:
        raise EstimationError(f"no posteriors: {prior.reason}")
    sketch, shares, notices = shares_for(prior, scored.sketch)
    calibration = calibrate(sketch, shares)
    return replace(calibration, notices=(*notices, *calibration.notices))


def in_population(prior: Prior, target_alpha: float | None) -> tuple[Prior, float | None]:
    """The prior to calibrate scores with, and alpha of the population that posteriors are for.

    A prior of new rows holds that of the training rows, which calibrates; its own alpha is that of
    the population.
    """
    if prior.shifted_from is None:
        return prior, target_alpha
    return prior.shifted_from, prior.alpha if target_alpha is None else target_alpha


def compute_bounds(
    calibration: Calibration, scored: ScoredRows, engine: Engine, seed: int, widen_by_groups: bool
) -> Bounds:
    """Bounds on the likelihood ratio, wider where rows of one group are alike."""
    rows = scored.rows
    if widen_by_groups and rows is not None and rows.group_column is not None:
        copies = engine.gather(GatherGroups(scored.scorer), rows, "groups")
        return replace(bounds(calibration, seed, copies), notices=copies.notices)
    return bounds(calibration, seed, scored.widening)


def interpret(calibration: Calibration, wanted: Wanted, bounds: Bounds | None = None) -> Posteriors:
    """The columns of POSTERIOR, and those of candidates; bounds are in POSTERIOR if wanted."""
    columns = posterior_columns(
        calibration,
        bounds=bounds if wanted.bounds else None,
        target_alpha=wanted.target_alpha,
        fdr=wanted.fdr,
    )
    beside = {} if bounds is None else bound_columns(bounds, wanted.target_alpha)
    return Posteriors(
        calibration,
        columns,
        beside,
        (*calibration.notices, *(() if bounds is None else bounds.notices)),
        wanted.target_alpha,
        bounds,
    )


def with_groups(
    posteriors: Posteriors, scored: ScoredRows, wanted: Wanted, engine: Engine
) -> Posteriors:
    """The same with the columns of rows by their own groups."""
    assert wanted.by is not None
    calibration = posteriors.calibration
    groups = estimate_groups(scored, calibration, wanted.by, engine, wanted.groups)
    whole = {**posteriors.beside, **posteriors.by_cell}
    of_groups = GroupPosteriors(groups, Bins.from_calibration(calibration), whole, wanted.fdr)
    notices = (*posteriors.notices, *groups.notices)
    return replace(posteriors, notices=notices, group_posteriors=of_groups)


def estimate_groups(
    scored: ScoredRows, calibration: Calibration, by: str, engine: Engine, file: str | None = None
) -> Groups:
    """Alpha of each group: read from GROUPS, or estimated from the rows."""
    if file is not None:
        return Groups.read(file, by)
    if scored.scores is not None:
        return pool_groups(scored.scores, by, calibration, engine)
    if scored.rows is None:
        raise UsageError(f"{option('by')} needs tables or scores: a sketch has no groups")
    return pool_groups(scored.rows, by, calibration, engine, scored.scorer)


# ---- Results


def write_posteriors(
    posteriors: Posteriors, scored: ScoredRows, engine: Engine, out: str | MemoryTable
) -> PosteriorRows:
    """Write POSTERIOR."""
    return engine.write(posteriors.step, _scores_of(scored), "posterior", out)


def answer(scored: ScoredRows, prior: Prior, posteriors: Posteriors) -> Answer:
    """What new rows need."""
    assert scored.trained is not None
    widening = None if posteriors.bounds is None else posteriors.bounds.widening
    return Answer(scored.trained.model, scored.sketch, prior, posteriors.columns, widening)


def provenance(
    rows: Rows,
    trained: Trained | None,
    options: Mapping[str, Any],
    execution: Mapping[str, Any],
    notices: Sequence[Notice] = (),
) -> Provenance:
    """Where results come from: inputs, options, versions.

    Parameters
    ----------
    trained
        None if a model was given.
    notices
        Warnings in place of those of training.
    """
    counts = (None, None, None) if trained is None else trained.counts
    return Provenance(
        inputs=[
            InputFile(table.name, shard.name, shard.sha256())
            for table in rows.tables
            for shard in table.shards
        ],
        options=dict(options),
        execution=dict(execution),
        score_column=None if trained is None or trained.learned else trained.columns[0].column,
        n_labeled=counts[LABELED],
        n_unlabeled=counts[UNLABELED],
        n_negatives=counts[NEGATIVE] or None,
        columns=[] if trained is None else trained.columns,
        warnings=list(notices or (() if trained is None else trained.notices)),
    )


def summarize(prior: Prior, posteriors: Posteriors) -> Summary:
    """The numbers that people quote."""
    return Summary.from_calibration(
        prior,
        posteriors.calibration,
        posteriors.by_cell,
        tuple(dict.fromkeys((*prior.notices, *posteriors.notices))),
        by_group=posteriors.group_posteriors is not None,
    )


def sample_report(
    summary: Summary,
    posteriors: Posteriors,
    listed: ListedRows,
    provenance: Provenance | None,
    contributions: Sequence[Contribution] = (),
    *,
    sections: Sequence[Section] = (),
    sources: Sequence[InputFile] = (),
    command: str = "punoise audit",
) -> Page:
    """The report of one sample; `command` draws rows to verify by hand."""
    bounds, target_alpha = posteriors.bounds, posteriors.target_alpha
    return sample_page(
        summary,
        posteriors.calibration,
        posteriors.by_cell,
        None if bounds is None else bounds.at(target_alpha),
        target_alpha=target_alpha,
        listed=listed,
        contributions=contributions,
        provenance=provenance,
        sources=sources,
        sections=sections,
        groups=None if posteriors.group_posteriors is None else posteriors.group_posteriors.groups,
        steps=next_steps(summary.prior, posteriors.calibration, command, WORDING),
    )
