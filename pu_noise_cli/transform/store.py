"""Score models as files: a zip of plain arrays and one JSON header, nothing that executes."""

from __future__ import annotations

import json
import zipfile
from typing import BinaryIO

import numpy as np

from .. import __version__
from ..errors import InputError
from ..features import Encoding
from ..sketch import Sketch
from . import MODELS
from .base import Arrays
from .scaling import Scaling
from .scoring import ScoreModel

FORMAT = "punoise.model/1"
SKETCH_ARRAYS = ("edges", "labeled", "unlabeled")


def save_model(model: ScoreModel, sketch: Sketch, file: BinaryIO) -> None:
    """Write a model with the sketch of its honest scores, by which new rows are calibrated."""
    header = {
        "format": FORMAT,
        "punoise_version": __version__,
        "classifier": model.classifier,
        "lower_is_positive": model.lower_is_positive,
        "encoding": model.encoding.as_json(),
        "level": sketch.level,
    }
    arrays: Arrays = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    arrays |= {f"sketch.{name}": getattr(sketch, name) for name in SKETCH_ARRAYS}
    if model.scaling is not None and model.model is not None:
        arrays |= {f"scaling.{name}": array for name, array in model.scaling.arrays().items()}
        arrays |= {f"model.{name}": array for name, array in model.model.arrays().items()}
    np.savez(file, **arrays)  # type: ignore[arg-type]


def load_model(name: str, file: BinaryIO) -> tuple[ScoreModel, Sketch]:
    """Read a model and its sketch back; whatever is not one is an input error."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        header = json.loads(bytes(arrays["header"]))
        found = header["format"]
    except (zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError, OSError) as error:
        raise InputError(f"{name}: not a punoise model") from error
    if found != FORMAT:
        raise InputError(f"{name}: has format {found!r}; this punoise reads {FORMAT!r}")

    def part(prefix: str) -> Arrays:
        return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}

    try:
        sketch = Sketch(**{n: arrays[f"sketch.{n}"] for n in SKETCH_ARRAYS}, level=header["level"])
        encoding = Encoding.from_json(header["encoding"])
        kind = header["classifier"]
        if kind is None:
            return ScoreModel(encoding, lower_is_positive=header["lower_is_positive"]), sketch
        scaling = Scaling.from_arrays(part("scaling."))
        model = MODELS[kind].from_arrays(part("model."))
        nothing = np.zeros((1, len(encoding.feature_names)))
        model.predict(scaling.apply(nothing), 1)  # parts that do not fit fail here
        return ScoreModel(encoding, kind, scaling, model), sketch
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{name}: the model is damaged or of an unknown kind") from error
