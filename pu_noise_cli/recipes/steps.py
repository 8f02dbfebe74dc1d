"""Commands that take some of the steps of `run`, from what an earlier command wrote."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..answer import Answer, load_answer, write_answer
from ..audit.design import (
    Design,
    check_no_verdicts,
    designs,
    draw_rows,
    earlier_rows,
    kept_columns,
)
from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..pipeline import (
    ScoredRows,
    calibrate_scores,
    check_settings,
    check_unlabeled,
    checked_prior,
    compute_bounds,
    estimate,
    estimate_groups,
    estimate_new,
    in_population,
    interpret,
    label_values,
    open_rows,
    prior_of_model,
    read_scores,
    read_sketches,
    score_rows,
    stored_scores,
    train,
    with_groups,
)
from ..posterior.calibration import Calibration
from ..posterior.groups import Groups, check_by
from ..posterior.table import PosteriorRows
from ..prior.checks import missing_scores, rows_in_both, training_rows, uncounted
from ..prior.document import Prior, read_prior
from ..prior.estimation import check_stated
from ..scale.engine import Engine, is_sharded
from ..score.model import HonestScorer
from ..score.scores import WriteScores, open_scores, write_training_scores
from ..score.sketch import write_sketch
from ..score.training import Trained
from ..settings import (
    AuditSettings,
    EstimateSettings,
    Inputs,
    NewRows,
    PosteriorSettings,
    PriorSettings,
    ScoreSettings,
    TransformSettings,
)
from ..tables.files import read_bytes
from ..tables.reading import open_table
from ..tables.rows import SETS, Rows
from ..tables.writing import check_table_target, check_target, write_table

# ---- Rows to scores


def transform(settings: TransformSettings, engine: Engine) -> ScoredRows:
    """Learn a score of labeled and unlabeled rows, and write SCORES."""
    _check_targets(settings.model_out, settings.sketch_out)
    rows = open_rows(settings.inputs)
    engine.check_target(settings.out, rows)
    trained = train(rows, settings.scoring, engine)
    if trained.model.skip_missing:  # or too few scores would be noticed after writing them
        score_rows(rows, trained, engine)
    scored = score_rows(rows, trained, engine, settings.out)
    if settings.model_out is not None:
        write_answer(Answer(trained.model, scored.sketch), settings.model_out)
    if settings.sketch_out is not None:
        write_sketch(scored.sketch, settings.sketch_out)
    return replace(scored, notices=(*scored.notices, *uncounted(scored.sketch)))


def train_model(inputs: Inputs, scoring: ScoreSettings, engine: Engine, out: str) -> Trained:
    """Learn a score, and write a model that can score each file of its training tables."""
    check_target(out)
    rows = open_rows(inputs)
    for table in rows.tables:
        names = Counter(os.path.basename(shard.name) for shard in table.shards)
        name, count = names.most_common(1)[0]
        if count > 1:
            raise InputError(f"{table.name}: the files must differ by name: {count} are {name!r}")
    trained = train(rows, scoring, engine)
    write_answer(Answer(trained.model, scorer=trained.scorer), out)
    in_both = rows_in_both(len(trained.scorer.overlap))
    return replace(trained, notices=(*trained.notices, *in_both))


@dataclass(frozen=True)
class ScoredTable:
    """What was seen of rows that a model scored."""

    rows: int
    unused: Sequence[str]  # columns that the model does not know
    notices: tuple[Notice, ...]


def score(new: NewRows, engine: Engine, out: str, sketch_out: str | None = None) -> ScoredTable:
    """Score rows by a model, and write SCORES."""
    _check_targets(sketch_out)
    stored = load_answer(new.model, read_bytes(new.model)).skipping(new.missing_score)
    rows = _open_new(new, stored)
    engine.check_target(out, rows)
    if new.inputs.label_column is None and new.set_name is None:
        sketch = engine.write(WriteScores(stored.model), rows, "score", out)
        notices = training_rows(stored.model.count_seen(rows))
    else:
        code = None if new.set_name is None else SETS.index(new.set_name)
        scorer = _scorer_of_training_rows(new, stored, out)
        sketch, notices = write_training_scores(rows, scorer, code, engine.threads, out), ()
    if sketch_out is not None:
        write_sketch(sketch, sketch_out)
    features = {column.name for column in stored.model.encoding.columns}
    return ScoredTable(
        int(sketch.counts.sum()) + sketch.missing + sketch.overlap,
        [c for c in rows.tables[0].columns if c not in features and c not in rows.roles],
        (*notices, *missing_scores(sketch.missing)),
    )


def _open_new(new: NewRows, stored: Answer) -> Rows:
    inputs, scorer = new.inputs, stored.scorer
    is_known = inputs.label_column is not None or new.set_name is not None
    return Rows.from_tables(
        [open_table(new.table, inputs.layout)],
        features=[column.name for column in stored.model.encoding.columns],
        id_columns=inputs.id_column,
        label_column=inputs.label_column,
        label_values=label_values(inputs),
        group_column=scorer.group_column if is_known and scorer is not None else None,
        keep=inputs.keep_columns,
        wanted_by="model",
    )


def _scorer_of_training_rows(new: NewRows, stored: Answer, out: str) -> HonestScorer:
    """The scorer of a model for rows that it was trained on."""
    if is_sharded(out):
        names = f"{option('set_name')} and {option('label_column')}"
        raise UsageError(f"{names} write one table: 'transform' writes shards")
    if stored.scorer is None:
        raise UsageError(f"{new.model}: does not know its training rows; use one of 'train'")
    return stored.scorer


# ---- Scores to the prior


@dataclass(frozen=True)
class EstimatedPrior:
    """Alpha and beta, of all rows and by group."""

    scored: ScoredRows
    prior: Prior
    groups: Groups | None = None

    @property
    def notices(self) -> tuple[Notice, ...]:
        return (*self.prior.notices, *(() if self.groups is None else self.groups.notices))


def estimate_prior(settings: EstimateSettings, engine: Engine) -> EstimatedPrior:
    """Estimate alpha and beta from scores, sketches or tables, and write GROUPS if wanted."""
    if settings.groups_out is not None:
        check_table_target(settings.groups_out)
    scored = _scores_to_estimate_from(settings, engine)
    prior = estimate(scored, settings.prior, engine, settings.verdicts)
    if settings.by is None or prior.alpha is None:
        return EstimatedPrior(scored, prior)
    groups = estimate_groups(scored, calibrate_scores(scored, prior), settings.by, engine)
    if settings.groups_out is not None:
        groups.write(settings.groups_out)
    return EstimatedPrior(scored, prior, groups)


def _scores_to_estimate_from(settings: EstimateSettings, engine: Engine) -> ScoredRows:
    labeled_are = settings.inputs.labeled_are
    if settings.sketches:
        return read_sketches(settings.sketches, labeled_are)
    if settings.scores is not None:
        scored = read_scores(open_scores(settings.scores), engine, labeled_are)
        if settings.by is not None and scored.rows is not None:
            check_by(scored.rows, settings.by)
        return scored
    check_unlabeled(settings.inputs, None)
    rows = open_rows(settings.inputs)
    check_settings(settings.prior, rows)
    return score_rows(rows, train(rows, settings.scoring, engine), engine)


def estimate_new_sample(
    new: NewRows, stated: PriorSettings | None, sample: str | None, engine: Engine
) -> tuple[Prior, Prior]:
    """Alpha of the training rows of a model, by settings if some are stated, and of new rows."""
    stored = load_answer(new.model, read_bytes(new.model))
    rows = _open_new(new, stored)
    trained = prior_of_model(stored, new.model, engine, stated)
    return trained, estimate_new(stored, trained, rows, engine, sample)


# ---- Prior to posteriors


@dataclass(frozen=True)
class WrittenPosteriors:
    """What was seen of rows whose posteriors were written."""

    rows: PosteriorRows
    groups: Groups | None
    notices: tuple[Notice, ...]


def posterior(settings: PosteriorSettings, engine: Engine) -> WrittenPosteriors:
    """Write POSTERIOR of scores."""
    wanted = settings.wanted
    if (settings.prior is None) == (settings.alpha is None):
        raise UsageError(
            f"give either {option('prior')}, or {option('alpha')} (and {option('beta')})"
        )
    if wanted.by is not None and wanted.groups is None and (settings.model or settings.sketch):
        other = f"{option('model')} or {option('sketch')}"
        raise UsageError(f"{option('by')} with {other} needs {option('groups')}")
    if settings.groups_out is not None:
        check_table_target(settings.groups_out)
    has_set = None if settings.sketch else settings.model is None
    rows = open_scores(settings.scores, has_set, settings.group_column)
    engine.check_target(settings.out, rows)
    if wanted.by is not None:
        check_by(rows, wanted.by)
    prior = None if settings.prior is None else read_prior(settings.prior)
    scored = _scores_to_calibrate_by(settings, rows, engine)
    notices: tuple[Notice, ...] = ()
    if prior is None:
        assert settings.alpha is not None
        prior = checked_prior(settings.alpha, settings.beta, scored.sketch.labeled_class)
        notices = check_stated(scored.sketch, prior)
    prior, target_alpha = in_population(prior, wanted.target_alpha)
    wanted = replace(wanted, target_alpha=target_alpha)
    calibration, bounds = calibrate_scores(scored, prior), None
    if wanted.bounds:
        bounds = compute_bounds(calibration, scored, engine, wanted.seed, widen_by_groups=True)
    posteriors = interpret(calibration, wanted, bounds)
    groups = None
    if wanted.by is not None:
        posteriors = with_groups(posteriors, scored, wanted, engine)
        assert posteriors.group_posteriors is not None
        groups = posteriors.group_posteriors.groups
        if settings.groups_out is not None:
            groups.write(settings.groups_out)
    written = engine.write(posteriors.step, rows, "posterior", settings.out)
    missing = missing_scores(written.missing)
    return WrittenPosteriors(written, groups, (*notices, *posteriors.notices, *missing))


def _scores_to_calibrate_by(settings: PosteriorSettings, rows: Rows, engine: Engine) -> ScoredRows:
    """The scores of sketches, of a model's training rows, or of the rows themselves."""
    if settings.sketch:
        return read_sketches(settings.sketch, settings.labeled_are)
    if settings.model is None:
        return read_scores(rows, engine, settings.labeled_are)
    stored = load_answer(settings.model, read_bytes(settings.model))
    if stored.sketch is None:
        sketch = option("sketch")
        raise InputError(f"{settings.model}: holds no scores to calibrate by; give {sketch}")
    return stored_scores(stored, settings.labeled_are)


# ---- Rows to verify


@dataclass(frozen=True)
class DrawnAudit:
    """The rows that were drawn, and what their verdicts will be worth."""

    rows: int
    prior: Prior
    calibration: Calibration
    designs: tuple[Design, Design]  # of unlabeled and of labeled rows


def audit(settings: AuditSettings, engine: Engine) -> DrawnAudit:
    """Draw rows to verify by hand, and write AUDIT."""
    check_table_target(settings.out)
    check_no_verdicts(settings.out)
    wanted = settings.rows, settings.labeled_rows
    if sum(wanted) == 0:
        raise UsageError(f"give {option('rows')} or {option('labeled_rows')} above 0")
    prior = read_prior(settings.prior)
    scored = read_scores(open_scores(settings.scores), engine)
    rows = scored.rows
    assert rows is not None
    inputs = settings.inputs
    names = (inputs.labeled, inputs.negatives, inputs.unlabeled, inputs.table)
    tables = [open_table(name, inputs.layout) for name in names if name is not None] or rows.tables
    if not scored.sketch.n_unlabeled:
        raise InputError(f"{settings.scores}: has no unlabeled rows to verify")
    calibration = calibrate_scores(scored, prior)
    sketch, by_set = calibration.sketch, designs(calibration, settings.top)
    earlier, taken = earlier_rows(settings.verdicts, rows, sketch, by_set)
    drawn = draw_rows(rows, sketch, by_set, wanted, taken, earlier, settings.seed)
    columns = settings.keep_columns or rows.kept
    if clash := {*columns} & {*drawn.column_names}:
        keep = option("keep_columns")
        raise UsageError(f"{keep}: {min(clash)!r} is a column of the audit itself")
    if columns:
        n_scores = int(sketch.counts.sum()) + sketch.missing + sketch.overlap
        kept = kept_columns(tables, columns, np.asarray(drawn["row"]) - 1, n_scores)
        for column in columns:
            drawn = drawn.append_column(column, kept[column])
    write_table(settings.out, drawn.combine_chunks().to_batches()[0])
    return DrawnAudit(len(drawn), prior, calibration, by_set)


def _check_targets(*names: str | None) -> None:
    for name in names:
        if name is not None:
            check_target(name)
