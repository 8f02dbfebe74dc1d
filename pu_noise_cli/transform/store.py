"""Score models as files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np

from ..archive import read_archive, sketch_arrays, sketch_of, write_archive
from ..encoding import Encoding
from ..errors import InputError, UsageError
from ..rows import USUAL_SETS
from ..sketch import NEGATIVE, SETS, Sketch
from . import CLASSIFIERS
from .base import Arrays, Model
from .crossfit import FOLDS, CrossFit, GroupFolds
from .scaling import Scaling
from .scoring import HonestScorer, ScoreModel, TrainingFile

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
        "encoding": model.encoding.as_json(),
    }
    if model.labeled_negatives:
        header["labeled_negatives"] = True
    if model.skip_missing:
        header["skip_missing"] = True
    if stored.sketch is not None:
        header["level"] = stored.sketch.level
        arrays |= _prefixed("sketch.", sketch_arrays(stored.sketch))
    if model.scaling is not None and model.model is not None:
        arrays |= _prefixed("scaling.", model.scaling.arrays())
        arrays |= _prefixed("model.", model.model.arrays())
    if scorer is not None:
        header |= {"files": scorer.files, "group_column": scorer.group_column}
        if NEGATIVE in scorer.sets:
            header["sets"] = scorer.sets
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
        if "level" in header:
            sketch = sketch_of(_part(arrays, "sketch."), header["level"])
            sketch = replace(sketch, labeled_negatives=model.labeled_negatives)
        scorer = _scorer(header, arrays, model) if "files" in header else None
        return StoredModel(model, sketch, scorer)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise InputError(f"{name}: the model is damaged or of an unknown kind") from error


def _score_model(header: dict[str, Any], arrays: Arrays) -> ScoreModel:
    encoding = Encoding.from_json(header["encoding"])
    kind, turned = header["classifier"], header["lower_is_positive"]
    skip, negatives = (header.get(key, False) for key in ("skip_missing", "labeled_negatives"))
    if not {type(turned), type(skip), type(negatives)} <= {bool}:
        raise TypeError("lower_is_positive, skip_missing and labeled_negatives are true or false")
    if kind is None:
        if [column.kind for column in encoding.columns] != ["number"]:
            raise ValueError("the score is one column of numbers")
        return ScoreModel(
            encoding,
            lower_is_positive=turned,
            skip_missing=skip,
            labeled_negatives=negatives,
        )
    scaling = Scaling.from_arrays(_part(arrays, "scaling."))
    scaling.check(len(encoding.feature_names))
    model = _model(kind, arrays, "model.", encoding)
    return ScoreModel(encoding, kind, scaling, model, labeled_negatives=negatives)


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
    sets = tuple(header["sets"] if "sets" in header else USUAL_SETS[len(files)])
    if len(sets) != len(files) or not set(sets) <= set(range(len(SETS))):
        raise ValueError("every table is of a set")
    if len(scores) and not (0 <= scores.min() <= scores.max() <= 1 and places.min() >= 0):
        raise ValueError("a score is a share")
    group_column = header["group_column"]
    if not isinstance(group_column, str | None) or (cross_fit and group_column is None):
        raise TypeError("the column of the groups has a name")
    honest = scores.astype(np.float64)
    return HonestScorer(model, files, sets, places, honest, group_column, cross_fit)


def _file(name: Any, first_row: Any, rows: Any) -> TrainingFile:
    if not isinstance(name, str):
        raise TypeError("a file has a name")
    return TrainingFile(name, _count(first_row), _count(rows))


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("a count is wanted")
    return value


def _prefixed(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
