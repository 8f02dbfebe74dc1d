"""What a report shows: a prior, the sketch and its calibration, doubtful labels, provenance.

PRIOR.json and provenance.json may come from anywhere, so they are checked while they are read here;
the rest of the report relies on these classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, Notice
from ..posterior import Calibration
from ..prior import SCHEMA, prior_shares
from ..sketch import FloatArray, Sketch
from ..summarize import sample_of
from .text import Interval

PROVENANCE_SCHEMA = "punoise.provenance/1"
# What differs between runs that give the same results; provenance.json has it.
UNREPEATED_OPTIONS = {"threads", "quiet", "verbose", "out_dir", "dask", "shards", "resume"}
FILE_OPTIONS = {"labeled", "unlabeled", "table"}
SUSPICIOUS_ROWS = 50
MOST_METHODS = 50  # far more than there are: a document from elsewhere must not fill the page
T = TypeVar("T")


@dataclass(frozen=True)
class Estimates:
    """α and β by one method; all None where estimation failed."""

    method: str
    alpha: float | None
    alpha_ci: Interval | None
    beta: float | None
    beta_ci: Interval | None
    alpha_plus: float | None
    beta_plus: float | None


@dataclass(frozen=True)
class PriorView:
    """A PRIOR.json, checked."""

    name: str  # the sample's, else the file's without its folder and ending
    version: str
    seed: int | None
    n_labeled: int | None
    n_unlabeled: int | None
    answer: Estimates
    auc_pu: float | None
    auc: float | None
    notices: tuple[Notice, ...]
    estimates: tuple[Estimates, ...]
    curves: dict[str, tuple[list[float], list[float]]]  # proportions and log-likelihoods
    has_sample_name: bool = False

    @classmethod
    def of(cls, file: str, value: Any) -> PriorView:
        """The view of a document; an input error names the file."""
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise InputError(f"{file}: not a {SCHEMA} document")
        try:
            view = cls._parsed(file, value)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise InputError(f"{file}: not a whole {SCHEMA} document ({error!r})") from None
        if view.estimated:
            prior_shares(file, value)  # the same checks as every other command makes
        return view

    @classmethod
    def _parsed(cls, file: str, value: dict[str, Any]) -> PriorView:
        sample = _optional(str, value["sample"])
        return cls(
            name=sample or sample_of(file),
            version=str(value["punoise_version"]),
            seed=_optional(int, value["seed"]),
            n_labeled=_optional(int, value["n_labeled"]),
            n_unlabeled=_optional(int, value["n_unlabeled"]),
            answer=_estimates(value),
            auc_pu=_optional(_share, value["auc_pu"]),
            auc=_optional(_share, value["auc"]),
            notices=_notices(value["warnings"]),
            estimates=tuple(_estimates(entry) for entry in value["estimates"][:MOST_METHODS]),
            curves={
                str(name): _curve(curve["proportion"], curve["log_likelihood"])
                for name, curve in (value["curve"] or {}).items()
            },
            has_sample_name=bool(sample),
        )

    @property
    def estimated(self) -> bool:
        return self.answer.alpha is not None and self.answer.beta is not None


def _optional(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return float(value)


def _share(value: Any) -> float:
    if not 0 <= _finite(value) <= 1:
        raise ValueError(f"{value!r} is not a share")
    return float(value)


def _interval(value: Any) -> Interval:
    low, high = value
    return _share(low), _share(high)


def _curve(proportion: Any, log_likelihood: Any) -> tuple[list[float], list[float]]:
    if len(proportion) != len(log_likelihood):
        raise ValueError("a curve's two lists differ in length")
    return [_share(x) for x in proportion], [_finite(x) for x in log_likelihood]


def _notices(value: Any) -> tuple[Notice, ...]:
    return tuple(Notice(str(entry["code"]), str(entry["message"])) for entry in value)


def _estimates(value: dict[str, Any]) -> Estimates:
    return Estimates(
        method=str(value["method"]),
        alpha=_optional(_share, value["alpha"]),
        alpha_ci=_optional(_interval, value["alpha_ci"]),
        beta=_optional(_share, value["beta"]),
        beta_ci=_optional(_interval, value["beta_ci"]),
        alpha_plus=_optional(_share, value["alpha_plus"]),
        beta_plus=_optional(_share, value["beta_plus"]),
    )


@dataclass(frozen=True)
class InputFile:
    name: str
    sha256: str


@dataclass(frozen=True)
class ColumnSummary:
    """What one column holds in one table."""

    column: str
    table: str
    kind: str
    values: int
    missing: int
    levels: int | None


@dataclass(frozen=True)
class Provenance:
    """The part of a provenance.json that equal runs share: no folders, threads or versions."""

    version: str
    inputs: tuple[InputFile, ...]
    options: dict[str, Any]
    columns: tuple[ColumnSummary, ...]
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, file: str, value: Any) -> Provenance:
        if not isinstance(value, dict) or value.get("schema") != PROVENANCE_SCHEMA:
            raise InputError(f"{file}: not a {PROVENANCE_SCHEMA} document")
        try:
            return cls(
                version=str(value["punoise_version"]),
                inputs=tuple(
                    InputFile(base_name(entry["file"]), str(entry["sha256"]))
                    for entry in value["inputs"]
                ),
                options={
                    str(name): base_name(option) if name in FILE_OPTIONS else option
                    for name, option in dict(value["options"]).items()
                    if name not in UNREPEATED_OPTIONS
                },
                columns=tuple(_column(entry) for entry in value["columns"]),
                notices=_notices(value["warnings"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{file}: not a whole {PROVENANCE_SCHEMA} document ({error!r})") from (
                None
            )


def _column(value: dict[str, Any]) -> ColumnSummary:
    levels = value["levels"]
    return ColumnSummary(
        column=str(value["column"]),
        table=base_name(value["table"]),
        kind=str(value["kind"]),
        values=int(value["values"]),
        missing=int(value["missing"]),
        levels=len(levels) if isinstance(levels, list | dict) else _optional(int, levels),
    )


def base_name(path: Any) -> str:
    """A file's name without its folders, which differ between machines."""
    return Path(str(path)).name or str(path)


@dataclass(frozen=True)
class DoubtfulRow:
    """A labeled row with a low score."""

    row: int  # in SCORES, from 1
    id: str
    score: float


class DoubtfulRows:
    """The labeled rows with the lowest scores, gathered in one pass in bounded memory.

    p(Y=1|x, labeled) never falls as the score rises, so these are the rows where it is lowest. Of
    equal scores the earlier row comes first.
    """

    def __init__(self, size: int = SUSPICIOUS_ROWS) -> None:
        self.size = size
        self.kept: list[DoubtfulRow] = []

    def add(
        self, ids: pa.Array, scores: FloatArray, labeled: NDArray[np.bool_], first_row: int
    ) -> None:
        """Rows, all arrays of shape (n,), the first of which is at `first_row` from 0."""
        candidates = np.flatnonzero(labeled)
        if len(self.kept) == self.size:
            candidates = candidates[scores[candidates] < self.kept[-1].score]
        lowest = candidates[np.argsort(scores[candidates], kind="stable")[: self.size]]
        new = [
            DoubtfulRow(first_row + int(i) + 1, str(ids[int(i)].as_py()), float(scores[i]))
            for i in lowest
        ]
        self._keep(new)

    def _keep(self, new: Sequence[DoubtfulRow]) -> None:
        merged = sorted([*self.kept, *new], key=lambda row: (row.score, row.row))
        self.kept = merged[: self.size]

    @classmethod
    def merge(cls, parts: Sequence[DoubtfulRows]) -> DoubtfulRows:
        """The lowest of all parts."""
        merged = cls(max(part.size for part in parts))
        for part in parts:
            merged._keep(part.kept)
        return merged


@dataclass(frozen=True)
class SuspiciousLabel:
    """A doubtful row with what the calibration says of it."""

    row: int
    id: str
    score: float
    posterior_labeled: float


def suspicious_labels(
    rows: Sequence[DoubtfulRow], calibration: Calibration
) -> tuple[SuspiciousLabel, ...]:
    """The doubtful rows with p(Y=1|x, labeled), lowest first."""
    cells = calibration.sketch.cells_of(np.array([row.score for row in rows], np.float64))
    return tuple(
        SuspiciousLabel(row.row, row.id, row.score, float(calibration.posterior_labeled[cell]))
        for row, cell in zip(rows, cells, strict=True)
    )


@dataclass(frozen=True)
class ReportContent:
    """All that the page of one sample is made of."""

    prior: PriorView
    calibration: Calibration
    suspicious: tuple[SuspiciousLabel, ...]
    provenance: Provenance | None = None
    sources: tuple[InputFile, ...] = ()  # the files that the report itself was made from

    @property
    def sketch(self) -> Sketch:
        return self.calibration.sketch

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The warnings of all steps, each once."""
        given = () if self.provenance is None else self.provenance.notices
        return tuple(dict.fromkeys((*given, *self.prior.notices, *self.calibration.notices)))


def content_of_run(
    prior: dict[str, Any],
    calibration: Calibration,
    doubtful: DoubtfulRows,
    provenance: dict[str, Any],
) -> ReportContent:
    """The content of the report of a run, from what the run has in hand."""
    return ReportContent(
        PriorView.of("prior.json", prior),
        calibration,
        suspicious_labels(doubtful.kept, calibration),
        Provenance.of("provenance.json", provenance),
    )
