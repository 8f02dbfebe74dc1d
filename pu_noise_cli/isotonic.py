"""Isotonic regression: scipy's, whose import would take longer than most commands' work."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def isotonic(
    values: FloatArray, weights: NDArray[np.number]
) -> tuple[FloatArray, NDArray[np.int64]]:
    """The non-decreasing fit by weighted least squares, shape (n,), and where its blocks start.

    Pool adjacent violators, in the order of Busing (2022, algorithm 1): a block takes in all later
    values below its mean, then all earlier blocks above it.
    """
    x, w = values.tolist(), weights.astype(np.float64).tolist()
    means, masses, starts = [x[0]], [w[0]], [0]
    i = 1
    while i < len(x):
        start, mean, mass = i, x[i], w[i]
        if means[-1] >= mean:
            start = starts.pop()
            mass_before = masses.pop()
            total = mass_before * means.pop() + mass * mean
            mass += mass_before
            mean = total / mass
            while i + 1 < len(x) and mean >= x[i + 1]:
                i += 1
                total += w[i] * x[i]
                mass += w[i]
                mean = total / mass
            while means and means[-1] >= mean:
                start = starts.pop()
                mass_before = masses.pop()
                total += mass_before * means.pop()
                mass += mass_before
                mean = total / mass
        means.append(mean)
        masses.append(mass)
        starts.append(start)
        i += 1
    blocks = np.array(starts)
    return np.repeat(means, np.diff(blocks, append=len(x))), blocks
