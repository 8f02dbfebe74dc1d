"""The paper's third table: its estimators on the principal components of the features."""

from __future__ import annotations

import numpy as np

from ..numerics import FloatArray, IntArray
from ..score.training import RowSample, Trained
from ..tables.rows import Rows
from .alphamax import both_ways, count, robust_elbow
from .base import Estimate, Samples, Settings, register
from .msgmm import fit, make_data

MAX_COMPONENTS = 3


@register("alphamax-nm", needs="features")
def alphamax_nm(samples: Samples, settings: Settings) -> Estimate:
    """AlphaMax-N on the features: histograms of their first three principal components."""
    x, labeled = principal_components(samples)
    unlabeled = 1 - labeled
    return both_ways(
        count(_cells(x, labeled), unlabeled, labeled),
        count(_cells(x, unlabeled), labeled, unlabeled),
        settings,
        robust_elbow,
    )


@register("msgmm-pca", needs="features")
def msgmm_pca(samples: Samples, settings: Settings) -> Estimate:
    """MSGMM on the features: Gaussians over their first three principal components."""
    x, labeled = principal_components(samples)
    return fit(make_data(x, 1 - labeled, labeled), settings)


def principal_components(samples: Samples) -> tuple[FloatArray, IntArray]:
    """The top components of all jointly standardized rows, and which rows are labeled.

    Returns
    -------
    x : shape (n, d), d at most MAX_COMPONENTS
    labeled : shape (n,)
        1 for a labeled row, else 0.
    """
    x = np.concatenate([samples.labeled, samples.unlabeled]).astype(np.float64)
    labeled = np.repeat([1, 0], [len(samples.labeled), len(samples.unlabeled)])
    x /= np.maximum(np.abs(x).max(0), 1e-300)  # so that squares neither overflow nor vanish
    x -= x.mean(0)
    scale = x.std(0)
    x /= np.where(scale > 1e-12, scale, 1.0)
    _, vectors = np.linalg.eigh(x.T @ x)
    top = vectors[:, ::-1][:, :MAX_COMPONENTS]
    largest = np.take_along_axis(top, np.abs(top).argmax(0)[None], axis=0)
    return x @ (top * np.sign(largest)), labeled  # the same one of the two signs each time


def _cells(x: FloatArray, component: IntArray) -> IntArray:
    """The bin of each row, shape (n,): the paper's width by dimension, 3.5 σ |C|^(-1/(2+d))."""
    sigma = x[component > 0].std(0)
    width = 3.5 * sigma * component.sum() ** (-1 / (2 + x.shape[1]))
    cell = np.floor(x / np.where(width > 1e-9, width, 1.0))
    return np.unique(cell, axis=0, return_inverse=True)[1].ravel()


def feature_samples(rows: Rows, trained: Trained, seed: int) -> Samples:
    """The feature tables as numbers, gaps at their column's mean; samples of large ones."""
    size = trained.sample_size // 2
    samples = [RowSample(size, seed) for _ in range(2)]
    for chunk in rows.chunks(rows.features):
        for sample, chosen in zip(samples, (chunk.labeled, chunk.unlabeled), strict=True):
            sample.add(chunk, chosen)
    matrices = []
    for sample in samples:
        sample.cut(size)
        parts = [trained.model.encoding.encode(chunk) for chunk in sample.chunks]
        matrices.append(np.concatenate(parts))
    known = [~np.isnan(matrix) for matrix in matrices]
    total = sum(np.where(k, m, 0).sum(0) for k, m in zip(known, matrices, strict=True))
    mean = total / np.maximum(sum(k.sum(0) for k in known), 1)
    labeled, unlabeled = (np.where(k, m, mean) for k, m in zip(known, matrices, strict=True))
    return Samples(labeled, unlabeled)
