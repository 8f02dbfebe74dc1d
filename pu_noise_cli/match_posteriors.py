"""POSTERIOR of matches: a PEP and a q-value for those that stand for their spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from .calibration import Calibration
from .matches import Confidence, posterior_between
from .posteriors import Columns, WritePosteriors
from .rows import Chunk
from .sketch import FloatArray

OF_MATCHES = ("pep", "q_value")  # null on those that are not the best of their spectrum


@dataclass(frozen=True)
class WriteMatchPosteriors(WritePosteriors):
    """Writes POSTERIOR of matches that have scores."""

    best: Confidence  # those that have PEPs and q-values

    @classmethod
    def of(cls, calibration: Calibration, columns: Columns, best: Confidence) -> WritePosteriors:
        """What writes the columns of a calibration, and those of the best matches."""
        cells, negatives = len(calibration.sketch.edges), calibration.shares.labeled_negatives
        columns = {**columns, **{name: np.full(cells, np.nan) for name in OF_MATCHES}}
        return cls(calibration.sketch, columns, negatives, best)

    def arrays(self, names: Sequence[str], chunk: Chunk, scores: FloatArray) -> list[pa.Array]:
        found = dict(zip(names, super().arrays(names, chunk, scores), strict=True))
        there, here = self.best.places(chunk.first_row, len(scores))
        mine = {"posterior": posterior_between(self.best.calibration, scores)}
        for name, values in zip(OF_MATCHES, (self.best.pep, self.best.q_value), strict=True):
            mine[name] = np.full(len(scores), np.nan)
            mine[name][there] = values[here]
        found |= {name: pa.array(values, from_pandas=True) for name, values in mine.items()}
        return list(found.values())
