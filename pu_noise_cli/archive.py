"""Files of punoise's own: a zip of plain arrays and one JSON header, nothing that executes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import __version__
from .errors import InputError
from .sketch import Sketch

Arrays = dict[str, NDArray[np.generic]]

SKETCH_FORMAT = "punoise.sketch/1"
SKETCH_ARRAYS = ("edges", "labeled", "unlabeled")


def write_archive(
    file: BinaryIO, form: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a header and arrays; equal ones give equal bytes."""
    head = json.dumps({"format": form, "punoise_version": __version__, **header})
    named: Arrays = {"header": np.frombuffer(head.encode(), np.uint8), **arrays}
    np.savez(file, **named)  # type: ignore[arg-type]


def read_archive(name: str, file: BinaryIO, form: str) -> tuple[dict[str, Any], Arrays]:
    """Read an archive back; whatever is not one of this format is an input error."""
    kind = form.split("/")[0].removeprefix("punoise.")
    try:
        with np.load(file, allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
        header = json.loads(bytes(arrays.pop("header")))
        found = header["format"]
    except Exception as error:  # of zipfile, zlib, numpy, tokenize, json: there is no end to them
        raise InputError(f"{name}: not a punoise {kind}") from error
    if found != form:
        raise InputError(f"{name}: has format {found!r}; this punoise reads {form!r}")
    return header, arrays


def sketch_arrays(sketch: Sketch) -> Arrays:
    """The arrays of a sketch by name; its level goes into the header."""
    return {name: getattr(sketch, name) for name in SKETCH_ARRAYS}


def sketch_of(arrays: Mapping[str, NDArray[Any]], level: int) -> Sketch:
    """The sketch that sketch_arrays() took apart; what cannot be one is a ValueError."""
    edges, labeled, unlabeled = parts = [arrays[name] for name in SKETCH_ARRAYS]
    if [part.dtype for part in parts] != [np.float64, np.int64, np.int64]:
        raise ValueError("a sketch has edges and counts")
    if {part.shape for part in parts} != {(len(edges),)}:
        raise ValueError("the arrays of a sketch have one shape")
    if (np.minimum(labeled, unlabeled) < 0).any() or (labeled + unlabeled == 0).any():
        raise ValueError("every cell of a sketch has rows")
    if type(level) is not int or not 0 <= level < 64 or not np.isfinite(edges).all():
        raise ValueError("the cells of a sketch are those of a grid")
    sketch = Sketch(edges, labeled, unlabeled, level)
    itself = Sketch.merge([sketch])
    if itself.level != level or not np.array_equal(itself.edges, edges):
        raise ValueError("the cells of a sketch are in order, and not too many")
    return sketch


def save_sketch(sketch: Sketch, file: BinaryIO) -> None:
    """Write a sketch."""
    write_archive(file, SKETCH_FORMAT, {"level": sketch.level}, sketch_arrays(sketch))


def load_sketch(name: str, file: BinaryIO) -> Sketch:
    """Read a sketch back."""
    header, arrays = read_archive(name, file, SKETCH_FORMAT)
    try:
        return sketch_of(arrays, header["level"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}: the sketch is damaged") from error
