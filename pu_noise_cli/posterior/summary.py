"""The numbers of a result that people quote; the terminal, the report and JSON render them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..notices import Notice
from ..prior.document import Prior
from .calibration import Calibration, corrected_auc

POSTERIOR_LEVELS = (0.5, 0.9, 0.99)
FDR_LEVELS = (0.01, 0.05, 0.1, 0.2)
LIKELY = 0.5  # the posterior from which a row is rather positive than not


@dataclass(frozen=True)
class Call:
    """The rows from a score up at which a posterior or a false discovery rate is reached."""

    level: float
    unlabeled: int
    labeled: int
    negative: int
    positive_fraction: float | None  # expected among such unlabeled rows; None without rows
    lowest_score: float | None


@dataclass(frozen=True)
class Summary:
    """Alpha and beta, how well the score separates, and how many rows can be called."""

    prior: Prior
    auc: float | None  # of positives against negatives
    by_posterior: tuple[Call, ...]  # none where groups have posteriors of their own
    by_fdr: tuple[Call, ...]
    lowest_fdr: float | None  # that any unlabeled row reaches
    notices: tuple[Notice, ...]  # of all steps, each once

    @property
    def likely(self) -> int | None:
        """Unlabeled rows that are rather positive than not."""
        calls = {call.level: call.unlabeled for call in self.by_posterior}
        return calls.get(LIKELY) if self.prior.n_unlabeled else None

    @classmethod
    def from_calibration(
        cls,
        prior: Prior,
        calibration: Calibration,
        columns: Mapping[str, NDArray[Any]],
        notices: tuple[Notice, ...] = (),
        by_group: bool = False,
    ) -> Summary:
        """The summary of rows whose columns of POSTERIOR by cell are given."""
        posterior, fdr = columns["posterior"], columns["fdr"]
        reached = fdr[calibration.population > 0]

        def call(level: float, passes: NDArray[np.bool_]) -> Call:
            """The rows in the cells that pass, which are all from a lowest score up."""
            cells = np.flatnonzero(passes & (calibration.population > 0))
            rows = calibration.sketch.counts[passes if len(cells) else cells].sum(0)
            unlabeled, labeled, negative = rows.tolist()
            if not len(cells):
                return Call(level, unlabeled, labeled, negative, None, None)
            lowest = float(calibration.sketch.scores[cells[0]])
            fraction = 1 - float(fdr[cells[0]])
            return Call(level, unlabeled, labeled, negative, fraction, lowest)

        return cls(
            prior,
            prior.auc if calibration.sketch.n_unlabeled else corrected_auc(calibration),
            () if by_group else tuple(call(x, posterior >= x) for x in POSTERIOR_LEVELS),
            () if by_group else tuple(call(x, fdr <= x) for x in FDR_LEVELS),
            None if by_group or not len(reached) else float(reached.min()),
            notices,
        )
