"""Peptide-spectrum matches: the best of each spectrum and of each peptide, PEPs and q-values.

Matches of one spectrum compete, targets with decoys, and the best stands for the spectrum; of the
matches of one peptide, the best stands for the peptide. What is known of a match on the way is a
few numbers: memory grows with the number of spectra, by some 40 bytes each.

Counting decoys: as many wrong matches win against their decoys as decoys win against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray, expit, hash_texts, logit
from ..posterior.calibration import Calibration
from ..prior.base import Estimate, Interval, Settings, register
from ..score.sketch import Sketch
from ..tables.rows import Chunk, Rows, as_text

Keys = NDArray[np.uint64]
JOINT = "\x1f"  # between the parts of a key
SPECTRUM = "spectrum"
MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
LEAST = 1e-12  # of a PEP, whose odds must be finite
LOW = 0.5  # the share of decoys whose scores are called low
UNLIKELY = 2.5  # standard deviations between targets and decoys there


@dataclass(frozen=True, eq=False)
class Matches:
    """Some matches in the order of the rows; all arrays have shape (n,)."""

    row: IntArray  # in the output, from 0
    score: FloatArray
    labeled: BoolArray  # decoys
    keys: Mapping[str, Keys]  # of the spectrum, the peptide and the protein

    @cached_property
    def sketch(self) -> Sketch:
        """The sketch of their scores."""
        return Sketch.from_rows(self.score, self.labeled, "negative")

    def best(self, key: str) -> Matches:
        """The best match for each value of a key; of equal ones any, be it target or decoy."""
        order = np.lexsort((_lots(self.row), -self.score, self.keys[key]))
        ordered = self.keys[key][order]
        first = np.ones(len(order), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        return self.at(np.sort(order[first]))

    def at(self, places: IntArray) -> Matches:
        """Those at some places."""
        keys = {name: values[places] for name, values in self.keys.items()}
        return Matches(self.row[places], self.score[places], self.labeled[places], keys)

    @classmethod
    def joined(cls, parts: Sequence[Matches]) -> Matches:
        """The matches of all parts, one after the other."""
        return cls(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.labeled for part in parts]),
            {key: np.concatenate([part.keys[key] for part in parts]) for key in parts[0].keys},
        )


def _lots(row: IntArray) -> Keys:
    """Numbers as good as random, the same for the same rows, shape (n,)."""
    lot = row.astype(np.uint64) * MIXERS[0]
    for mixer in MIXERS:
        lot = (lot ^ (lot >> np.uint64(29))) * mixer
    return lot ^ (lot >> np.uint64(32))


class MatchFinder:
    """Finds the best match of each spectrum while rows come in batches."""

    def __init__(self, rows: Rows) -> None:
        assert rows.matches is not None
        columns = rows.matches
        self._columns = {SPECTRUM: columns.spectrum} | {
            level: (column,) for level, column in columns.rolled_up.items()
        }
        # scans are numbered anew in each file
        self._by_file = sum(len(table.shards) for table in rows.tables) > len(rows.tables)
        self._seen = 0
        self.missing = 0  # rows without a score
        self._parts: list[Matches] = []
        self._most = 1 << 18  # matches to hold before the best are picked

    def add(self, chunk: Chunk, scores: FloatArray) -> None:
        """Look at rows, in output order, with their scores of shape (n,)."""
        row = np.arange(self._seen, self._seen + len(scores))
        keys = {
            name: _keys(chunk, columns, chunk.file if self._by_file and name == SPECTRUM else "")
            for name, columns in self._columns.items()
        }
        part = Matches(row, scores, chunk.labeled, keys)
        self._parts.append(part.at(np.flatnonzero(~np.isnan(scores))))
        self._seen += len(scores)
        self.missing += int(np.isnan(scores).sum())
        if sum(len(part.row) for part in self._parts) > self._most:
            self._most = max(self._most, 2 * len(self.found().row))

    def found(self) -> Matches:
        """The best match of each spectrum so far."""
        self._parts = [Matches.joined(self._parts).best(SPECTRUM)]
        return self._parts[0]


def _keys(chunk: Chunk, columns: Sequence[str], prefix: str) -> Keys:
    """A number for each row that is the same where the texts of the columns are, shape (n,)."""
    parts = [as_text(chunk, column) for column in columns]
    coded = pc.binary_join_element_wise(prefix, *parts, JOINT).dictionary_encode()
    texts = coded.dictionary.to_pylist()
    return hash_texts(texts)[np.asarray(coded.indices)]


# ---- Whether decoys are what wrong targets are


def check_decoys(matches: Matches, telling: Sequence[str]) -> tuple[Notice, ...]:
    """A warning where decoys score lower than wrong targets, given features that may be why.

    Of the best matches with low scores nearly all are wrong, so half of them should be targets, or
    more where some are right after all.
    """
    if not matches.labeled.any():
        return ()
    low = matches.score <= np.quantile(matches.score[matches.labeled], LOW)
    decoys, targets = int((low & matches.labeled).sum()), int((low & ~matches.labeled).sum())
    if decoys - targets < UNLIKELY * np.sqrt(decoys + targets):
        return ()
    because = f"; they differ in {', '.join(telling)}" if telling else ""
    leave = f" (--drop-columns {','.join(telling)} leaves them out)" if telling else ""
    return (
        Notice(
            "decoys-not-typical",
            f"the lower scores have {decoys} decoys and only {targets} targets, where nearly all "
            "are wrong and as many of both should be: decoys can be told from wrong targets, and "
            f"PEPs and q-values may be too low{because}{leave}",
        ),
    )


# ---- PEPs and q-values


@dataclass(frozen=True, eq=False)
class Confidence:
    """Matches, peptides or proteins, each with the probability of being wrong."""

    matches: Matches
    calibration: Calibration
    pep: FloatArray  # (n,): posterior error probability
    q_value: FloatArray  # (n,): the least rate of false discoveries at which it is accepted

    @classmethod
    def of(cls, matches: Matches, calibration: Calibration) -> Confidence:
        """By the calibration of their scores."""
        decoys, targets = (int(of.sum()) for of in (matches.labeled, ~matches.labeled))
        wrong = (1 - calibration.shares.alpha) * targets
        pep = 1 - posterior_between(calibration, matches.score)
        return cls(matches, calibration, pep, _q_values(matches, wrong / max(decoys, 1)))

    def accepted(self, rate: float) -> int:
        """How many targets are accepted at a rate of false discoveries."""
        return int((~self.matches.labeled & (self.q_value <= rate)).sum())

    def places(self, first_row: int, count: int) -> tuple[IntArray, IntArray]:
        """Of consecutive rows those that are here: their places among the rows, and here."""
        start, end = np.searchsorted(self.matches.row, [first_row, first_row + count])
        return self.matches.row[start:end] - first_row, np.arange(start, end)


def posterior_between(calibration: Calibration, scores: FloatArray) -> FloatArray:
    """The posterior at scores, shape (n,), read between the cells, so that few scores tie."""
    p = calibration.posterior.clip(LEAST, 1 - LEAST)
    between = np.interp(scores, calibration.sketch.scores, logit(p))
    return expit(between)


def _q_values(matches: Matches, per_decoy: float) -> FloatArray:
    """The least rate of false discoveries at which each match is accepted, shape (n,).

    Above a score there are so many wrong targets per decoy; one decoy more is counted, as the
    threshold may lie just above it. From one decoy to the next that rate is the same for all
    targets: between these steps q-values are read off the line, or hundreds would tie.
    """
    order = np.argsort(-matches.score, kind="stable")
    score, decoy = matches.score[order], matches.labeled[order]
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))  # scores that tie go together
    decoys, targets = np.cumsum(decoy)[ends], np.cumsum(~decoy)[ends]
    rate = np.minimum(per_decoy * (decoys + 1) / np.maximum(targets, 1), 1.0)
    least = np.minimum.accumulate(rate[::-1])[::-1]
    steps = np.flatnonzero(np.append(least[1:] > least[:-1], True))
    places, first = np.unique(np.append(0, targets[steps]), return_index=True)
    between = np.interp(targets, places, np.append(least[0] / 2, least[steps])[first])
    q_value = np.empty(len(order))
    q_value[order] = np.repeat(between, np.diff(ends, prepend=-1))
    return q_value


COUNTING = "target-decoy"
DRAWS = 100
TAIL = 0.025


@register(COUNTING, needs="matches")
def target_decoy(sketch: Sketch, settings: Settings) -> Estimate:
    """Target-decoy: there are as many wrong targets as decoys, of one best match per spectrum.

    A wrong match is as likely a target as a decoy. So the wrong targets, given the decoys, are as
    many, with twice the variance of a count: their own, and that of the decoys.
    """
    beta = 1.0 if settings.beta is None else settings.beta
    decoys = beta * sketch.n_labeled
    normal = NormalDist()

    def share(quantile: float) -> float:
        wrong = decoys + normal.inv_cdf(quantile) * np.sqrt(2 * decoys)
        return float(np.clip(wrong / sketch.n_unlabeled, 0, beta))

    interval: Interval = (share(TAIL), share(1 - TAIL))
    return Estimate(
        alpha=share(0.5),
        beta=beta,
        alpha_ci=interval,
        beta_ci=(beta, beta),
        alpha_ci_sampling=interval,
        draws=tuple((share((i + 0.5) / DRAWS), beta) for i in range(DRAWS)),
    )
