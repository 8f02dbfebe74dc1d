"""Honest scores for grouped rows that are too many to train on.

Where only a sample is trained on, its model has seen the groups of other rows. So the groups are
dealt into folds, and the rows of a fold are scored by a model that was trained without it.

Rows to scores by a trained model: new rows, and those that it was trained on.

Score models as files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import EstimationError, InputError, UsageError
from ..numerics import Matrix
from ..scale.engine import ahead
from ..tables.columns import Encoding
from ..tables.files import read_archive, write_archive
from ..tables.rows import SETS, Chunk, Keys, LabeledClass, Rows
from .classifiers import CLASSIFIERS, Arrays, Fit, Model, Training
from .scaling import Scaling
from .sketch import Sketch, sketch_arrays, sketch_from_arrays, sketch_header

FOLDS = 3


@dataclass(frozen=True)
class GroupFolds:
    """Folds of groups by name: those with labeled rows dealt out evenly, the rest by a hash."""

    dealt: dict[str, int]
    seed: int

    @classmethod
    def of(cls, groups: pa.Array, labeled: NDArray[np.bool_], seed: int) -> GroupFolds:
        """Folds such that each has labeled rows, if there are enough groups with any."""
        names = pc.unique(groups.filter(pa.array(labeled))).to_pylist()
        names.sort(key=lambda name: _hash(name, seed))
        return cls({name: i % FOLDS for i, name in enumerate(names)}, seed)

    def fold(self, groups: pa.Array) -> NDArray[np.int64]:
        """The fold of each row, shape (n,)."""
        coded = groups.dictionary_encode()
        folds = [
            self.dealt.get(name, _hash(name, self.seed) % FOLDS)
            for name in coded.dictionary.to_pylist()
        ]
        return np.array(folds, np.int64)[np.asarray(coded.indices)]


def _hash(name: str, seed: int) -> int:
    digest = blake2b(name.encode(), digest_size=8, salt=(seed % (1 << 64)).to_bytes(8)).digest()
    return int.from_bytes(digest)


@dataclass(frozen=True)
class CrossFit:
    """One model for each fold, trained on the rows of the others."""

    folds: GroupFolds
    models: tuple[Model, ...]

    def predict(self, features: Matrix, groups: pa.Array) -> NDArray[np.float64]:
        """Scores of shape (n,), each by the model that has not seen the row's group."""
        fold = self.folds.fold(groups)
        scores = np.empty(len(features))
        for number, model in enumerate(self.models):
            scores[fold == number] = model.predict(features[fold == number])
        return scores


def cross_fit(
    training: Training, names: pa.Array, seed: int, fit: Callable[[Training, int], Fit]
) -> CrossFit:
    """Fit a model for each fold of the groups; names has the group of each training row."""
    folds = GroupFolds.of(names, training.labeled, seed)
    if len(folds.dealt) < FOLDS:
        raise EstimationError(
            f"{len(folds.dealt)} groups hold labeled rows; where only a sample of the rows is "
            f"trained on (--max-train-rows), {FOLDS} are needed"
        )
    fold = folds.fold(names)
    models = []
    for number in range(FOLDS):
        seen = fold != number
        groups = None if training.groups is None else training.groups[seen]
        part = Training(training.features[seen], training.labeled[seen], groups)
        models.append(fit(part, number).model)
    return CrossFit(folds, tuple(models))


Scores = NDArray[np.float64]


@dataclass(frozen=True)
class ScoreModel:
    """All that scoring new rows takes: how columns become features, and features a score."""

    encoding: Encoding
    classifier: str | None = None  # None: the one feature is the score itself
    scaling: Scaling | None = None
    model: Model | None = None
    lower_is_positive: bool = False  # of a column used as the score
    skip_missing: bool = False  # of one: rows without a value have no score
    labeled_class: LabeledClass = "positive"  # which a classifier learned to find

    def features(self, chunk: Chunk) -> Matrix:
        """The scaled features of rows, shape (n, d)."""
        assert self.scaling is not None
        return self.scaling.apply_to(self.encoding.encode_columns(chunk))

    def score(self, chunk: Chunk) -> Scores:
        """Scores of rows that the model was not trained on, shape (n,)."""
        if self.model is None:
            values = self.encoding.encode(chunk)[:, 0]
            if not self.skip_missing:
                _check_known(chunk, self.encoding, values)
            return -values if self.lower_is_positive else values
        return self.turned(self.model.predict(self.features(chunk)))

    def turned(self, scores: Scores) -> Scores:
        """Scores of a classifier, shape (n,), such that a high one means positive."""
        return 1 - scores if self.labeled_class == "negative" else scores


def _check_known(chunk: Chunk, encoding: Encoding, values: Scores) -> None:
    missing = np.isnan(values)
    if missing.any():
        remedy = (
            "; a score needs one: --missing-score skip leaves such rows without a posterior, "
            "--transform learns a score that copes with missing values"
        )
        column = encoding.columns[0].name
        raise chunk.error(column, "has no value", int(missing.argmax()), remedy)


class TrainingFile(NamedTuple):
    """A file of the tables that a model was trained on."""

    name: str  # without its directory
    first_row: int  # in its table
    rows: int


@dataclass(frozen=True)
class HonestScorer:
    """A score model that scores the tables it was trained on as if it had not seen them."""

    model: ScoreModel
    files: tuple[tuple[TrainingFile, ...], ...]  # of each table
    sets: tuple[int, ...]  # of each table's rows, where no column says it
    places: NDArray[np.int64]  # (n, 2): table and row of each training row, in order
    scores: Scores  # (n,): out-of-bag or out-of-fold
    group_column: str | None = None
    keys: Keys = ()  # of the rows, see Rows
    cross_fit: CrossFit | None = None  # for groups of which only some rows were trained on

    def score_all(self, rows: Rows, threads: int) -> Iterator[tuple[Chunk, Scores]]:
        """Every row in order with its score by models that saw neither it nor its group."""
        complete = len(self.places) == sum(file.rows for table in self.files for file in table)
        columns = [] if complete else rows.features

        def score(chunk: Chunk) -> Scores:
            if self.cross_fit is not None:
                features = self.model.features(chunk)
                found = self.cross_fit.predict(features, rows.groups(chunk))
                return self.model.turned(found)
            n = chunk.batch.num_rows
            scores = np.full(n, np.nan) if complete else self.model.score(chunk)
            mine = self.places[:, 0] == chunk.table
            trained_row = self.places[mine, 1] - chunk.first_row
            here = (trained_row >= 0) & (trained_row < n)
            scores[trained_row[here]] = self.scores[mine][here]
            if np.isnan(scores).any() and not self.model.skip_missing:
                raise InputError(f"{chunk.file}: has changed while it was read")
            return scores

        return ahead(score, rows.chunks([*columns, *rows.carried, *rows.key_columns]), threads)


FORMAT = "punoise.model/1"
ARRAY = re.compile(r"(sketch|scaling|model|honest|fold[0-9])\.[A-Za-z_]{1,20}")


@dataclass(frozen=True)
class StoredModel:
    """A score model and what else its file holds."""

    model: ScoreModel
    sketch: Sketch | None = None  # of the honest scores, by which new rows are calibrated
    scorer: HonestScorer | None = None  # for the tables it was trained on

    def skipping(self, missing: bool | None) -> StoredModel:
        """The same, told whether rows without a score are skipped; None leaves it as it is."""
        if missing is None:
            return self
        if self.model.model is not None:
            raise UsageError("--missing-score is for a score column; this score was learned")
        model = replace(self.model, skip_missing=missing)
        scorer = None if self.scorer is None else replace(self.scorer, model=model)
        return replace(self, model=model, scorer=scorer)


def save_model(stored: StoredModel, file: BinaryIO) -> None:
    """Write a model."""
    model, scorer = stored.model, stored.scorer
    arrays: Arrays = {}
    header: dict[str, Any] = {
        "classifier": model.classifier,
        "lower_is_positive": model.lower_is_positive,
        "skip_missing": model.skip_missing,
        "labeled_class": model.labeled_class,
        "encoding": model.encoding.as_json(),
    }
    if stored.sketch is not None:
        header["sketch"] = sketch_header(stored.sketch)
        arrays |= _prefixed("sketch.", sketch_arrays(stored.sketch))
    if model.scaling is not None and model.model is not None:
        arrays |= _prefixed("scaling.", model.scaling.arrays())
        arrays |= _prefixed("model.", model.model.arrays())
    if scorer is not None:
        header |= {"files": scorer.files, "sets": scorer.sets, "keys": scorer.keys}
        header["group_column"] = scorer.group_column
        arrays |= {"honest.places": scorer.places, "honest.scores": scorer.scores}
        if scorer.cross_fit is not None:
            folds = scorer.cross_fit.folds
            header["folds"] = {"dealt": folds.dealt, "seed": folds.seed}
            for number, fold in enumerate(scorer.cross_fit.models):
                arrays |= _prefixed(f"fold{number}.", fold.arrays())
    write_archive(file, FORMAT, header, arrays)


def load_model(name: str, file: BinaryIO) -> StoredModel:
    """Read a model back; whatever is not one is an input error."""
    header, arrays = read_archive(name, file, FORMAT, lambda key: bool(ARRAY.fullmatch(key)))
    try:
        model, sketch = _score_model(header, arrays), None
        if "sketch" in header:
            sketch = sketch_from_arrays(_part(arrays, "sketch."), header["sketch"])
        scorer = _scorer(header, arrays, model) if "files" in header else None
        return StoredModel(model, sketch, scorer)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{name}: the model is damaged or of an unknown kind") from error


def _score_model(header: dict[str, Any], arrays: Arrays) -> ScoreModel:
    encoding = Encoding.from_json(header["encoding"])
    kind, labeled_class = header["classifier"], header["labeled_class"]
    lower, skip = header["lower_is_positive"], header["skip_missing"]
    if not {type(lower), type(skip)} <= {bool}:
        raise TypeError("lower_is_positive and skip_missing are true or false")
    if labeled_class not in get_args(LabeledClass):
        raise ValueError("labeled_class is positive or negative")
    if kind is None:
        if [column.kind for column in encoding.columns] != ["number"]:
            raise ValueError("the score is one column of numbers")
        return ScoreModel(
            encoding,
            lower_is_positive=lower,
            skip_missing=skip,
            labeled_class=labeled_class,
        )
    scaling = Scaling.from_arrays(_part(arrays, "scaling."))
    scaling.check(len(encoding.feature_names))
    model = _model(kind, arrays, "model.", encoding)
    return ScoreModel(encoding, kind, scaling, model, labeled_class=labeled_class)


def _model(kind: str, arrays: Arrays, prefix: str, encoding: Encoding) -> Model:
    model: Model = CLASSIFIERS[kind].model.from_arrays(_part(arrays, prefix))
    model.check(len(encoding.feature_names))
    return model


def _scorer(header: dict[str, Any], arrays: Arrays, model: ScoreModel) -> HonestScorer:
    cross_fit = None
    if "folds" in header:
        dealt, seed = header["folds"]["dealt"], header["folds"]["seed"]
        if not all(type(fold) is int and 0 <= fold < FOLDS for fold in dealt.values()):
            raise ValueError("a group is in one of the folds")
        kind = header["classifier"]
        models = [_model(kind, arrays, f"fold{i}.", model.encoding) for i in range(FOLDS)]
        cross_fit = CrossFit(GroupFolds(dict(dealt), _count(seed)), tuple(models))
    files = tuple(tuple(_file(*file) for file in table) for table in header["files"])
    places, scores = arrays["honest.places"].astype(np.int64), arrays["honest.scores"]
    if places.shape != (len(scores), 2) or scores.ndim != 1:
        raise ValueError("every training row has a score")
    sets, keys = tuple(header["sets"]), tuple(_key(*key) for key in header["keys"])
    if len(sets) != len(files) or not set(sets) <= set(range(len(SETS))):
        raise ValueError("every table is of a set")
    if len(scores) and not (0 <= scores.min() <= scores.max() <= 1 and places.min() >= 0):
        raise ValueError("a score is a share")
    group_column = header["group_column"]
    if not isinstance(group_column, str | None) or (cross_fit and group_column is None):
        raise TypeError("the column of the groups has a name")
    honest = scores.astype(np.float64)
    return HonestScorer(model, files, sets, places, honest, group_column, keys, cross_fit)


def _file(name: Any, first_row: Any, rows: Any) -> TrainingFile:
    if not isinstance(name, str):
        raise TypeError("a file has a name")
    return TrainingFile(name, _count(first_row), _count(rows))


def _key(name: Any, columns: Any) -> tuple[str, tuple[str, ...]]:
    if not all(isinstance(text, str) for text in (name, *columns)):
        raise TypeError("keys are made of columns")
    return name, tuple(columns)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("a count is wanted")
    return value


def _prefixed(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
