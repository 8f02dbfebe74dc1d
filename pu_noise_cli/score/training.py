"""Training: one pass that surveys and samples the rows, and a classifier of the sample."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import GOLDEN_RATIO, IntArray, splitmix64
from ..scale.engine import Job, RowsDone, ShareDone
from ..settings import ScoreSettings
from ..tables.columns import (
    ISOLATED_ROWS,
    ColumnSummary,
    Encoding,
    Profiler,
    isolated_in_column,
    names_as_dates,
)
from ..tables.kinds import counts_rows, looks_like_id
from ..tables.reading import Table
from ..tables.rows import LABELED, NEGATIVE, NO_ROWS, UNLABELED, Chunk, Rows
from .classifiers import CLASSIFIERS, Training
from .contributions import Contribution, contributions
from .model import (
    GroupFolds,
    HonestScorer,
    ScoreModel,
    TrainingFile,
    fit_scaling,
    remember,
)
from .sketch import check_sizes

MAX_TRAIN_ROWS = 100_000
MAX_TRAIN_VALUES = 1 << 25  # in the feature matrix: wide tables train on fewer rows
MAX_FEATURES = 50_000
DEFAULT_CLASSIFIER = "standard"
LEAK_AUC = 0.9995
EPSILON = 1e-9
SOME_ROWS = 100  # that show whether a column may have whole numbers only


# ---- Survey: profiles of columns, a sample of bounded size, digests of files


def priorities(seed: int, table: int, first_row: int, count: int) -> NDArray[np.uint64]:
    """A pseudo-random number for each row, which depends on its position and the seed only."""
    with np.errstate(over="ignore"):
        x = np.arange(first_row, first_row + count, dtype=np.uint64)
        x += np.uint64(table) << np.uint64(56)
        x += np.uint64((seed + 1) % (1 << 64)) * GOLDEN_RATIO
        return splitmix64(x)


class RowSample:
    """The `size` rows of lowest priority among those added, in order."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.seen = size, seed, 0
        self.limit: np.uint64 | None = None  # no rows of this priority or more are added
        self.chunks: list[Chunk] = []
        self._rows: list[NDArray[np.int64]] = []  # the row numbers of each chunk
        self._priority: list[NDArray[np.uint64]] = []

    def add(self, chunk: Chunk, wanted: NDArray[np.bool_]) -> None:
        """Add the wanted rows of a chunk."""
        if wanted.any():
            self.seen += int(wanted.sum())
            priority = priorities(self.seed, chunk.table, chunk.first_row, len(wanted))
            rows = np.arange(chunk.first_row, chunk.first_row + len(wanted))
            if self.limit is not None:
                wanted = wanted & (priority < self.limit)
            self._append(chunk, rows, priority, wanted)
            if len(self) > 1.5 * self.size:
                self.cut(self.size)

    @classmethod
    def merge(cls, parts: Sequence[RowSample]) -> RowSample:
        """The sample of all rows of consecutive parts, whose samples have one size."""
        merged = cls(parts[0].size, parts[0].seed)
        for part in parts:
            merged.seen += part.seen
            merged.chunks += part.chunks
            merged._rows += part._rows
            merged._priority += part._priority
        merged.cut(merged.size)
        return merged

    def _append(
        self,
        chunk: Chunk,
        rows: NDArray[np.int64],
        priority: NDArray[np.uint64],
        keep: NDArray[np.bool_],
    ) -> None:
        if not keep.any():
            return
        batch = chunk.batch if keep.all() else chunk.batch.filter(pa.array(keep))
        file_rows = None if chunk.file_rows is None else chunk.file_rows[keep]
        self.chunks.append(replace(chunk, batch=batch, sets=chunk.sets[keep], file_rows=file_rows))
        self._rows.append(rows[keep])
        self._priority.append(priority[keep])

    def cut(self, size: int) -> None:
        """Keep the `size` rows of lowest priority."""
        if len(self) <= size:
            return
        self.limit = np.partition(np.concatenate(self._priority), size)[size]
        sampled = list(zip(self.chunks, self._rows, self._priority, strict=True))
        self.chunks, self._rows, self._priority = [], [], []
        for chunk, rows, priority in sampled:
            self._append(chunk, rows, priority, priority < self.limit)

    @property
    def places(self) -> NDArray[np.int64]:
        """The table and the row number in it of each sampled row, shape (n, 2)."""
        tables = np.repeat([chunk.table for chunk in self.chunks], list(map(len, self._rows)))
        return np.column_stack([tables, np.concatenate(self._rows)])

    def __len__(self) -> int:
        return sum(map(len, self._rows))


@dataclass
class Survey:
    """The result of a pass over rows."""

    profiler: Profiler
    labeled: RowSample
    others: RowSample  # unlabeled rows and known negatives
    negatives: int = 0  # known negatives among all rows
    seen: Counter[tuple[int, str]] = field(default_factory=Counter)  # rows, by table and file
    digests: dict[str, str] = field(default_factory=dict)  # SHA-256 of files, by path; if wanted


@dataclass(frozen=True)
class SurveyRows:
    """Profiles columns, samples rows and, if wanted, digests files."""

    size: int  # of the sample, at most half of it labeled rows
    seed: int
    na: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    digests: bool = False

    def __call__(self, job: Job, done: RowsDone, threads: int) -> Survey:
        rows = job.part
        survey = Survey(
            Profiler(rows, self.na, self.categorical),
            RowSample(self.size // 2, self.seed),
            RowSample(self.size, self.seed),
        )
        group = [] if rows.group_column is None else [rows.group_column]
        with closing(_Digests(rows.tables if self.digests else (), threads)) as digests:
            for chunk in rows.chunks([*rows.features, *group]):
                digests.reading(chunk.file)
                survey.seen[chunk.table, chunk.file] += chunk.batch.num_rows
                survey.profiler.add(chunk)
                rows.groups(chunk)  # every row must have one
                survey.labeled.add(chunk, chunk.labeled)
                survey.others.add(chunk, ~chunk.labeled & chunk.counted)
                survey.negatives += int((chunk.sets == NEGATIVE).sum())
                done(chunk.batch.num_rows)
            survey.digests = digests.result()
        survey.labeled.cut(self.size // 2)
        survey.others.cut(self.size)
        return survey

    @staticmethod
    def merge(results: Sequence[Survey]) -> Survey:
        """The survey of all rows of consecutive parts: exactly that of the whole."""
        return Survey(
            Profiler.merged([part.profiler for part in results]),
            RowSample.merge([part.labeled for part in results]),
            RowSample.merge([part.others for part in results]),
            sum(part.negatives for part in results),
            sum((part.seen for part in results), Counter()),
            {path: digest for part in results for path, digest in part.digests.items()},
        )


class _Digests:
    """The SHA-256 of files, each computed when its rows are read, so that it is fetched once.

    With several threads, one of them computes digests while the others work on rows.
    """

    def __init__(self, tables: Iterable[Table], threads: int) -> None:
        self.waiting = {shard.name: shard for table in tables for shard in table.shards}
        self.pool = ThreadPoolExecutor(1) if threads > 1 else None
        self.digests: dict[str, Future[str] | str] = {}  # by path

    def reading(self, file: str) -> None:
        """Begin to digest a file whose rows are being read."""
        if file in self.waiting:
            shard = self.waiting.pop(file)
            digest = shard.sha256() if self.pool is None else self.pool.submit(shard.sha256)
            self.digests[shard.path] = digest

    def result(self) -> dict[str, str]:
        """The digests by path, including files without rows."""
        for name in [*self.waiting]:
            self.reading(name)
        return {
            path: digest if isinstance(digest, str) else digest.result()
            for path, digest in self.digests.items()
        }

    def close(self) -> None:
        """Cancel what is left after an error."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)


# ---- Training


@dataclass(frozen=True)
class Trained:
    """The result of training: the scorer, and what was noticed about the rows."""

    scorer: HonestScorer
    counts: Sequence[int]  # of the rows of each set
    columns: list[ColumnSummary]
    digests: Mapping[str, str]  # SHA-256 of the tables' files by path, if wanted
    notices: tuple[Notice, ...]
    sample_size: int = MAX_TRAIN_ROWS  # rows that are trained on, at most
    contributions: tuple[Contribution, ...] = ()  # of columns to a learned score

    @property
    def model(self) -> ScoreModel:
        """The score of new rows."""
        return self.scorer.model

    @property
    def learned(self) -> bool:
        """Whether the score is a classifier's, not a column."""
        return self.model.model is not None


def survey_step(rows: Rows, settings: ScoreSettings, digests: bool = False) -> SurveyRows:
    """The pass over all rows before training, with digests of the files if wanted."""
    _check_width(rows, len(rows.features))
    size = min(settings.max_train_rows or MAX_TRAIN_ROWS, MAX_TRAIN_VALUES // len(rows.features))
    return SurveyRows(size, settings.seed, tuple(settings.na), tuple(settings.categorical), digests)


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows to learn from, labeled ones first, as numbers; n rows with d features."""

    encoding: Encoding
    raw: NDArray[np.float64]  # (n, d)
    labeled: NDArray[np.bool_]  # (n,)
    places: IntArray  # (n, 2): table and row
    groups: pa.Array | None  # (n,): the name of each row's group
    left_out: tuple[Notice, ...] = ()  # about columns that are not learned from

    def without(self, names: Collection[str], notices: Sequence[Notice]) -> Sample:
        """The same without some columns, and with notices that say why."""
        if not names:
            return self
        columns = self.encoding.columns
        keep = [column.name not in names for column in columns for _ in column.feature_names]
        kept = tuple(column for column in columns if column.name not in names)
        encoding = Encoding(kept, self.encoding.na)
        left_out = (*self.left_out, *notices)
        return replace(self, encoding=encoding, raw=self.raw[:, keep], left_out=left_out)


@dataclass(frozen=True, eq=False)
class Learned:
    """A trained score, with what it was learned from."""

    trained: Trained
    training: Training
    scores: NDArray[np.float64]  # (n,): out of fold, high for the labeled class


def train(
    rows: Rows,
    survey: Survey,
    settings: ScoreSettings,
    groups_matter: bool = False,
    twins: IntArray = NO_ROWS,
    progress: ShareDone = lambda fraction: None,
) -> Trained:
    """Train a classifier of labeled against unlabeled rows on the sample of a survey.

    A single numeric column may be the score itself; nothing is learned then, and options that only
    learning heeds are an error: the group column, too, unless groups matter later. The twins are
    the labeled rows that the overlap of the rows consists of; it gets their scores.
    """
    untrained = read_survey(rows, survey, settings)
    if is_score(untrained, settings, groups_matter):
        return untrained
    sample = encode_sample(rows, survey, untrained)
    trained = learn(rows, untrained, sample, settings, progress).trained
    return replace(trained, scorer=_with_twins(trained.scorer, twins)) if len(twins) else trained


def read_survey(rows: Rows, survey: Survey, settings: ScoreSettings) -> Trained:
    """What is known before training: counts, columns, and a scorer that knows no classifier."""
    profiler, labeled, others = survey.profiler, survey.labeled, survey.others
    counts = (others.seen - survey.negatives, labeled.seen, survey.negatives)
    if 0 in counts[:NEGATIVE] and rows.label_values:
        rows.check_labels()
    check_sizes(rows.set_names, counts, named=rows.named_sets)
    profiler.finish(rows)
    others.cut(others.size - len(labeled))
    encoding, notices = profiler.encoding()
    scorer = HonestScorer(
        model=ScoreModel(
            encoding,
            lower_is_positive=settings.lower_is_positive,
            skip_missing=settings.missing_score == "skip",
            labeled_class=rows.labeled_class,
        ),
        files=_files(rows, survey.seen),
        sets=rows.sets,
        places=np.empty((0, 2), np.int64),
        scores=np.empty(0),
        group_column=rows.group_column,
        overlap=rows.overlap,
    )
    return Trained(
        scorer,
        counts,
        profiler.summary(),
        survey.digests,
        (*notices, *names_as_dates(rows)),
        sample_size=others.size,
    )


def is_score(untrained: Trained, settings: ScoreSettings, groups_matter: bool = False) -> bool:
    """Whether a single numeric column is the score itself, so that nothing is learned."""
    only_to_learn: dict[str, object] = {
        "classifier": settings.classifier,
        "max_train_rows": settings.max_train_rows,
    }
    if not groups_matter:
        only_to_learn["group_column"] = untrained.scorer.group_column
    return _is_score(untrained.model.encoding, settings, only_to_learn)


def encode_sample(rows: Rows, survey: Survey, untrained: Trained) -> Sample:
    """The sampled rows as numbers."""
    encoding, labeled, others = untrained.model.encoding, survey.labeled, survey.others
    _check_width(rows, len(encoding.feature_names))
    chunks = labeled.chunks + others.chunks
    groups = None
    if rows.group_column is not None:
        groups = pa.concat_arrays([rows.groups(chunk) for chunk in chunks])
    return Sample(
        encoding,
        np.concatenate([encoding.encode(chunk) for chunk in chunks]),
        np.repeat([True, False], [len(labeled), len(others)]),
        np.concatenate([labeled.places, others.places]),
        groups,
    )


def learn(
    rows: Rows,
    untrained: Trained,
    sample: Sample,
    settings: ScoreSettings,
    progress: ShareDone = lambda fraction: None,
) -> Learned:
    """Train the classifier of the settings on a sample."""
    scorer = untrained.scorer
    if not rows.chosen:
        sizes = [sum(file.rows for file in files) for files in scorer.files]
        sample = _without_row_numbers(sample, sizes)
    encoding, scaling = sample.encoding, fit_scaling(sample.raw)
    groups = None
    if sample.groups is not None:
        groups = np.asarray(sample.groups.dictionary_encode().indices).astype(np.int64)
    training = Training(scaling.apply(sample.raw), sample.labeled, groups)
    folds = None
    if sample.groups is not None and len(sample.labeled) < sum(untrained.counts):
        folds = GroupFolds.from_groups(sample.groups, sample.labeled, settings.seed)
        training = replace(training, place=folds.place(sample.groups))
    classifier = settings.classifier or DEFAULT_CLASSIFIER
    fit = CLASSIFIERS[classifier](training, settings.seed, settings.threads, progress)
    model = replace(
        scorer.model,
        encoding=encoding,
        classifier=classifier,
        scaling=scaling,
        model=fit.model,
        seen=remember(sample.raw, sample.labeled),
    )
    learned = replace(
        scorer,
        model=model,
        places=sample.places,
        scores=model.oriented(fit.scores),
        folds=folds,
    )
    sign = -1.0 if rows.labeled_class == "negative" else 1.0
    trained = replace(
        untrained,
        scorer=learned,
        notices=(
            *untrained.notices,
            *sample.left_out,
            *_odd_columns(encoding, sample.raw, training),
            *_numbered_columns(encoding, sample.raw, sample.places),
        ),
        contributions=contributions(
            training, fit.parts, encoding.columns, sign, settings.seed, settings.threads
        ),
    )
    return Learned(trained, training, fit.scores)


def _with_twins(scorer: HonestScorer, twins: IntArray) -> HonestScorer:
    """The scorer with the overlap scored as its twins; no model has seen twins without a score."""
    labeled = scorer.places[:, 0] == scorer.sets.index(LABELED)
    rows, scores = scorer.places[labeled, 1], scorer.scores[labeled]
    place = np.searchsorted(rows, twins).clip(max=len(rows) - 1)
    seen = rows[place] == twins
    table = np.full(int(seen.sum()), scorer.sets.index(UNLABELED))
    return replace(
        scorer,
        places=np.concatenate([scorer.places, np.column_stack([table, scorer.overlap[seen]])]),
        scores=np.concatenate([scorer.scores, scores[place[seen]]]),
    )


def _check_width(rows: Rows, features: int) -> None:
    """Raise an input error if there are too many features to learn from."""
    if features > MAX_FEATURES:
        raise InputError(
            f"{rows.tables[0].name}: {features} features; a score can be learned from at most "
            f"{MAX_FEATURES}: choose some with {option('features')} or {option('drop_columns')}"
        )


def _files(rows: Rows, seen: Mapping[tuple[int, str], int]) -> tuple[tuple[TrainingFile, ...], ...]:
    """The files of each table; `seen` has their rows, by table and file."""
    tables = []
    for position, table in enumerate(rows.tables):
        files, first_row = [], 0
        for shard in table.shards:
            count = seen.get((position, shard.name), 0)
            files.append(TrainingFile(os.path.basename(shard.name), first_row, count))
            first_row += count
        tables.append(tuple(files))
    return tuple(tables)


def _is_score(
    encoding: Encoding, settings: ScoreSettings, only_to_learn: Mapping[str, object]
) -> bool:
    """Whether the features are one numeric column, to be used as the score."""
    can = len(encoding.columns) == 1 and encoding.columns[0].kind == "number"
    learn = False if settings.score_column is not None else settings.transform
    if learn is False and not can:
        names = [column.name for column in encoding.columns]
        if len(names) == 1:
            raise InputError(f"column {names[0]!r} does not hold numbers and cannot be the score")
        raise UsageError(
            f"the score must be one numeric column, not {', '.join(names[:8])}; choose it with "
            f"{option('score_column')}"
        )
    as_is = can and learn is not True
    if settings.missing_score is not None and not as_is:
        name = option("missing_score")
        raise UsageError(f"{name} is for a score column; a transform copes with gaps")
    if settings.lower_is_positive and not as_is:
        name = option("lower_is_positive")
        raise UsageError(f"{name} is for a score column; a transform learns its sign")
    unused = [name for name, value in only_to_learn.items() if value is not None]
    if as_is and unused:
        raise UsageError(
            f"{option(unused[0])} does nothing here: column {encoding.columns[0].name!r} "
            f"is used as the score, and no score is learned ({option('transform')} would)"
        )
    return as_is


def _without_row_numbers(sample: Sample, sizes: Sequence[int]) -> Sample:
    """The sample without columns that number the rows of tables of these sizes.

    A classifier would learn from them which table a row is in.
    """
    names = [
        name
        for name, values in _whole_numbers(sample.encoding, sample.raw)
        if counts_rows(name, values, sample.places[:, 0], sample.places[:, 1], sizes)
    ]
    if len(names) == len(sample.encoding.columns):
        return sample
    return sample.without(
        names,
        [
            Notice(
                "identifier-like-column",
                f"column {name!r} numbers the rows and is left out; if it is an ID, use "
                f"{option('id_column', name)}; {option('features')} keeps it",
            )
            for name in names
        ],
    )


def _whole_numbers(
    encoding: Encoding, raw: NDArray[np.float64]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The names and values of numeric columns whose first values are whole numbers."""
    names = encoding.feature_names
    numbers = {column.name for column in encoding.columns if column.kind == "number"}
    start = raw[:SOME_ROWS]
    for i in np.flatnonzero((start == np.rint(start)).all(0)):
        if names[i] in numbers:
            yield names[i], raw[:, i]


def _odd_columns(encoding: Encoding, raw: NDArray[np.float64], training: Training) -> list[Notice]:
    """Warnings of columns of the matrix, shape (n, d), with an isolated value or leaked labels.

    A feature that alone separates the labeled rows is more likely a leak than biology.
    """
    numbers = {column.name for column in encoding.columns if column.kind == "number"}
    columns = {name: column.name for column in encoding.columns for name in column.feature_names}
    names, labeled, notices = encoding.feature_names, training.labeled, list[Notice]()
    for i in np.flatnonzero(_may_isolate(raw)):
        isolated = isolated_in_column(raw[:, i], labeled) if names[i] in numbers else None
        if isolated is not None:
            message = isolated.message(f"in column {names[i]!r} the value")
            notices.append(Notice("lone-value", message))
    for i in np.flatnonzero(_may_leak(training)):
        name, values = names[i], training.features[:, i]
        of_labeled, unlabeled = (np.sort(values[labeled == kind]) for kind in (True, False))
        below = [np.searchsorted(unlabeled, of_labeled, side).mean() for side in ("left", "right")]
        auc = sum(below) / (2 * len(unlabeled))
        if max(auc, 1 - auc) > LEAK_AUC:
            notices.append(
                Notice(
                    "leaking-column",
                    f"column {name!r} alone separates labeled from unlabeled rows (AUC "
                    f"{max(auc, 1 - auc):.4f}); if it reveals how rows were labeled, use "
                    f"{option('drop_columns', columns[name])}; if it is an ID, use "
                    f"{option('id_column', columns[name])}",
                )
            )
    return notices


def _numbered_columns(
    encoding: Encoding, raw: NDArray[np.float64], places: IntArray
) -> list[Notice]:
    """Warnings of numeric columns that look like ids, at the places of the sampled rows."""
    return [
        Notice(
            "identifier-like-column",
            f"column {name!r} looks like an id, and the score was learned from it; if it is one, "
            f"use {option('id_column', name)}",
        )
        for name, values in _whole_numbers(encoding, raw)
        if looks_like_id(name, values, *places.T)
    ]


def _may_isolate(raw: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which columns have an extreme value often enough to be isolated, shape (d,)."""
    low, high = np.fmin.reduce(raw, 0), np.fmax.reduce(raw, 0)
    return np.asarray(((raw == low) | (raw == high)).sum(0) >= ISOLATED_ROWS)


def _may_leak(training: Training) -> NDArray[np.bool_]:
    """Which columns may have an AUC beyond LEAK_AUC, shape (d,).

    Labeled rows up to their median are half of all, so hardly any unlabeled row can be above it.
    """
    median = np.median(training.features[training.labeled], axis=0)
    unlabeled = training.features[~training.labeled]
    rarer = np.minimum((unlabeled > median).mean(0), (unlabeled < median).mean(0))
    return np.asarray(rarer <= 2 * (1 - LEAK_AUC) + EPSILON)
