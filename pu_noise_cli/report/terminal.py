"""Small histograms in text, for a summary on a terminal."""

from __future__ import annotations

import numpy as np

from ..numerics import FloatArray
from ..score.sketch import Sketch
from .content import score_bins

BLOCKS, PLAIN_BLOCKS = " ▁▂▃▄▅▆▇█", " .:-=+*#@"  # the plain ones are for terminals without UTF-8
WIDTH = 60


def histogram_lines(sketch: Sketch, blocks: str = BLOCKS, width: int = WIDTH) -> list[str]:
    """The scores of the samples as blocks, each to its own height, over one axis."""
    bins = score_bins(sketch, width)
    low, high = f"{bins.edges[0]:.3g}", f"{bins.edges[-1]:.3g}"
    axis = low + "score".center(width - len(low) - len(high)) + high
    samples = {"unlabeled": bins.unlabeled, "labeled": bins.labeled, "negatives": bins.negative}
    lines = [f"{name:<11}{_drawn(rows, blocks)}" for name, rows in samples.items() if rows.any()]
    return [*lines, f"{'':<11}{axis}"]


def _drawn(counts: FloatArray, blocks: str) -> str:
    """A block for each bin; a bin that has any row is never blank."""
    heights = np.ceil(counts / max(counts.max(), 1e-300) * (len(blocks) - 1)).astype(int)
    return "".join(blocks[height] for height in heights)
