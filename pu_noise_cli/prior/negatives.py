"""What known negatives add: U = κ L + (1-κ) N is a mixture of two observed samples.

With L ~ β f1 + (1-β) f0, U ~ α f1 + (1-α) f0 and N ~ f0, the fraction κ of L in U is α/β, however
much the classes overlap. Its likelihood multiplies the belief.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..notices import Notice
from ..numerics import FloatArray, IntArray, bin_starts, mid_ranks
from ..score.sketch import Sketch
from ..tables.rows import LABELED, NEGATIVE, SETS, UNLABELED

BINS = 14  # over which the samples are compared; 8 to 40 give the same within a tenth
STEPS = 200  # of expectation maximization
COARSE = np.concatenate([[0.0], np.geomspace(0.002, 0.05, 12), np.linspace(0.06, 1, 48)])
FINE = 60  # values of κ where it is likely
NEGLIGIBLE = 15.0  # a log-likelihood this far below the highest is negligible
FLOOR = 1e-9  # of a likelihood, so that nothing is ruled out altogether
TINY = 1e-300
UNLIKELY = 1.75  # standard deviations of misfit, exceeded by 4% of representative negatives


@dataclass(frozen=True, eq=False)
class Mixture:
    """The unlabeled rows as a mixture of labeled rows and known negatives."""

    scores: FloatArray  # (bins + 1,): the ends of the bins
    counts: FloatArray  # (bins, 3): rows of each set
    kappa: FloatArray  # (kappas,), increasing
    likelihood: FloatArray  # (kappas,): profile likelihood of κ, at most 1
    expected: FloatArray  # (bins, 3): the distribution of each set at the likeliest κ

    @classmethod
    def from_sketch(cls, sketch: Sketch) -> Mixture:
        """The mixture of a sketch with rows of each set."""
        starts = _bins(sketch)
        counts = np.add.reduceat(sketch.counts, starts).astype(np.float64)
        kappa = _likely(_fits(counts, COARSE)[1])
        fractions, log_likelihood = _fits(counts, kappa)
        best = int(log_likelihood.argmax())
        expected = np.column_stack([fraction[best] for fraction in fractions])
        ends = np.append(sketch.scores[starts], sketch.scores[-1])
        return cls(ends, counts, kappa, np.exp(log_likelihood - log_likelihood[best]), expected)

    def weight(self, alpha_edges: FloatArray, beta: FloatArray) -> FloatArray:
        """The mean likelihood over each cell of α, shape (k, m), for k + 1 edges and m values of β.

        With many rows, the likelihood may be narrower than a cell.
        """
        kappa = np.minimum(alpha_edges[:, None] / np.maximum(beta, TINY), 1.0)
        steps = np.diff(self.kappa) * (self.likelihood[1:] + self.likelihood[:-1]) / 2
        up_to = np.append(0.0, np.cumsum(steps))
        mass = np.diff(np.interp(kappa, self.kappa, up_to), axis=0)
        return np.asarray(mass / np.maximum(np.diff(kappa, axis=0), 1e-12) + FLOOR)

    def notices(self) -> tuple[Notice, ...]:
        """The warning that the unlabeled rows are not such a mixture, if it is due."""
        sizes = self.counts.sum(0)
        expected = self.expected * sizes
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = self.counts * np.log(self.counts / np.maximum(expected, TINY))
        deviance = max(2 * float(np.nansum(terms)), 0.0)  # rounding may leave less
        freedom = len(self.counts) - 2
        if freedom < 1 or _normal(deviance, freedom) <= UNLIKELY:
            return ()
        # in any set: the fit gives way in a small set, and then departs from it
        strain = np.abs(self.counts - expected) / np.sqrt(np.maximum(expected, 1.0))
        worst, code = np.unravel_index(strain.argmax(), strain.shape)
        seen, due = self.counts[worst, code], expected[worst, code]
        low, high = self.scores[worst], self.scores[worst + 1]
        return (
            Notice(
                "negatives-not-typical",
                "the unlabeled rows are not a mixture of labeled rows and known negatives (misfit "
                f"{deviance:.0f}, {freedom} expected): between scores {low:.4g} and {high:.4g} "
                f"there are {seen:.0f} {SETS[code]} rows, {'more' if seen > due else 'fewer'} "
                f"than the {due:.0f} expected",
            ),
        )


def _bins(sketch: Sketch) -> IntArray:
    """The first cell of each bin; bins have equal parts of the three samples together."""
    fraction = (sketch.counts / sketch.counts.sum(0)).sum(1) / len(SETS)
    return bin_starts(mid_ranks(fraction) * BINS)


def _likely(log_likelihood: FloatArray) -> FloatArray:
    """Evenly spaced κ over the part of COARSE that the log-likelihood does not rule out."""
    likely = np.flatnonzero(log_likelihood > log_likelihood.max() - NEGLIGIBLE)
    low, high = max(likely[0] - 1, 0), min(likely[-1] + 1, len(COARSE) - 1)
    return np.linspace(COARSE[low], COARSE[high], FINE)


def _fits(counts: FloatArray, kappa: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Fit the distributions of the sets over the bins at each κ, by expectation maximization.

    Each unlabeled row comes from the distribution of labeled rows or from that of negatives.

    Returns
    -------
    fractions : three arrays of shape (kappas, bins)
        For unlabeled, labeled and negative rows.
    log_likelihood : shape (kappas,)
    """
    k, unlabeled = kappa[:, None], counts[:, UNLABELED]
    labeled, negative = counts[:, LABELED], counts[:, NEGATIVE]
    l_fraction = np.tile((labeled + 0.1) / (labeled + 0.1).sum(), (len(k), 1))
    n_fraction = np.tile((negative + 0.1) / (negative + 0.1).sum(), (len(k), 1))
    for _ in range(STEPS):
        like_labeled = k * l_fraction
        from_labeled = unlabeled * like_labeled / (like_labeled + (1 - k) * n_fraction + TINY)
        l_fraction = labeled + from_labeled
        n_fraction = negative + unlabeled - from_labeled
        l_fraction /= l_fraction.sum(1, keepdims=True)
        n_fraction /= n_fraction.sum(1, keepdims=True)
    fractions = [k * l_fraction + (1 - k) * n_fraction, l_fraction, n_fraction]
    logs = [c * np.log(np.maximum(s, TINY)) for c, s in zip(counts.T, fractions, strict=True)]
    return fractions, np.asarray(np.sum(logs, axis=(0, 2)))


def _normal(chi_square: float, freedom: int) -> float:
    """A value of a chi-square distribution in standard deviations (Wilson and Hilferty)."""
    spread = 2 / (9 * freedom)
    return float(((chi_square / freedom) ** (1 / 3) - (1 - spread)) / np.sqrt(spread))
