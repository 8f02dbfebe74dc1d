"""What a report shows: priors, the calibrated scores, doubtful labels, and a run's provenance.

provenance.json may come from anywhere, so it is checked while it is read here; the rest of the
report relies on these classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..bounds import bounds
from ..calibration import Calibration
from ..errors import InputError
from ..estimators import Estimate
from ..groups import Groups
from ..notices import Notice
from ..performance import corrected_auc
from ..posteriors import DoubtfulRow, DoubtfulRows
from ..prior import STATED, Prior, notices_of_json
from ..provenance import SCHEMA
from ..sketch import FloatArray, Sketch
from ..thresholds import Thresholds
from .aggregates import PosteriorCurve
from .text import shortened


class Sample(NamedTuple):
    """One of the samples that a report compares."""

    name: str
    prior: Prior


@dataclass(frozen=True)
class InputFile:
    """A file that something was made from."""

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
    score_column: str | None  # None where the score was learned, or is not known
    columns: tuple[ColumnSummary, ...]
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, file: str, value: Any) -> Provenance:
        """The provenance of a document; an input error names the file."""
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise InputError(f"{file}: not a {SCHEMA} document")
        try:
            return cls._checked(value)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{file}: not a whole {SCHEMA} document ({error!r})") from None

    @classmethod
    def _checked(cls, value: dict[str, Any]) -> Provenance:
        tables = [entry["table"] for entry in value["inputs"]]
        given = {str(name): option for name, option in value["options"].items()}
        files = [name for name, option in given.items() if option in tables]
        score_column = value.get("score_column")
        return cls(
            version=str(value["punoise_version"]),
            inputs=tuple(
                InputFile(base_name(entry["file"]), str(entry["sha256"]))
                for entry in value["inputs"]
            ),
            options={name: base_name(given[name]) for name in files}
            | {name: value for name, value in given.items() if name not in files},
            score_column=None if score_column is None else str(score_column),
            columns=tuple(_column(entry) for entry in value["columns"]),
            notices=notices_of_json(value["warnings"]),
        )


def _column(value: dict[str, Any]) -> ColumnSummary:
    levels = value["levels"]
    if isinstance(levels, list | dict):
        levels = len(levels)
    return ColumnSummary(
        column=str(value["column"]),
        table=base_name(value["table"]),
        kind=str(value["kind"]),
        values=int(value["values"]),
        missing=int(value["missing"]),
        levels=None if levels is None else int(levels),
    )


def base_name(path: Any) -> str:
    """A file's name without its folders, which differ between machines."""
    return Path(str(path)).name or str(path)


@dataclass(frozen=True)
class SuspiciousLabel:
    """A doubtful row with what the calibration says of it."""

    row: int
    id: str
    score: float
    correct: float  # the probability that the label is


def suspicious_labels(
    rows: Sequence[DoubtfulRow], calibration: Calibration
) -> tuple[SuspiciousLabel, ...]:
    """The doubtful rows with the probability that they are what their labels say, lowest first."""
    cells = calibration.sketch.cells_of(np.array([row.score for row in rows], np.float64))
    p = calibration.posterior_labeled
    correct = 1 - p if calibration.shares.labeled_negatives else p
    return tuple(
        SuspiciousLabel(row.row, row.id, row.score, float(correct[cell]))
        for row, cell in zip(rows, cells, strict=True)
    )


@dataclass(frozen=True)
class ReportContent:
    """All that the page of one sample is made of."""

    prior: Prior
    calibration: Calibration  # in the population of the unlabeled rows, as is all but `by_score`
    by_score: PosteriorCurve  # in the population that the posteriors are for
    suspicious: tuple[SuspiciousLabel, ...]
    provenance: Provenance | None = None
    sources: tuple[InputFile, ...] = ()  # the files that the report itself was made from
    thresholds: Thresholds | None = None  # of levels of evidence
    groups: Groups | None = None

    @property
    def sketch(self) -> Sketch:
        return self.calibration.sketch

    @property
    def answer(self) -> Estimate:
        """The estimate, without which there is no calibration."""
        assert self.prior.answer is not None
        return self.prior.answer

    @property
    def is_stated(self) -> bool:
        """Whether α and β are the user's own."""
        return self.prior.method == STATED

    @property
    def labeled_positives(self) -> float:
        """The share of positives among the labeled rows."""
        return 1 - self.answer.beta if self.prior.labeled_negatives else self.answer.beta

    @property
    def auc(self) -> float | None:
        """The AUC of positives against negatives, as far as α and β tell it."""
        return self.prior.auc if self.sketch.n_unlabeled else corrected_auc(self.calibration)

    @property
    def score_title(self) -> str:
        """What an axis of scores is called: the column that they come from, where that is known."""
        given = self.provenance
        if given is None or given.score_column is None:
            return "score"
        turned = " (opposite sign)" if given.options.get("lower_is_positive") is True else ""
        return shortened(given.score_column) + turned

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The warnings of all steps, each once."""
        given = () if self.provenance is None else self.provenance.notices
        of_groups = () if self.groups is None else self.groups.notices
        found = (*given, *self.prior.notices, *self.calibration.notices, *of_groups)
        return tuple(dict.fromkeys(found))


def content_of_run(
    prior: Prior,
    calibration: Calibration,
    doubtful: DoubtfulRows,
    made_of: dict[str, Any],
    by_score: PosteriorCurve | None = None,
    thresholds: Thresholds | None = None,
) -> ReportContent:
    """The content of the report of a run, from what the run has in hand."""
    if by_score is None:
        bounds = bounds_on_posterior(calibration, prior.seed)
        by_score = PosteriorCurve.of(calibration, bounds=bounds)
    return ReportContent(
        prior,
        calibration,
        by_score,
        suspicious_labels(doubtful.kept, calibration),
        Provenance.of("provenance.json", made_of),
        thresholds=thresholds,
    )


def bounds_on_posterior(
    calibration: Calibration, seed: int, target_alpha: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """One-sided 95 % bounds for the chart of posteriors, both of shape (cells,)."""
    return bounds(calibration, "isotonic", seed).posterior(target_alpha)
