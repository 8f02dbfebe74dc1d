"""Peptide-spectrum matches: target-decoy competition, PEPs, q-values, and counting decoys.

The matches of a spectrum compete, targets with decoys, and the best one represents the spectrum.
Memory grows with the number of spectra, by some 40 bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import InputError, UsageError, option
from ..notices import Notice
from ..numerics import BoolArray, FloatArray, IntArray, expit, hash_texts, logit
from ..pipeline import Inputs
from ..posterior.calibration import Calibration
from ..prior.base import Estimate, Interval, Settings, register
from ..prior.document import Prior
from ..score.scores import Scored
from ..score.sketch import Sketch
from ..tables.reading import Table
from ..tables.rows import FILE, Chunk, Rows

HashArray = NDArray[np.uint64]
SPECTRUM = "spectrum"
PSMS = "psms"
ROLLED_UP = {"peptides": "peptide", "proteins": "protein"}  # levels with the keys of their matches
MIXERS = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
MIN_PEP = 1e-12  # its odds must be finite
LOW = 0.5  # the fraction of decoys whose scores are called low
MAX_DEVIATION = 2.5  # standard deviations between the numbers of targets and decoys there
MAX_REVERSED = 5.0  # standard deviations by which decoys may win more spectra than targets
REVERSED = "reversed-scores"
BUFFER = 1 << 18  # matches to hold before the best are picked


def match_keys(stated: Inputs, tables: Sequence[Table]) -> dict[str, tuple[str, ...]]:
    """The keys of matches for Rows.from_tables: decoys compete with the rows of their spectrum."""
    rolled_up = {"peptide": stated.peptide_column, "protein": stated.protein_column}
    if not stated.spectrum_columns:
        if any(rolled_up.values()):
            names = f"{option('peptide_column')} and {option('protein_column')}"
            raise UsageError(f"{names} need {option('spectrum_columns')} or a .pin file")
        return {}
    if stated.labeled_are != "negatives":
        needed = option("labeled_are", "negatives")
        raise UsageError(f"{option('spectrum_columns')} is for decoys: it needs {needed}")
    several = any(len(table.shards) > 1 for table in tables)
    if len(tables) > 1 and several:
        raise UsageError(
            "scan numbers are unique within a file only, so targets and decoys of a spectrum must "
            f"be in one file: give the files as {option('table')}"
        )
    spectrum = (*((FILE,) if several else ()), *stated.spectrum_columns)
    keys = {name: (column,) for name, column in rolled_up.items() if column is not None}
    return {SPECTRUM: spectrum, **keys}


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


@dataclass(frozen=True)
class ScoredMatches(Scored):
    """Scored rows by the best match of each spectrum; the sketch is of these."""

    rows: int = 0  # all of them, best or not

    @classmethod
    def merge(cls, parts: Sequence[Scored]) -> ScoredMatches:
        matches, rows, missing = [], 0, 0
        for part in parts:
            assert isinstance(part, ScoredMatches)
            matches.append(replace(part.best, row=part.best.row + rows))
            rows, missing = rows + part.rows, missing + part.sketch.missing
        best = Matches.concatenate(matches).best(SPECTRUM)
        return cls(replace(best.sketch(), missing=missing), best, rows)


class MatchTally:
    """Keeps the best match of each spectrum."""

    def __init__(self, rows: Rows) -> None:
        self._run_name, self._kinds = rows.file_key, dict[str, set[bool]]()
        self._rows = self._missing = 0
        self._parts: list[Matches] = []
        self._size = BUFFER

    def add(self, chunk: Chunk, scores: FloatArray, keys: Mapping[str, pa.Array]) -> None:
        """Add rows with their scores and keys, all of shape (n,)."""
        kinds = self._kinds.setdefault(self._run_name(chunk.file), set())
        kinds.update(kind for kind in (True, False) if (chunk.labeled == kind).any())
        row = np.arange(self._rows, self._rows + len(scores))
        hashes = {name: hash_keys(texts) for name, texts in keys.items()}
        known = np.flatnonzero(~np.isnan(scores))
        self._parts.append(Matches(row, scores, chunk.labeled, hashes).take(known))
        self._rows += len(scores)
        self._missing += len(scores) - len(known)
        if sum(len(part.row) for part in self._parts) > self._size:
            self._size = max(self._size, 2 * len(self._best().row))

    def _best(self) -> Matches:
        self._parts = [Matches.concatenate(self._parts).best(SPECTRUM)]
        return self._parts[0]

    def result(self) -> ScoredMatches:
        """The best match of each spectrum so far."""
        check_kinds(self._kinds)
        best = self._best()
        return ScoredMatches(replace(best.sketch(), missing=self._missing), best, self._rows)


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


def without_consequences(prior: Prior) -> Prior:
    """The prior of matches; of a reversed score only that is said, and not what follows from it."""
    reversed_score = tuple(notice for notice in prior.notices if notice.code == REVERSED)
    return msgspec.structs.replace(prior, notices=reversed_score) if reversed_score else prior


def check_method(method: str) -> tuple[Notice, ...]:
    """A warning of methods that do not count decoys."""
    if method == COUNTING:
        return ()
    message = (
        f"{option('method', method)} estimates the share of correct matches from their scores: "
        "it does not count decoys, and PEPs and q-values can be several times too low or too high"
    )
    return (Notice("decoys-not-counted", message),)


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

COUNTING = "target-decoy"
DRAWS = 100
TAIL = 0.025


@register(COUNTING, needs="best scores")
def target_decoy(sketch: Sketch, settings: Settings) -> Estimate:
    """Target-decoy: there are as many wrong targets as decoys among the best matches of spectra.

    A wrong match is as likely a target as a decoy. So the expected number of wrong targets is that
    of the decoys, with twice the variance of a count: their own, and that of the decoys.
    """
    beta = 1.0 if settings.beta is None else settings.beta
    decoys = beta * sketch.n_labeled
    normal = NormalDist()

    def fraction(quantile: float) -> float:
        wrong = decoys + normal.inv_cdf(quantile) * np.sqrt(2 * decoys)
        return float(np.clip(wrong / sketch.n_unlabeled, 0, beta))

    interval: Interval = (fraction(TAIL), fraction(1 - TAIL))
    return Estimate(
        alpha=fraction(0.5),
        beta=beta,
        alpha_ci=interval,
        beta_ci=(beta, beta),
        alpha_ci_sampling=interval,
        draws=tuple((fraction((i + 0.5) / DRAWS), beta) for i in range(DRAWS)),
    )
