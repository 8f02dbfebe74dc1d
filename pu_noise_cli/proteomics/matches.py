"""Peptide-spectrum matches: target-decoy competition, PEPs, q-values, and counting decoys.

The matches of a spectrum compete, targets with decoys, and the best one represents the spectrum.
Memory grows with the number of spectra, by some 40 bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, option
from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray, expit, hash_texts, logit
from ..posterior.calibration import Calibration, calibrate
from ..prior.base import Shares
from ..score.sketch import Sketch
from .columns import PEPTIDE, PROTEIN

HashArray = NDArray[np.uint64]
PSMS = "psms"
ROLLED_UP = {"peptides": PEPTIDE, "proteins": PROTEIN}  # levels with the keys of their matches
MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
MIN_PEP = 1e-12  # its odds must be finite
LOW = 0.5  # the fraction of decoys whose scores are called low
MAX_DEVIATION = 2.5  # standard deviations between the numbers of targets and decoys there
MAX_REVERSED = 5.0  # standard deviations by which decoys may win more spectra than targets
REVERSED = "reversed-scores"
BUFFER = 1 << 18  # matches to hold before the best are picked


@dataclass(frozen=True, eq=False)
class Matches:
    """Some matches in the order of their rows; all arrays have shape (n,)."""

    row: IntArray  # in SCORES, from 0
    score: FloatArray
    labeled: BoolArray  # decoys
    keys: Mapping[str, HashArray]  # hashes of spectra and, if known, peptides and proteins

    def best(self, key: str) -> Matches:
        """The best match for each value of a key; ties are broken at random."""
        return self.take(self.best_places(key))

    def best_places(self, key: str) -> IntArray:
        """The places of these matches, in order."""
        order = np.lexsort((_tie_breakers(self.row), -self.score, self.keys[key]))
        ordered = self.keys[key][order]
        first = np.ones(len(order), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        return np.sort(order[first])

    def take(self, places: IntArray) -> Matches:
        """The matches at some places."""
        keys = {name: values[places] for name, values in self.keys.items()}
        return Matches(self.row[places], self.score[places], self.labeled[places], keys)

    @classmethod
    def concatenate(cls, parts: Sequence[Matches]) -> Matches:
        """The matches of all parts in order."""
        return cls(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.labeled for part in parts]),
            {key: np.concatenate([part.keys[key] for part in parts]) for key in parts[0].keys},
        )

    def sketch(self) -> Sketch:
        """The sketch of their scores."""
        return Sketch.from_rows(self.score, self.labeled, "negative")


def _tie_breakers(row: IntArray) -> HashArray:
    """Pseudo-random numbers that depend on the rows only, shape (n,)."""
    number = row.astype(np.uint64) * MIXERS[0]
    for mixer in MIXERS:
        number = (number ^ (number >> np.uint64(29))) * mixer
    return number ^ (number >> np.uint64(32))


def check_kinds(kinds: Mapping[str, set[bool]]) -> None:
    """Raise an input error if one of several runs has decoys only, given the kinds in each."""
    if len(kinds) > 1 and (alone := [run for run, kind in kinds.items() if kind == {True}]):
        raise InputError(
            f"{alone[0]}: has decoys only, and their targets are in no file of a matching name; "
            "name the two files of a run alike but for the words target and decoy, as in "
            "a.target.pin and a.decoy.pin"
        )


def hash_keys(texts: pa.Array) -> HashArray:
    """A number for each key, shape (n,)."""
    coded = texts.dictionary_encode()
    return hash_texts(coded.dictionary.to_pylist())[np.asarray(coded.indices)]


# ---- Whether decoys score as wrong targets do


def check_decoys(matches: Matches, discriminating: Sequence[str]) -> tuple[Notice, ...]:
    """A warning if decoys score lower than wrong targets; some features may explain it.

    Nearly all of the best matches with low scores are wrong, so at least half of them should be
    targets. Where decoys win most spectra, the score itself is reversed.
    """
    if not matches.labeled.any():
        return ()
    wins, losses = int(matches.labeled.sum()), int((~matches.labeled).sum())
    if wins - losses > MAX_REVERSED * np.sqrt(wins + losses):
        message = (
            f"decoys have the best match of {wins} of {wins + losses} spectra, where chance allows "
            f"one half: do low scores mean a correct match ({option('lower_is_positive')}), or has "
            "the database more decoys than targets?"
        )
        return (Notice(REVERSED, message),)
    low = matches.score <= np.quantile(matches.score[matches.labeled], LOW)
    decoys, targets = int((low & matches.labeled).sum()), int((low & ~matches.labeled).sum())
    if decoys - targets < MAX_DEVIATION * np.sqrt(decoys + targets):
        return ()
    remedy = ""
    if discriminating:
        remedy = (
            f"; they differ in {', '.join(discriminating)} "
            f"({option('drop_columns')} {','.join(discriminating)} leaves them out)"
        )
    return (
        Notice(
            "decoys-not-typical",
            f"the lower scores have {decoys} decoys and only {targets} targets, where nearly all "
            "matches are wrong and both should be equally many: decoys differ from wrong targets, "
            f"and PEPs and q-values may be too low{remedy}",
        ),
    )


# ---- PEPs and q-values


@dataclass(frozen=True, eq=False)
class Confidence:
    """Matches, peptides or proteins, each with the probability of being wrong."""

    matches: Matches
    calibration: Calibration
    pep: FloatArray  # (n,): posterior error probability
    q_value: FloatArray  # (n,): lowest FDR at which a match is accepted

    @classmethod
    def from_calibration(cls, matches: Matches, calibration: Calibration) -> Confidence:
        """PEPs by the calibration of all scores, and q-values by its alpha."""
        decoys, targets = int(matches.labeled.sum()), int((~matches.labeled).sum())
        wrong = (1 - calibration.shares.alpha) * targets
        pep = 1 - interpolated_posterior(calibration, matches.score)
        return cls(matches, calibration, pep, q_values(matches, wrong / max(decoys, 1)))

    def accepted(self, fdr: float) -> int:
        """The number of targets accepted at a false discovery rate."""
        return int((~self.matches.labeled & (self.q_value <= fdr)).sum())

    def locate(self, first_row: int, count: int) -> tuple[IntArray, IntArray]:
        """The places of matches among consecutive rows, and the indices of these matches."""
        start, end = np.searchsorted(self.matches.row, [first_row, first_row + count])
        return self.matches.row[start:end] - first_row, np.arange(start, end)


def interpolated_posterior(calibration: Calibration, scores: FloatArray) -> FloatArray:
    """The posterior at scores, shape (n,), interpolated between cells so that few of them tie."""
    p = calibration.posterior.clip(MIN_PEP, 1 - MIN_PEP)
    return expit(np.interp(scores, calibration.sketch.scores, logit(p)))


def q_values(matches: Matches, wrong_per_decoy: float) -> FloatArray:
    """The lowest false discovery rate at which each match is accepted, shape (n,).

    One decoy more than there are above a score is counted, as the threshold may lie just above it.
    The rate is the same for all targets between two decoys: q-values are interpolated between
    these steps, or hundreds would tie.

    Parameters
    ----------
    wrong_per_decoy
        The number of wrong targets for each decoy.
    """
    order = np.argsort(-matches.score, kind="stable")
    score, decoy = matches.score[order], matches.labeled[order]
    ends = np.flatnonzero(np.append(score[1:] != score[:-1], True))  # tied scores share a rate
    decoys, targets = np.cumsum(decoy)[ends], np.cumsum(~decoy)[ends]
    rate = np.minimum(wrong_per_decoy * (decoys + 1) / np.maximum(targets, 1), 1.0)
    lowest = np.minimum.accumulate(rate[::-1])[::-1]
    steps = np.flatnonzero(np.append(lowest[1:] > lowest[:-1], True))
    places, first = np.unique(np.append(0, targets[steps]), return_index=True)
    between = np.interp(targets, places, np.append(lowest[0] / 2, lowest[steps])[first])
    q_value = np.empty(len(order))
    q_value[order] = np.repeat(between, np.diff(ends, prepend=-1))
    return q_value


# ---- Counting decoys


def count_decoys(level: str, best: Matches) -> Confidence:
    """PEPs and q-values of the best matches of a level: as many targets are wrong as decoys won.

    A wrong match is as likely a target as a decoy. The number of decoys near a score says how many
    targets are wrong there, whatever their fraction of all is: PEPs are not scaled, and average to
    it only as nearly as a smooth curve can.
    """
    if len(np.unique(best.labeled)) == 1:
        kind = "decoy" if best.labeled[0] else "target"
        remedy = "are the decoys in the table?"
        if level in ROLLED_UP:
            column = option(f"{ROLLED_UP[level]}_column")
            remedy = f"do decoys have {level} with names of their own in {column}?"
        raise InputError(
            f"{level}: the best match of each is a {kind}, so wrong ones cannot be counted; "
            f"{remedy}"
        )
    sketch = best.sketch()
    wrong = min(sketch.n_labeled / sketch.n_unlabeled, 1.0)
    shares = Shares(1 - wrong, beta=0.0, from_these_rows=False)  # no decoy is correct
    return Confidence.from_calibration(best, calibrate(sketch, shares, smooth=True))
