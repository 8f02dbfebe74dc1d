"""Score models as files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ..archive import read_archive, sketch_arrays, sketch_of, write_archive
from ..encoding import Encoding
from ..errors import InputError
from ..sketch import Sketch
from . import CLASSIFIERS
from .base import Arrays, Model
from .crossfit import CrossFit, GroupFolds
from .scaling import Scaling
from .scoring import HonestScorer, ScoreModel, TrainingFile

FORMAT = "punoise.model/1"


@dataclass(frozen=True)
class StoredModel:
    """A score model and what else its file holds."""

    model: ScoreModel
    sketch: Sketch | None = None  # of the honest scores, by which new rows are calibrated
    scorer: HonestScorer | None = None  # for the tables it was trained on


def save_model(stored: StoredModel, file: BinaryIO) -> None:
    """Write a model."""
    model, scorer = stored.model, stored.scorer
    arrays: Arrays = {}
    header: dict[str, Any] = {
        "classifier": model.classifier,
        "lower_is_positive": model.lower_is_positive,
        "encoding": model.encoding.as_json(),
    }
    if stored.sketch is not None:
        header["level"] = stored.sketch.level
        arrays |= _prefixed("sketch.", sketch_arrays(stored.sketch))
    if model.scaling is not None and model.model is not None:
        arrays |= _prefixed("scaling.", model.scaling.arrays())
        arrays |= _prefixed("model.", model.model.arrays())
    if scorer is not None:
        header |= {"files": scorer.files, "group_column": scorer.group_column}
        arrays |= {"honest.places": scorer.places, "honest.scores": scorer.scores}
        if scorer.cross_fit is not None:
            folds = scorer.cross_fit.folds
            header["folds"] = {"dealt": folds.dealt, "seed": folds.seed}
            for number, fold in enumerate(scorer.cross_fit.models):
                arrays |= _prefixed(f"fold{number}.", fold.arrays())
    write_archive(file, FORMAT, header, arrays)


def load_model(name: str, file: BinaryIO) -> StoredModel:
    """Read a model back; whatever is not one is an input error."""
    header, arrays = read_archive(name, file, FORMAT)
    try:
        sketch = None
        if "level" in header:
            sketch = sketch_of(_part(arrays, "sketch."), header["level"])
        model = _score_model(header, arrays)
        scorer = _scorer(header, arrays, model) if "files" in header else None
        return StoredModel(model, sketch, scorer)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{name}: the model is damaged or of an unknown kind") from error


def _score_model(header: dict[str, Any], arrays: Arrays) -> ScoreModel:
    encoding = Encoding.from_json(header["encoding"])
    kind = header["classifier"]
    if kind is None:
        return ScoreModel(encoding, lower_is_positive=header["lower_is_positive"])
    scaling = Scaling.from_arrays(_part(arrays, "scaling."))
    model = CLASSIFIERS[kind].model.from_arrays(_part(arrays, "model."))
    nothing = np.zeros((1, len(encoding.feature_names)))
    model.predict(scaling.apply(nothing), 1)  # parts that do not fit fail here
    return ScoreModel(encoding, kind, scaling, model)


def _scorer(header: dict[str, Any], arrays: Arrays, model: ScoreModel) -> HonestScorer:
    cross_fit = None
    if "folds" in header:
        kind: type[Model] = CLASSIFIERS[header["classifier"]].model
        folds = GroupFolds(header["folds"]["dealt"], header["folds"]["seed"])
        numbers = sorted({key.split(".")[0] for key in arrays if key.startswith("fold")})
        cross_fit = CrossFit(
            folds, tuple(kind.from_arrays(_part(arrays, f"{number}.")) for number in numbers)
        )
    places, scores = arrays["honest.places"], arrays["honest.scores"]
    if places.shape != (len(scores), 2):
        raise ValueError("every training row has a score")
    return HonestScorer(
        model,
        tuple(tuple(TrainingFile(*file) for file in table) for table in header["files"]),
        places.astype(np.int64),
        scores.astype(np.float64),
        header["group_column"],
        cross_fit,
    )


def _prefixed(prefix: str, arrays: Arrays) -> Arrays:
    return {prefix + name: array for name, array in arrays.items()}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
