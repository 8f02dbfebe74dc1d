"""A survey of tables to a trained model: encode and scale the sample, train the classifier."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..encoding import Encoding
from ..errors import InputError, UsageError
from ..notices import Notice, declare
from ..rows import Chunk, Rows
from ..sketch import LABELED, NEGATIVE, SETS, UNLABELED, IntArray
from ..spikes import LONE_VALUE, lone_in_column
from . import CLASSIFIERS
from .base import Fit, Progress, Training
from .crossfit import FOLDS, CrossFit, cross_fit
from .decoys import telling_features
from .scaling import fit_scaling
from .scoring import HonestScorer, ScoreModel, TrainingFile
from .survey import Survey, SurveyRows

MIN_ROWS = 20
MAX_TRAIN_VALUES = 1 << 25  # in the feature matrix: wide tables train on fewer rows
MAX_FEATURES = 50_000
LEAK_AUC = 0.9995
LEAK = declare(
    "leaking-column",
    "One column alone tells the two tables apart.",
    "If it says how a row came to be labeled, leave it out with --drop-columns; if it is real "
    "biology, keep it.",
)


@dataclass(frozen=True)
class TransformSettings:
    """What the user may fix about the transform."""

    classifier: str = "standard"
    train: bool | None = None  # False: the one feature is the score; None: if there is just one
    lower_is_positive: bool = False
    skip_missing: bool | None = None  # rows without a score, where a column is it; None: they stop
    labeled_negatives: bool = False  # a learned score is then turned round
    decoys: bool = False  # the labeled negatives are to look like the others
    max_train_rows: int = 100_000
    na: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    seed: int = 0
    threads: int = 1
    only_to_learn: tuple[str, ...] = ()  # options given that a column used as the score ignores


@dataclass(frozen=True)
class Trained:
    """What training gives: the scorer, and what was noticed about the rows."""

    scorer: HonestScorer
    counts: Sequence[int]  # of the rows of each set
    columns: list[dict[str, Any]]
    digests: Mapping[str, str]  # SHA-256 of the files of the tables, by path; if wanted
    notices: tuple[Notice, ...]
    telling: tuple[str, ...] = ()  # features that tell decoys from targets like them

    @property
    def model(self) -> ScoreModel:
        return self.scorer.model

    @property
    def learned(self) -> bool:
        """Whether the score is a classifier's, not a column as it stands."""
        return self.model.model is not None


def survey_step(rows: Rows, settings: TransformSettings, digests: bool = False) -> SurveyRows:
    """The pass over all rows that training begins with; it can find the files' digests too."""
    _check_width(rows, len(rows.features))
    size = min(settings.max_train_rows, MAX_TRAIN_VALUES // len(rows.features))
    return SurveyRows(size, settings.seed, settings.na, settings.categorical, digests)


def train(
    rows: Rows,
    survey: Survey,
    settings: TransformSettings,
    progress: Progress = lambda share: None,
) -> Trained:
    """Learn to tell labeled from unlabeled rows, on a sample where there are many."""
    profiler, labeled, others = survey.profiler, survey.labeled, survey.others
    counts = (others.seen - survey.negatives, labeled.seen, survey.negatives)
    check_sizes(rows.names_of_sets, counts, named=rows.named_sets)
    profiler.finish(rows)
    others.cut(others.size - len(labeled))
    encoding, notices = profiler.encoding()
    trained = partial(Trained, counts=counts, columns=profiler.summary(), digests=survey.digests)
    scorer = partial(
        HonestScorer,
        files=_files(rows, survey.seen),
        sets=rows.sets,
        group_column=rows.group_column,
    )
    if _is_score(encoding, settings):
        as_it_is = scorer(
            model=_column_as_score(encoding, settings),
            places=np.empty((0, 2), np.int64),
            scores=np.empty(0),
        )
        return trained(scorer=as_it_is, notices=tuple(notices))
    _check_width(rows, len(encoding.feature_names))
    chunks = labeled.chunks + others.chunks
    raw = np.concatenate([encoding.encode(chunk) for chunk in chunks])
    scaling = fit_scaling(raw)
    is_labeled = np.repeat([True, False], [len(labeled), len(others)])
    names = _group_names(rows, chunks)
    training = Training(scaling.apply(raw), is_labeled, _group_numbers(names))
    sampled = len(is_labeled) < sum(counts)
    fit, crossed = _fits(training, names if sampled else None, settings, progress)
    turned = settings.labeled_negatives
    model = ScoreModel(encoding, settings.classifier, scaling, fit.model, labeled_negatives=turned)
    places = np.concatenate([labeled.places, others.places])
    scores = model.turned(fit.scores)
    learned = scorer(model=model, places=places, scores=scores, cross_fit=crossed)
    telling: tuple[str, ...] = ()
    if settings.decoys:
        telling = telling_features(training, fit.scores, encoding.feature_names)
    notices += _odd_columns(encoding, raw, training)
    return trained(scorer=learned, notices=tuple(notices), telling=telling)


def _fits(
    training: Training, groups: pa.Array | None, settings: TransformSettings, progress: Progress
) -> tuple[Fit, CrossFit | None]:
    """The fit and, where groups are named, those without the groups of each fold of them."""
    fits = 1 if groups is None else FOLDS + 1

    def fit_part(part: Training, done: int) -> Fit:
        return CLASSIFIERS[settings.classifier].train(
            part,
            seed=settings.seed,
            threads=settings.threads,
            progress=lambda share: progress((done + share) / fits),
        )

    crossed = None if groups is None else cross_fit(training, groups, settings.seed, fit_part)
    return fit_part(training, fits - 1), crossed


def _check_width(rows: Rows, features: int) -> None:
    """Stop, before it takes for ever, where there are too many features to learn from."""
    if features > MAX_FEATURES:
        raise InputError(
            f"{rows.tables[0].name}: {features} features; a score can be learned from at most "
            f"{MAX_FEATURES}: choose some with --features or --drop-columns, or condense them"
        )


def _files(rows: Rows, seen: Mapping[tuple[int, str], int]) -> tuple[tuple[TrainingFile, ...], ...]:
    """The files of each table, given how many rows each was seen to have."""
    tables = []
    for position, table in enumerate(rows.tables):
        files, first_row = [], 0
        for shard in table.shards:
            count = seen.get((position, shard.name), 0)
            files.append(TrainingFile(os.path.basename(shard.name), first_row, count))
            first_row += count
        tables.append(tuple(files))
    return tuple(tables)


def check_sizes(
    names: str | Sequence[str],
    counts: Sequence[int] | IntArray,
    missing: int = 0,
    named: Collection[int] = (),
) -> None:
    """Stop where a set is too small to say anything; `names` are the file's, or each set's.

    There need be no known negatives and, where there are, no unlabeled rows, unless these sets were
    `named`. `missing` rows were not counted, as they have no score.
    """
    names = [names] * len(SETS) if isinstance(names, str) else names
    for code in (LABELED, UNLABELED, NEGATIVE):
        kind, count = SETS[code], counts[code]
        optional = code == NEGATIVE or (code == UNLABELED and counts[NEGATIVE] > 0)
        absent = count == 0 and optional and code not in named
        if count < MIN_ROWS and not absent:
            rows = f"{kind} rows with a score" if missing else f"{kind} rows"
            raise InputError(f"{names[code]}: {count} {rows}; at least {MIN_ROWS} are needed")


def _is_score(encoding: Encoding, settings: TransformSettings) -> bool:
    """Whether the features are one numeric column, to be used as the score that it is."""
    can = len(encoding.columns) == 1 and encoding.columns[0].kind == "number"
    if settings.train is False and not can:
        names = [column.name for column in encoding.columns]
        if len(names) == 1:
            raise InputError(f"column {names[0]!r} does not hold numbers and cannot be the score")
        raise UsageError(
            f"--no-transform takes one numeric column as the score, not {', '.join(names[:8])}; "
            "choose it with --score-column"
        )
    as_is = can and settings.train is not True
    if settings.skip_missing is not None and not as_is:
        raise UsageError("--missing-score is for a score column; a transform copes with gaps")
    if settings.lower_is_positive and not as_is:
        raise UsageError("--lower-is-positive is for a score column; a transform learns its sign")
    if as_is and settings.only_to_learn:
        raise UsageError(
            f"{settings.only_to_learn[0]} does nothing here: column {encoding.columns[0].name!r} "
            "is used as the score, and no score is learned (--transform would)"
        )
    return as_is


def _column_as_score(encoding: Encoding, settings: TransformSettings) -> ScoreModel:
    return ScoreModel(
        encoding,
        lower_is_positive=settings.lower_is_positive,
        skip_missing=settings.skip_missing is True,
        labeled_negatives=settings.labeled_negatives,
    )


def _group_names(rows: Rows, chunks: list[Chunk]) -> pa.Array | None:
    if rows.group_column is None:
        return None
    return pa.concat_arrays([rows.groups(chunk) for chunk in chunks])


def _group_numbers(names: pa.Array | None) -> NDArray[np.int64] | None:
    if names is None:
        return None
    return np.asarray(names.dictionary_encode().indices).astype(np.int64)


def _odd_columns(encoding: Encoding, raw: NDArray[np.float64], training: Training) -> list[Notice]:
    """Columns of the matrix, shape (n, d), in which a value stands apart or that leak labels."""
    numbers = {column.name for column in encoding.columns if column.kind == "number"}
    notices = []
    for name, values in zip(encoding.feature_names, raw.T, strict=True):
        if name in numbers and (found := lone_in_column(values, training.labeled)) is not None:
            notices.append(LONE_VALUE(found.told(f"in column {name!r} the value")))
    return [*notices, *_leaks(encoding, training)]


def _leaks(encoding: Encoding, training: Training) -> list[Notice]:
    """Features that alone tell labeled from unlabeled rows: more likely a leak than biology."""
    notices = []
    for name, values in zip(encoding.feature_names, training.features.T, strict=True):
        labeled, unlabeled = (np.sort(values[training.labeled == of]) for of in (True, False))
        below = [np.searchsorted(unlabeled, labeled, side).mean() for side in ("left", "right")]
        auc = sum(below) / (2 * len(unlabeled))
        if max(auc, 1 - auc) > LEAK_AUC:
            notices.append(
                LEAK(
                    f"column {name!r} alone tells labeled from unlabeled rows (AUC {auc:.4f}); "
                    "if it says how a row came to be labeled, leave it out with --drop-columns"
                )
            )
    return notices
