"""Groups of matches: q-values within each, and PEPs that lean on all matches where decoys are few.

The odds of a match being right differ between groups: by a factor, because the share of correct
matches differs, and by a slope and a curvature, because their scores do. The three are normal with
unknown variances over the groups, which the counts of all groups determine: a group of 50 matches
keeps the PEPs of the whole, a group of 50,000 has its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, option
from ..numerics import FloatArray, IntArray, expit, logit, relative_mid_ranks
from ..posterior.groups import group_names
from ..tables.rows import Chunk, as_text
from .columns import MatchRows
from .matches import MIN_PEP, Confidence, Matches, q_values

CHARGE = re.compile(r"(?i)charge_?(\d+)")  # columns that are 1 for matches of one charge
MODIFICATION = r"[\[({]"  # in a peptide
MIN_SHARED = 10  # matches of a group on average: with fewer the column is likely an id
BINS = 200  # of scores
TERMS = 3  # of a group: factor, slope, curvature
SPREADS = (0.02, 0.1, 0.3, 1.0)  # standard deviations over groups, of each term
STEPS = 25


# ---- Which group a match is in


@dataclass(frozen=True)
class Grouping:
    """The groups that a column names; `charge` and `modified` are found without one."""

    by: str
    columns: tuple[str, ...]  # to be read
    peptide: str | None = None  # the column of peptides, if these tell

    @classmethod
    def from_rows(cls, matches: MatchRows, by: str) -> Grouping:
        """The grouping by a column, by columns of charges, or by modifications of peptides."""
        (table,) = matches.rows.tables
        if by in table.column_set:
            return cls(by, (by,))
        charges = tuple(column for column in table.columns if CHARGE.fullmatch(column))
        if by.lower() == "charge" and charges:
            return cls(by, charges)
        if by.lower() == "modified" and matches.peptide is not None:
            return cls(by, (), matches.peptide)
        table.require(by, option("by"))
        raise AssertionError  # the table has not got it

    def names(self, chunk: Chunk) -> pa.Array:
        """The group of each row as text, '' where it has none."""
        if self.peptide is not None:
            found = pc.match_substring_regex(as_text(chunk, self.peptide), MODIFICATION)
            return pc.if_else(found, "modified", "unmodified")
        if self.columns == (self.by,):
            return group_names(chunk, self.by)
        charge = np.zeros(chunk.batch.num_rows, np.int64)
        for column in self.columns:
            found = CHARGE.fullmatch(column)
            assert found is not None
            is_set = pc.cast(chunk.batch[column], pa.float64()).to_numpy(zero_copy_only=False) > 0
            charge[is_set] = int(found[1])
        return pc.cast(pa.array(charge), pa.string())


def check_groups(groups: int, matches: int, by: str) -> None:
    """Raise an input error if hardly any matches share a group."""
    if matches < MIN_SHARED * groups:
        raise InputError(
            f"column {by!r} has {groups:,} different values in {matches:,} matches; "
            f"{option('by')} needs a column whose values many matches share"
        )


# ---- PEPs and q-values within groups


def within_groups(level: Confidence, group: IntArray, groups: int) -> Confidence:
    """The confidence with PEPs and q-values within groups, whose indices have shape (n,)."""
    q_value = q_values_within(level.matches, group)
    return replace(level, pep=_peps(level, group, groups), q_value=q_value)


def q_values_within(matches: Matches, part: IntArray) -> FloatArray:
    """q-values within parts, by the index of each match's part, shape (n,)."""
    order = np.argsort(part, kind="stable")
    q_value = np.empty(len(order))
    for places in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        q_value[places] = q_values(matches.take(places), 1.0)
    return q_value


def _peps(level: Confidence, group: IntArray, groups: int) -> FloatArray:
    """PEPs within groups, shape (n,): those of all matches with other odds."""
    from scipy.special import ndtri

    score, decoy = level.matches.score, level.matches.labeled
    order = np.argsort(score, kind="stable")
    n = len(order)
    bin_of = np.empty(n, np.int64)
    bin_of[order] = np.arange(n) * BINS // n
    cell = (group * BINS + bin_of) * 2 + decoy
    counts = np.bincount(cell, minlength=groups * BINS * 2).reshape(groups, BINS, 2)
    base = logit(level.pep.clip(MIN_PEP, 1 - MIN_PEP))
    mean_base = np.bincount(bin_of, base, BINS) / np.bincount(bin_of, minlength=BINS).clip(1)
    rank = np.empty(n)
    rank[order] = relative_mid_ranks(np.ones(n))
    position = ndtri(rank)
    terms = _terms(
        np.bincount(bin_of, position, BINS) / np.bincount(bin_of, minlength=BINS).clip(1)
    )
    theta = _fit(counts, mean_base, terms)
    pep = expit(base + (_terms(position) * theta[group]).sum(1))
    for number in range(groups):  # no lower score has a lower PEP
        mine = order[group[order] == number]
        pep[mine] = np.minimum.accumulate(pep[mine])
    return pep


def _terms(position: FloatArray) -> FloatArray:
    """1, the position of a score on the normal scale, and its square; shape (n, TERMS)."""
    return np.stack([np.ones(len(position)), position, (position**2 - 1) / 2], axis=1)


def _fit(counts: IntArray, base: FloatArray, terms: FloatArray) -> FloatArray:
    """The coefficients of each group's log-odds, shape (groups, TERMS).

    The spread of each term over groups is the one under which the counts, shape (groups, bins, 2),
    are likeliest by Laplace's approximation.
    """
    best, highest = np.zeros((len(counts), TERMS)), -np.inf
    for spreads in product(SPREADS, SPREADS, SPREADS[:-1]):
        theta, evidence = _newton(counts, base, terms, 1 / np.square(spreads))
        if evidence > highest:
            best, highest = theta, evidence
    return best


def _newton(
    counts: IntArray, base: FloatArray, terms: FloatArray, precision: FloatArray
) -> tuple[FloatArray, float]:
    """The likeliest coefficients under a normal prior, and the evidence of the prior.

    There is a decoy for each wrong target: where PEP is p, decoys are p / (1 + p) of all matches.
    """
    targets, decoys = counts[:, :, 0], counts[:, :, 1]
    total = targets + decoys
    theta = np.zeros((len(counts), TERMS))
    for _ in range(STEPS):
        pep = expit(base + theta @ terms.T)
        decoy = (pep / (1 + pep)).clip(1e-12)
        slope = pep * (1 - pep) / (1 + pep) ** 2  # of the fraction of decoys by the logit
        weight = slope / (decoy * (1 - decoy))
        gradient = ((decoys - total * decoy) * weight) @ terms - precision * theta
        information = np.einsum("gb,bi,bj->gij", total * slope * weight, terms, terms)
        information += np.diag(precision)
        step = np.linalg.solve(information, gradient[:, :, None])[:, :, 0].clip(-1, 1)
        theta = theta + step
        if np.abs(step).max() < 1e-6:
            break
    likelihood = (decoys * np.log(decoy) + targets * np.log1p(-decoy)).sum(1)
    prior = (0.5 * np.log(precision) - 0.5 * precision * theta**2).sum(1)
    evidence = likelihood + prior - 0.5 * np.linalg.slogdet(information)[1]
    return theta, float(evidence.sum())
