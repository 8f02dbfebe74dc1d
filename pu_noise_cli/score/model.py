"""Score models: features to scores of new rows and honest scores of training rows; model files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta
from numpy.typing import NDArray

from ..errors import EstimationError, InputError, option
from ..numerics import (
    GOLDEN_RATIO,
    BoolArray,
    FloatArray,
    HashArray,
    IntArray,
    Matrix,
    mid_ranks,
    splitmix64,
)
from ..scale.engine import ahead
from ..tables.columns import Encoding
from ..tables.files import Arrays, part_of, prefixed
from ..tables.rows import NO_ROWS, SETS, Chunk, LabeledClass, Rows
from .classifiers import CLASSIFIERS, DIVISIONS, FOLDS, Model

KNOTS, MIN_KNOTS = 129, 9  # per column; values between two are interpolated
ALL_KNOTS = 1 << 18  # of all columns together, about
WIDE = 1000  # columns, from which looking knots up faster does not pay
MAX_SCALED = 5.0  # the largest scaled value, which only rare values reach
CELLS = 2048  # to look knots up by
BLOCK = 16384  # rows of a column that are scaled at once, in a core's cache


# ---- Features to normal scores: ranks only, so that neither units nor outliers matter


class _Interpolation:
    """A piecewise linear map: np.interp with constant ends, several times as fast.

    The range of the knots is cut into even cells, each with the index of the knot before it. Few
    cells hold more than one knot; the largest number says how often to bisect those.
    """

    def __init__(self, values: FloatArray, scaled: FloatArray) -> None:
        self.values, self.scaled = values, scaled
        first, last = values[[0, -1]]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            self.cells_per_value = min(CELLS / (last - first), np.finfo(np.float64).max)
            self.slope = np.nan_to_num(np.append(np.diff(scaled) / np.diff(values), 0))
        cell_of_knot = self._cells(values)
        cells = np.arange(CELLS + 1)
        self.before = np.maximum(np.searchsorted(cell_of_knot, cells) - 1, 0)
        inside = np.searchsorted(cell_of_knot, cells, "right") - 1 - self.before
        self.crowded = inside > 1
        self.halvings = int(inside.max()).bit_length()
        self.bounds = np.append(values, np.full(1 << self.halvings, np.inf))

    def _cells(self, x: FloatArray) -> NDArray[np.intp]:
        place = x - self.values[0]
        place *= self.cells_per_value
        return place.astype(np.intp)

    def _advance(self, knot: NDArray[np.intp], x: FloatArray) -> None:
        """Move from the knots before the cells of x to those before x."""
        for power in reversed(range(self.halvings)):
            knot += (self.bounds.take(knot + (1 << power)) <= x).astype(np.intp) << power

    def __call__(self, x: FloatArray) -> None:
        """Map values without gaps, shape (n,), in place."""
        x.clip(self.values[0], self.values[-1], out=x)
        cells = self._cells(x)
        knot = self.before.take(cells)
        if self.halvings > 1 and len(crowded := np.flatnonzero(self.crowded.take(cells))):
            there = knot[crowded]
            self._advance(there, x[crowded])
            knot += self.bounds[1:].take(knot) <= x
            knot[crowded] = there
        else:
            knot += self.bounds[1:].take(knot) <= x
        x -= self.values.take(knot)
        x *= self.slope.take(knot)
        x += self.scaled.take(knot)


def _interpolate(values: FloatArray, scaled: FloatArray, x: FloatArray) -> None:
    """The same map as _Interpolation, without the cells."""
    x[:] = np.interp(x, values, scaled)


@dataclass(frozen=True)
class Scaling:
    """Piecewise linear maps, one per column, with their knots stored one column after another."""

    values: FloatArray  # (k,), increasing within a column
    scaled: FloatArray  # (k,)
    first: IntArray  # (d + 1,): column j has the knots first[j]:first[j + 1]

    def apply(self, features: FloatArray) -> Matrix:
        """The scaled features, shape (n, d); missing values are at the center, 0."""
        return self.apply_to_columns(list(features.T))

    def apply_to_columns(self, columns: Sequence[FloatArray]) -> Matrix:
        """The same for d columns of shape (n,), which need not be adjacent in memory."""
        n, d = len(columns[0]), len(columns)
        if d != len(self.first) - 1:
            raise ValueError(f"{d} columns, but the scaling has {len(self.first) - 1}")
        out = np.zeros((n, d), dtype=np.float32, order="F")

        for j, interpolate in enumerate(self._maps):
            if interpolate is None:
                continue
            for start in range(0, n, BLOCK):
                column = columns[j][start : start + BLOCK] / 4
                missing = np.isnan(column)
                gaps = missing.any()
                if gaps:
                    column[missing] = 0
                interpolate(column)
                if gaps:
                    column[missing] = 0
                out[start : start + BLOCK, j] = column
        return out

    @functools.cached_property
    def _maps(self) -> list[Callable[[FloatArray], None] | None]:
        """The map of each column, which changes values in place; None if it is constant."""
        maps: list[Callable[[FloatArray], None] | None] = []
        for start, end in pairwise(self.first):
            # a quarter, since the distance between two finite values may overflow
            values = self.values[start:end] / 4
            scaled = np.clip(self.scaled[start:end], -MAX_SCALED, MAX_SCALED)
            if values[-1] <= values[0]:
                maps.append(None)
            elif len(self.first) > WIDE:
                maps.append(functools.partial(_interpolate, values, scaled))
            else:
                maps.append(_Interpolation(values, scaled))
        return maps

    def arrays(self) -> Arrays:
        """The arrays to store."""
        return {"values": self.values, "scaled": self.scaled, "first": self.first}

    @classmethod
    def from_arrays(cls, arrays: Arrays, d: int) -> Self:
        """The scaling of d columns with these arrays; a ValueError if there is none."""
        values, scaled = (np.asarray(arrays[name], np.float64) for name in ("values", "scaled"))
        first, k = np.asarray(arrays["first"], np.int64), len(values)
        if values.shape != (k,) or scaled.shape != (k,) or first.shape != (d + 1,):
            raise ValueError("the arrays of a scaling do not fit each other")
        if not (np.isfinite(values).all() and np.isfinite(scaled).all()):
            raise ValueError("knots must be finite")
        if first[0] != 0 or first[-1] != k or (np.diff(first) < 1).any():
            raise ValueError("every column needs knots")
        rises = values[1:] > values[:-1]
        rises[first[1:-1] - 1] = True  # from one column to the next
        if not rises.all() or np.abs(scaled).max() > MAX_SCALED + 1e-6:
            raise ValueError("knots must increase within bounds")
        return cls(values, scaled, first)


def fit_scaling(features: FloatArray) -> Scaling:
    """Normal scores of the columns of features, shape (n, d), centered, with unit variance."""
    n, d = features.shape
    knots = min(KNOTS, max(ALL_KNOTS // d, MIN_KNOTS))
    columns, at_once = [], max(BLOCK // n, 1)
    for start in range(0, d, at_once):
        ordered = np.sort(features[:, start : start + at_once].T, axis=1)
        columns += [_fit_column(column[~np.isnan(column)], knots) for column in ordered]
    lengths = [len(values) for values, _ in columns]
    return Scaling(
        np.concatenate([values for values, _ in columns]),
        np.concatenate([scaled for _, scaled in columns]),
        np.concatenate([[0], np.cumsum(lengths)]),
    )


def _fit_column(ordered: FloatArray, knots: int) -> tuple[FloatArray, FloatArray]:
    """Knots of one column: distinct values and the normal scores of their mid-ranks."""
    first = np.flatnonzero(np.append(True, ordered[1:] > ordered[:-1])[: len(ordered)])
    if len(first) < 2:
        return np.zeros(1), np.zeros(1)
    if len(first) == len(ordered):  # all values differ, as in most columns of a wide table
        scores, kept = _scores_of_ranks(len(ordered), knots)
        return ordered[kept], scores
    scores = _normal_scores(np.diff(first, append=len(ordered)))
    kept = _knots(scores, knots)
    return ordered[first[kept]], scores[kept]


@functools.lru_cache(maxsize=64)
def _scores_of_ranks(n: int, knots: int) -> tuple[FloatArray, IntArray]:
    """The normal scores of n values that differ, at the knots, and the places of these."""
    scores = _normal_scores(np.ones(n, np.int64))
    kept = _knots(scores, knots)
    return scores[kept], kept


def _normal_scores(counts: IntArray) -> FloatArray:
    """The normal scores of mid-ranks, shape (k,), of k values with their counts."""
    from scipy.special import ndtri

    fraction = counts / counts.sum()
    scores = ndtri(mid_ranks(fraction))
    scores -= (fraction * scores).sum()  # not @, whose last digits depend on BLAS's threads
    # the bound is for values so rare that they would stand out as outliers do
    scores /= max(np.sqrt((fraction * scores**2).sum()), np.abs(scores).max() / MAX_SCALED)
    return np.asarray(scores)


def _knots(scores: FloatArray, knots: int) -> IntArray:
    """The places of so many scores, at even distances; all places if there are not more."""
    if len(scores) <= knots:
        return np.arange(len(scores))
    even = np.searchsorted(scores, np.linspace(scores[0], scores[-1], knots))
    return np.unique(np.minimum(even, len(scores) - 1))


# ---- Models that score new rows

HASHED = 32  # features by which rows are recognized
KEPT = 500  # rows of each kind that a model remembers
LOOKED_AT = 10_000  # first rows of a table that are compared with them
NO_HASHES = np.empty(0, np.uint64)


def hash_rows(features: FloatArray) -> HashArray:
    """A number of 32 bits for each row of features, shape (n, d): too few to tell the row."""
    hashes = np.zeros(len(features), np.uint64)
    for column in features.T[:HASHED]:
        values = np.where(np.isnan(column), np.nan, column + 0.0)  # one NaN, no -0
        with np.errstate(over="ignore"):
            hashes = splitmix64((hashes ^ values.view(np.uint64)) + GOLDEN_RATIO)
    return hashes >> np.uint64(32)


def remember(features: FloatArray, labeled: BoolArray) -> HashArray:
    """Hashes of the first rows of each kind; none if rows with equal features are common."""
    first = np.concatenate([np.flatnonzero(labeled == kind)[:KEPT] for kind in (True, False)])
    hashes = np.unique(hash_rows(features[first]))
    return hashes if len(hashes) >= 0.9 * len(first) else NO_HASHES


@dataclass(frozen=True)
class ScoreModel:
    """Columns to features, and features to a score that is high for positives."""

    encoding: Encoding
    classifier: str | None = None  # None: the one feature is the score
    scaling: Scaling | None = None
    model: Model | None = None
    lower_is_positive: bool = False  # for a column used as the score
    skip_missing: bool = False  # for such a column: rows without a value have no score
    labeled_class: LabeledClass = "positive"  # which the classifier learned to find
    seen: HashArray = field(default_factory=lambda: NO_HASHES)  # of some training rows, increasing

    def count_seen(self, rows: Rows) -> int:
        """How many of the first rows the model was trained on, as far as it knows."""
        if not len(self.seen):
            return 0
        found, looked_at = list[HashArray](), 0
        for chunk in rows.chunks(rows.features):
            n = min(chunk.batch.num_rows, LOOKED_AT - looked_at)
            first = replace(chunk, batch=chunk.batch.slice(0, n), sets=chunk.sets[:n])
            hashes = hash_rows(self.encoding.encode(first))
            found.append(np.intersect1d(hashes, self.seen))
            looked_at += len(hashes)
            if looked_at >= LOOKED_AT:
                break
        return len(np.unique(np.concatenate(found))) if found else 0

    def features(self, chunk: Chunk) -> Matrix:
        """The scaled features of rows, shape (n, d)."""
        assert self.scaling is not None
        return self.scaling.apply_to_columns(self.encoding.encode_columns(chunk))

    def score(self, chunk: Chunk, place: IntArray | None = None) -> FloatArray:
        """Scores of rows that the model was not trained on, shape (n,); see Model.predict."""
        if self.model is not None:
            return self.oriented(self.model.predict(self.features(chunk), place))
        values = self.encoding.encode(chunk)[:, 0]
        if not self.skip_missing and np.isnan(values).any():
            raise self._missing_value(chunk, int(np.isnan(values).argmax()))
        return -values if self.lower_is_positive else values

    def oriented(self, scores: FloatArray) -> FloatArray:
        """A classifier's scores, shape (n,), reversed if high ones mean negative."""
        return 1 - scores if self.labeled_class == "negative" else scores

    def _missing_value(self, chunk: Chunk, row: int) -> InputError:
        remedy = (
            f"; a score needs one: {option('missing_score', 'skip')} leaves such rows without a "
            f"posterior, {option('transform')} learns a score that copes with missing values"
        )
        return chunk.error(self.encoding.columns[0].name, "has no value", row, remedy)


# ---- Honest scores of training rows

Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True)
class GroupFolds:
    """The folds of groups by name: in each division, groups with labeled rows take turns.

    A model trained on a sample of grouped rows has seen the groups of other rows: these are scored
    by the members that have not.
    """

    assigned: dict[str, Annotated[int, Meta(ge=0, lt=FOLDS**DIVISIONS)]]  # see Training.place
    seed: Count

    @classmethod
    def from_groups(cls, groups: pa.Array, labeled: BoolArray, seed: int) -> GroupFolds:
        """Folds that all have labeled rows; an estimation error if too few groups have any."""
        names = pc.unique(groups.filter(pa.array(labeled))).to_pylist()
        if len(names) < FOLDS:
            raise EstimationError(
                f"{len(names)} groups have labeled rows; at least {FOLDS} are needed to train "
                f"on a sample of the rows ({option('max_train_rows')})"
            )
        assigned = dict.fromkeys(names, 0)
        for division in range(DIVISIONS):
            names.sort(key=lambda name: _hash(f"{division} {name}", seed))
            for i, name in enumerate(names):
                assigned[name] += i % FOLDS * FOLDS**division
        return cls(assigned, seed)

    def place(self, groups: pa.Array) -> IntArray:
        """The folds of each row in all divisions as one number, shape (n,)."""
        coded = groups.dictionary_encode()
        places = [
            self.assigned.get(name, _hash(name, self.seed) % FOLDS**DIVISIONS)
            for name in coded.dictionary.to_pylist()
        ]
        return np.array(places, np.int64)[np.asarray(coded.indices)]


def _hash(name: str, seed: int) -> int:
    digest = blake2b(name.encode(), digest_size=8, salt=(seed % (1 << 64)).to_bytes(8)).digest()
    return int.from_bytes(digest)


class TrainingFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of the tables that a model was trained on."""

    name: str  # without its directory
    first_row: Count  # in its table
    rows: Count


@dataclass(frozen=True)
class HonestScorer:
    """Scores the tables that a model was trained on as if it had not seen them."""

    model: ScoreModel
    files: tuple[tuple[TrainingFile, ...], ...]  # of each table
    sets: tuple[int, ...]  # of each table, if there is no label column
    places: IntArray  # (n, 2): table and row of each training row, in order
    scores: FloatArray  # (n,): out of fold
    group_column: str | None = None
    folds: GroupFolds | None = None  # of groups with only some rows in the training sample
    overlap: IntArray = field(default_factory=lambda: NO_ROWS)  # see Rows

    def score_all(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, FloatArray]]:
        """Every row in order with its score by models that saw neither it nor its group."""
        complete = len(self.places) == sum(file.rows for table in self.files for file in table)
        columns, rows = [] if complete else rows.features, replace(rows, overlap=self.overlap)

        def score(chunk: Chunk) -> FloatArray:
            if self.folds is not None:
                return self.model.score(chunk, self.folds.place(rows.groups(chunk)))
            n = chunk.batch.num_rows
            scores = np.full(n, np.nan) if complete else self.model.score(chunk)
            in_table = self.places[:, 0] == chunk.table
            trained_row = self.places[in_table, 1] - chunk.first_row
            here = (trained_row >= 0) & (trained_row < n)
            scores[trained_row[here]] = self.scores[in_table][here]
            if np.isnan(scores).any() and not self.model.skip_missing:
                raise InputError(f"{chunk.file}: changed while it was read")
            return scores

        return ahead(score, rows.chunks([*columns, *rows.carried]), threads)


# ---- In files


class ScorerHeader(msgspec.Struct, frozen=True):
    """A scorer but for its arrays."""

    files: tuple[tuple[TrainingFile, ...], ...]
    sets: tuple[Annotated[int, Meta(ge=0, lt=len(SETS))], ...]
    group_column: str | None
    folds: GroupFolds | None = None


class ModelHeader(msgspec.Struct, frozen=True, kw_only=True):
    """A score model, and perhaps the scorer of its training rows, but for their arrays."""

    classifier: str | None
    lower_is_positive: bool
    skip_missing: bool
    labeled_class: LabeledClass
    encoding: Encoding
    scorer: ScorerHeader | None = None


def model_header(model: ScoreModel, scorer: HonestScorer | None) -> dict[str, Any]:
    """The fields of a ModelHeader."""
    fields = msgspec.structs.asdict(msgspec.convert(model, ModelHeader, from_attributes=True))
    return fields | {"scorer": msgspec.convert(scorer, ScorerHeader | None, from_attributes=True)}


def model_arrays(model: ScoreModel, scorer: HonestScorer | None) -> Arrays:
    """The arrays to store."""
    arrays: Arrays = {}
    if model.scaling is not None and model.model is not None:
        arrays |= prefixed("scaling.", model.scaling.arrays())
        arrays |= prefixed("model.", model.model.arrays())
        arrays |= {"rows.seen": model.seen} if len(model.seen) else {}
    if scorer is not None:
        arrays |= {"honest.places": scorer.places, "honest.scores": scorer.scores}
        arrays |= {"honest.overlap": scorer.overlap} if len(scorer.overlap) else {}
    return arrays


def model_from_arrays(
    header: ModelHeader, arrays: Arrays
) -> tuple[ScoreModel, HonestScorer | None]:
    """The model with these arrays, and its scorer; a ValueError or KeyError if there is none."""
    model = _score_model(header, arrays)
    return model, None if header.scorer is None else _scorer(header.scorer, arrays, model)


def _stored_hashes(hashes: NDArray[np.generic]) -> HashArray:
    seen = hashes.astype(np.uint64)
    if hashes.dtype != np.uint64 or seen.ndim != 1 or (seen[1:] <= seen[:-1]).any():
        raise ValueError("hashes must increase")
    return seen


def _score_model(header: ModelHeader, arrays: Arrays) -> ScoreModel:
    encoding, kind = header.encoding, header.classifier
    if kind is not None:
        if kind not in CLASSIFIERS:
            raise ValueError(f"an unknown classifier {kind!r}")
        features = len(encoding.feature_names)
        return ScoreModel(
            encoding,
            kind,
            Scaling.from_arrays(part_of(arrays, "scaling."), features),
            Model.from_arrays(part_of(arrays, "model."), features),
            labeled_class=header.labeled_class,
            seen=_stored_hashes(arrays.get("rows.seen", NO_HASHES)),
        )
    if [column.kind for column in encoding.columns] != ["number"]:
        raise ValueError("the score must be one column of numbers")
    return ScoreModel(
        encoding,
        lower_is_positive=header.lower_is_positive,
        skip_missing=header.skip_missing,
        labeled_class=header.labeled_class,
    )


def _scorer(header: ScorerHeader, arrays: Arrays, model: ScoreModel) -> HonestScorer:
    if header.folds is not None and (header.group_column is None or model.model is None):
        raise ValueError("folds are of groups")
    places, scores = arrays["honest.places"].astype(np.int64), arrays["honest.scores"]
    if places.shape != (len(scores), 2) or scores.ndim != 1:
        raise ValueError("every training row needs a score")
    if len(header.sets) != len(header.files):
        raise ValueError("every table needs a set")
    if len(scores) and not (0 <= scores.min() <= scores.max() <= 1 and places.min() >= 0):
        raise ValueError("scores must be in [0, 1]")
    overlap = arrays.get("honest.overlap", NO_ROWS).astype(np.int64)
    if overlap.ndim != 1 or (np.diff(overlap, prepend=-1) < 1).any():
        raise ValueError("rows must increase")
    return HonestScorer(
        model,
        header.files,
        header.sets,
        places,
        scores.astype(np.float64),
        header.group_column,
        header.folds,
        overlap,
    )
