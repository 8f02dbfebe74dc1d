"""Files of punoise's own: a zip of plain arrays and one JSON header, nothing that executes."""

from __future__ import annotations

import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import __version__
from .errors import InputError
from .sketch import SETS, Sketch

Arrays = dict[str, NDArray[np.generic]]

SKETCH_FORMAT = "punoise.sketch/1"
SKETCH_ARRAYS = ("edges", "labeled", "unlabeled", "negative")  # the last where there are some
MAX_ROWS = 2**53  # in a sketch: beyond, not every count is a number of its own
MAX_SHOWN = 60


def write_archive(
    file: BinaryIO, form: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a header and arrays; equal ones give equal bytes."""
    head = json.dumps({"format": form, "punoise_version": __version__, **header})
    named: Arrays = {"header": np.frombuffer(head.encode(), np.uint8), **arrays}
    np.savez(file, **named)  # type: ignore[arg-type]


def read_archive(
    name: str, file: BinaryIO, form: str, known: Callable[[str], bool]
) -> tuple[dict[str, Any], Arrays]:
    """Read an archive back; whatever is not one of this format is an input error.

    `known` says of a name whether an array may have it. All that is read is checked against the
    index and the size of the file first: the members are as they were written, not compressed.
    """
    kind = form.split("/")[0].removeprefix("punoise.")
    try:
        with zipfile.ZipFile(file) as stored:
            arrays = {key: _array(raw) for key, raw in _members(stored, file, known)}
        header = json.loads(bytes(arrays.pop("header")))
        found = header["format"]
    except MemoryError:
        raise
    except Exception as error:  # of zipfile, numpy, tokenize, json: there is no end to them
        raise InputError(f"{name}: not a punoise {kind}") from error
    if found != form:
        shown = found[:MAX_SHOWN] if isinstance(found, str) else type(found).__name__
        raise InputError(f"{name}: has format {shown!r}; this punoise reads {form!r}")
    return header, arrays


def _members(
    stored: zipfile.ZipFile, file: BinaryIO, known: Callable[[str], bool]
) -> Iterator[tuple[str, bytes]]:
    """The arrays as bytes, by name, once the index has been looked at."""
    infos = stored.infolist()
    if sum(info.file_size for info in infos) > file.seek(0, os.SEEK_END):
        raise ValueError("the members are larger than the file")
    for info in infos:
        key = info.filename.removesuffix(".npy")
        if info.compress_type != zipfile.ZIP_STORED or not (key == "header" or known(key)):
            raise ValueError(f"{info.filename} does not belong here")
    if len({info.filename for info in infos}) < len(infos):
        raise ValueError("a member appears twice")
    for info in infos:
        yield info.filename.removesuffix(".npy"), stored.read(info)


def _array(raw: bytes) -> NDArray[Any]:
    """An array in numpy's format, whose bytes must be just as many as its shape says."""
    file = io.BytesIO(raw)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array of another version")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biufU" or min(shape, default=0) < 0:
        raise ValueError("an array of numbers or texts is wanted")
    if math.prod(shape) * dtype.itemsize != len(raw) - file.tell():
        raise ValueError("an array of another size")
    numbers = np.frombuffer(raw, dtype, offset=file.tell())
    return numbers.reshape(shape, order="F" if by_column else "C")


def sketch_arrays(sketch: Sketch) -> Arrays:
    """The arrays of a sketch by name; its level goes into the header."""
    names = SKETCH_ARRAYS if sketch.n_negative else SKETCH_ARRAYS[:-1]
    return {name: getattr(sketch, name) for name in names}


def sketch_of(arrays: Mapping[str, NDArray[Any]], level: int) -> Sketch:
    """The sketch that sketch_arrays() took apart; what cannot be one is a ValueError."""
    edges = arrays["edges"]
    by_set = [arrays.get(name, np.zeros_like(arrays["labeled"])) for name in SETS]
    if [part.dtype for part in (edges, *by_set)] != [np.float64, *[np.int64] * len(SETS)]:
        raise ValueError("a sketch has edges and counts")
    if {part.shape for part in (edges, *by_set)} != {(len(edges),)} or "unlabeled" not in arrays:
        raise ValueError("the arrays of a sketch have one shape")
    counts = np.column_stack(by_set)
    if (counts < 0).any() or not counts.any(axis=1).all():
        raise ValueError("every cell of a sketch has rows")
    if type(level) is not int or not 0 <= level < 64 or not np.isfinite(edges).all():
        raise ValueError("the cells of a sketch are those of a grid")
    sketch = Sketch(edges, counts, level)
    check_rows(sketch)
    itself = Sketch.merge([sketch])
    if itself.level != level or not np.array_equal(itself.edges, edges):
        raise ValueError("the cells of a sketch are in order, and not too many")
    return sketch


def check_rows(*sketches: Sketch) -> None:
    """Stop with a ValueError where sketches, merged, have more rows than can be counted."""
    rows = sum(float(sketch.counts.sum(dtype=np.float64)) for sketch in sketches)
    if rows > MAX_ROWS:
        raise ValueError(f"{rows:.3g} rows; at most {MAX_ROWS} can be counted")


def save_sketch(sketch: Sketch, file: BinaryIO) -> None:
    """Write a sketch."""
    header: dict[str, Any] = {"level": sketch.level}
    if sketch.missing:
        header["missing"] = sketch.missing
    if sketch.labeled_negatives:
        header["labeled_negatives"] = True
    write_archive(file, SKETCH_FORMAT, header, sketch_arrays(sketch))


def load_sketch(name: str, file: BinaryIO) -> Sketch:
    """Read a sketch back."""
    header, arrays = read_archive(name, file, SKETCH_FORMAT, SKETCH_ARRAYS.__contains__)
    try:
        missing = header.get("missing", 0)
        if type(missing) is not int or not 0 <= missing <= MAX_ROWS:
            raise ValueError("a count of rows is wanted")
        negatives = header.get("labeled_negatives", False)
        if type(negatives) is not bool:
            raise TypeError("labeled_negatives is true or false")
        sketch = sketch_of(arrays, header["level"])
        return replace(sketch, missing=missing, labeled_negatives=negatives)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}: the sketch is damaged") from error
