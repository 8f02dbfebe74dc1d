"""Posteriors and thresholds by group: each has its own share of positives, and its own shift."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .bounds import Bounds
from .calibration import Calibration, posterior_at
from .errors import InputError
from .evidence import NONE, Grading, Level
from .groups import Groups, group_names
from .pooling import Bins, masses
from .posteriors import PosteriorRows, WritePosteriors, at_places, known_rows
from .rows import Chunk, Rows
from .sketch import FloatArray, IntArray

ONE_OF_TWO = 1.645 / 1.96  # the error of a one-sided 95 % bound in those of a 95 % interval
CALLED = "call"  # in what was reached: rows that are called at the wanted fdr


@dataclass(frozen=True, eq=False)
class GroupPosteriors:
    """What scores say in each group, where the likelihood ratio is that of the whole, shifted."""

    groups: Groups
    calibration: Calibration
    bounds: Bounds | None = None
    grading: Grading | None = None  # of evidence; goes with bounds
    fdr: float | None = None  # at which rows are called

    @cached_property
    def _bins(self) -> Bins:
        return Bins.of(self.calibration)

    @cached_property
    def _above(self) -> tuple[FloatArray, FloatArray]:
        """How much of f1, and of f0, lies from each cell up, both of shape (cells,)."""
        f1, f0 = (np.cumsum(mass[::-1])[::-1] for mass in masses(self.calibration))
        return f1, f0

    @cached_property
    def levels(self) -> list[Level]:
        """The levels of evidence at the prior of the whole, the strongest of each side first."""
        return self._levels(self.calibration.shares.alpha)

    @cached_property
    def needed(self) -> FloatArray:
        """The likelihood ratio of each level at each group's prior, shape (groups, levels).

        It is not a number where the rule has no such level at that prior.
        """
        found = np.full((len(self.groups.names), len(self.levels)), np.nan)
        for place, alpha in enumerate(self.groups.shares.alpha):
            try:
                by_name = {level.name: level.lr for level in self._levels(float(alpha))}
            except InputError:  # a prior so near to 0 or 1 that the rule does not go with it
                continue
            found[place] = [by_name[level.name] for level in self.levels]
        return found

    def _levels(self, alpha: float) -> list[Level]:
        return [] if self.grading is None else self.grading.levels(alpha)

    def columns(self, places: IntArray, cells: IntArray) -> dict[str, NDArray[Any]]:
        """Columns of POSTERIOR for rows with the places of their groups and cells, all (n,)."""
        own = self._bins.moved(cells, -self.groups.shares.shift[places])
        lr, alpha = self.calibration.lr[own], self.groups.shares.alpha[places]
        p = posterior_at(lr, alpha)
        f1, f0 = (above[own] for above in self._above)
        negatives = (1 - alpha) * f0
        rows = alpha * f1 + negatives
        fdr = np.where(rows > 0, negatives / np.where(rows > 0, rows, 1), 1 - p)
        found: dict[str, NDArray[Any]] = {
            "tau": self.calibration.tau[cells],
            "posterior": p,
            "lr": lr,
            "fdr": fdr,
            "posterior_labeled": self.calibration.posterior_labeled[own],
            CALLED: fdr <= (self.fdr or 0.0),
        }
        if self.bounds is not None:
            low, high = (bound[own] for bound in self.bounds.lr)
            shares = self.groups.shares
            found["posterior_low"] = _bounded(lr, low, alpha, shares.alpha_low[places], -1)
            found["posterior_high"] = _bounded(lr, high, alpha, shares.alpha_high[places], 1)
            found["evidence"] = self._evidence(places, low, high)
        return found

    def _evidence(self, places: IntArray, low: FloatArray, high: FloatArray) -> NDArray[np.int64]:
        """The strongest level, counted from 1, that bounds on the likelihood ratio support."""
        found = np.zeros(len(low), np.int64)
        for i in reversed(range(len(self.levels))):
            needed = self.needed[places, i]
            meets = high <= needed if self.levels[i].against else low >= needed
            found[meets] = i + 1
        return found

    @property
    def level_names(self) -> NDArray[np.str_]:
        """The names of levels by their number in `columns`."""
        return np.array([NONE, *(level.name for level in self.levels)])

    def write(self, out: str, lower_is_positive: bool) -> None:
        """GROUPS, with the scores at which levels of evidence begin, where there are any."""
        self.groups.write(out, self.thresholds(lower_is_positive))

    def thresholds(self, lower_is_positive: bool) -> dict[str, FloatArray]:
        """For each level the score at which it begins in each group; not a number where nowhere."""
        if self.bounds is None:
            return {}
        sketch, sign = self.calibration.sketch, -1.0 if lower_is_positive else 1.0
        found, cells = np.full_like(self.needed, np.nan), np.arange(len(sketch.edges))
        ends = sketch.spans()
        for place, shift in enumerate(self.groups.shares.shift):
            own = self._bins.moved(cells, np.full(len(cells), -shift))
            low, high = (bound[own] for bound in self.bounds.lr)
            for i, level in enumerate(self.levels):
                needed = self.needed[place, i]
                meets = np.flatnonzero(high <= needed if level.against else low >= needed)
                if len(meets):
                    cell = meets[-1 if level.against else 0]
                    found[place, i] = sign * ends[level.against][cell] + 0.0  # no -0
        ranked = sorted(range(len(self.levels)), key=lambda i: -self.levels[i].lr)
        return {self.levels[i].code: found[:, i] for i in ranked}


def _bounded(
    lr: FloatArray, bound: FloatArray, alpha: FloatArray, end: FloatArray, side: int
) -> FloatArray:
    """A bound on the posterior from those on the likelihood ratio and α, all of shape (n,).

    The two errors are taken to be independent of each other. `end` is that of a 95 % interval, and
    the side, -1 or 1, that on which the bounds are.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = _logit(alpha)
        of_prior = ONE_OF_TWO * (_logit(end) - prior)
        error = np.hypot(np.log(bound) - np.log(lr), of_prior)
        logit = np.log(lr) + prior + side * error
        found = 1 / (1 + np.exp(-logit))
    return np.where(np.isnan(logit), posterior_at(bound, end), found)


def _logit(p: FloatArray) -> FloatArray:
    return np.asarray(np.log(p) - np.log1p(-p))


@dataclass(frozen=True, eq=False)
class WriteGroupPosteriors(WritePosteriors):
    """Writes POSTERIOR of rows that have scores, each by its own group."""

    found: GroupPosteriors

    def digest(self, rows: Rows) -> str:
        """A digest of all that a posterior depends on but the values of the rows."""
        parts = (super().digest(rows), self.found.groups.digest(), self.found.fdr)
        digest = hashlib.sha256(":".join(map(str, parts)).encode())
        for array in (self.found.needed, *(self.found.bounds.lr if self.found.bounds else ())):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def read_again(self, rows: Rows) -> Sequence[str]:
        return (*rows.id_columns, self.found.groups.by)

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        columns, rows = self._columns(chunk, scores), np.arange(len(scores))
        found = []
        for name in names:
            graded = name == "evidence"
            values = self.found.level_names if graded else columns[name]
            places = columns[name] if graded else rows
            found.append(at_places(values, places, known_rows(name, chunk, scores)))
        return found

    def saw(self, found: PosteriorRows, rows: Rows, chunk: Chunk, scores: FloatArray) -> None:
        super().saw(found, rows, chunk, scores)
        if self.found.fdr is None and not self.found.levels:
            return
        columns, mine = self._columns(chunk, scores), chunk.unlabeled & ~np.isnan(scores)
        found.reached[CALLED] += int(columns[CALLED][mine].sum())
        if self.found.levels:
            reached = np.bincount(columns["evidence"][mine])
            names = self.found.level_names
            found.reached.update({str(names[i]): int(n) for i, n in enumerate(reached)})

    def _columns(self, chunk: Chunk, scores: FloatArray) -> dict[str, NDArray[Any]]:
        groups = self.found.groups
        places = groups.places(group_names(chunk, groups.by))
        return self.found.columns(places, self.sketch.cells_of(scores))
