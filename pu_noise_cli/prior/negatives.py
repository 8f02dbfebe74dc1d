"""What known negatives add: U = κ L + (1-κ) N is a mixture of two samples that are both seen.

With L ~ β f1 + (1-β) f0, U ~ α f1 + (1-α) f0 and N ~ f0, the share κ of L in U is α/β, whatever the
overlap of the classes. Its likelihood multiplies the belief, in which β is what it was for each κ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..notices import Notice
from ..numerics import FloatArray, IntArray, bin_starts, mid_ranks
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED

BINS = 14  # over which the samples are compared; 8 to 40 give the same within a tenth
STEPS = 200  # of expectation maximisation
COARSE = np.concatenate([[0.0], np.geomspace(0.002, 0.05, 12), np.linspace(0.06, 1, 48)])
FINE = 60  # steps of κ where it is likely
NEGLIGIBLE = 15.0  # a log-likelihood that much below the highest is as good as none
FLOOR = 1e-9  # of a likelihood, lest the rest of the belief is ruled out altogether
TINY = 1e-300
UNLIKELY = 1.75  # standard deviations of a misfit that fair negatives exceed 4 times in 100


@dataclass(frozen=True, eq=False)
class Mixture:
    """The unlabeled rows as a mixture of labeled rows and known negatives."""

    scores: FloatArray  # (bins + 1,): the ends of the bins
    counts: FloatArray  # (bins, 3): rows of each set
    kappa: FloatArray  # (kappas,), increasing
    likelihood: FloatArray  # (kappas,): of each κ, the rest at its likeliest; at most 1
    expected: FloatArray  # (bins, 3): the shares of each set, at the likeliest κ

    @classmethod
    def of(cls, sketch: Sketch) -> Mixture:
        """The mixture of a sketch that has rows of each set."""
        starts = _bins(sketch)
        counts = np.add.reduceat(sketch.counts, starts).astype(np.float64)
        kappa = _likely(_fits(counts, COARSE)[1])
        shares, log_likelihood = _fits(counts, kappa)
        best = int(log_likelihood.argmax())
        expected = np.column_stack([share[best] for share in shares])
        ends = np.append(sketch.scores[starts], sketch.scores[-1])
        return cls(ends, counts, kappa, np.exp(log_likelihood - log_likelihood[best]), expected)

    def weight(self, alpha_edges: FloatArray, beta: FloatArray) -> FloatArray:
        """The mean likelihood over each cell of α, shape (k, m), for k + 1 edges and m values of β.

        The mean, as the likelihood of many rows may be sharper than the cells.
        """
        kappa = np.minimum(alpha_edges[:, None] / np.maximum(beta, TINY), 1.0)
        steps = np.diff(self.kappa) * (self.likelihood[1:] + self.likelihood[:-1]) / 2
        up_to = np.append(0.0, np.cumsum(steps))
        mass = np.diff(np.interp(kappa, self.kappa, up_to), axis=0)
        return np.asarray(mass / np.maximum(np.diff(kappa, axis=0), 1e-12) + FLOOR)

    def notices(self) -> tuple[Notice, ...]:
        """The warning that the unlabeled rows are no such mixture, where they are not."""
        sizes = self.counts.sum(0)
        expected = self.expected * sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = self.counts * np.log(self.counts / np.maximum(expected, TINY))
        deviance = max(2 * float(np.nansum(terms)), 0.0)  # rounding may leave less
        freedom = len(self.counts) - 2
        if freedom < 1 or _normal(deviance, freedom) <= UNLIKELY:
            return ()
        # of any set: the fit gives way where a set is small, and then departs from that one
        strain = np.abs(self.counts - expected) / np.sqrt(np.maximum(expected, 1.0))
        worst, code = np.unravel_index(strain.argmax(), strain.shape)
        seen, due = self.counts[worst, code], expected[worst, code]
        low, high = self.scores[worst], self.scores[worst + 1]
        return (
            Notice(
                "negatives-not-typical",
                "the unlabeled rows are no mixture of labeled rows and known negatives (misfit "
                f"{deviance:.0f}, {freedom} expected): between scores {low:.4g} and {high:.4g} "
                f"there are {seen:.0f} {SETS[code]} rows, {'more' if seen > due else 'fewer'} "
                f"than the {due:.0f} expected",
            ),
        )


def _bins(sketch: Sketch) -> IntArray:
    """The first cell of each bin; bins hold as much of the three samples, equally weighted."""
    share = (sketch.counts / sketch.counts.sum(0)).sum(1) / len(SETS)
    return bin_starts(mid_ranks(share) * BINS)


def _likely(log_likelihood: FloatArray) -> FloatArray:
    """Even steps of κ over the part of COARSE that the log-likelihood there does not rule out."""
    likely = np.flatnonzero(log_likelihood > log_likelihood.max() - NEGLIGIBLE)
    low, high = max(likely[0] - 1, 0), min(likely[-1] + 1, len(COARSE) - 1)
    return np.linspace(COARSE[low], COARSE[high], FINE)


def _fits(counts: FloatArray, kappa: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """The likeliest shares of each set in the bins, shapes (kappas, bins), and their likelihood.

    Each unlabeled row is like a labeled one or like a negative; expectation maximisation finds
    which. The log-likelihood has shape (kappas,).
    """
    k, unlabeled = kappa[:, None], counts[:, UNLABELED]
    labeled, negative = counts[:, LABELED], counts[:, NEGATIVE]
    l_share = np.tile((labeled + 0.1) / (labeled + 0.1).sum(), (len(k), 1))
    n_share = np.tile((negative + 0.1) / (negative + 0.1).sum(), (len(k), 1))
    for _ in range(STEPS):
        like_labeled = k * l_share
        of_labeled = unlabeled * like_labeled / (like_labeled + (1 - k) * n_share + TINY)
        l_share = labeled + of_labeled
        n_share = negative + unlabeled - of_labeled
        l_share /= l_share.sum(1, keepdims=True)
        n_share /= n_share.sum(1, keepdims=True)
    shares = [k * l_share + (1 - k) * n_share, l_share, n_share]
    logs = [c * np.log(np.maximum(s, TINY)) for c, s in zip(counts.T, shares, strict=True)]
    return shares, np.asarray(np.sum(logs, axis=(0, 2)))


def _normal(chi_square: float, freedom: int) -> float:
    """A value of a chi-square distribution in standard deviations (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return float(((chi_square / freedom) ** (1 / 3) - (1 - spread)) / np.sqrt(spread))
