"""Posteriors, calls and corrected performance against the hidden classes, on real data.

python benchmarks/calibration.py --data DIRECTORY --repeats 3
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import protocol
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from pu_noise_cli.posterior.calibration import Calibration, calibrate
from pu_noise_cli.posterior.performance import performance
from pu_noise_cli.prior.base import ESTIMATORS, Settings, Shares
from pu_noise_cli.score.sketch import Sketch

FDR = 0.05
FIGURES = {
    "ece": "expected calibration error over unlabeled rows, estimated prior",
    "ece true prior": "the same with the true α and β",
    "brier ratio": "Brier score over that of isotonic calibration with the true labels, true prior",
    "brier ratio est.": "the same with the estimated prior",
    "auc error": "corrected AUC against the true one",
    "precision error": "corrected precision at posterior 0.5 against the true one",
    "precision error true prior": "the same with the true α and β",
    "recall error": "corrected recall at posterior 0.5 against the true one",
    "false share": f"true share of negatives among unlabeled rows called at fdr {FDR}",
    "false share true prior": "the same with the true α and β",
    "called": f"rows called at fdr {FDR}, over those that the true labels would allow",
    "ece labeled": "expected calibration error of posterior_labeled",
    "beta error": "mean posterior_labeled against the estimated β",
}


def calibration_error(p: np.ndarray, y: np.ndarray, bins: int = 10) -> float:
    """The mean over rows of the gap between mean p and the share of positives in their bin."""
    bin_of = np.minimum((p * bins).astype(int), bins - 1)
    gaps = np.bincount(bin_of, p - y, bins)
    return float(np.abs(gaps).sum() / len(p))


def allowed(scores: np.ndarray, y: np.ndarray) -> int:
    """The most rows, from the top down, of which at most a share of FDR is negative."""
    negatives = np.cumsum(~y[np.argsort(-scores, kind="stable")])
    within = np.flatnonzero(negatives <= FDR * np.arange(1, len(y) + 1))
    return int(within[-1]) + 1 if len(within) else 0


def work(
    label: str, repeat: int, row: protocol.Row, *, data: Path, classifier: str, method: str
) -> dict[str, float]:
    """One repeat of one row of table 1."""
    draw = protocol.real_draw(row, repeat, data)
    labeled, unlabeled = protocol.scores(draw, classifier, repeat)
    y = draw.unlabeled_y
    sketch = Sketch.from_samples(labeled, unlabeled)
    estimate = ESTIMATORS[method].estimate(sketch, Settings())
    shares = Shares(estimate.alpha, estimate.beta, draws=estimate.draws or ())
    ours = calibrate(sketch, shares)
    known = calibrate(sketch, Shares(draw.alpha, float(draw.labeled_y.mean())))
    cells = sketch.cell_index(unlabeled)
    p, p_known = ours.posterior[cells], known.posterior[cells]
    best = IsotonicRegression(out_of_bounds="clip").fit_transform(unlabeled, y)
    best_brier = np.mean((best - y) ** 2)
    calls = ours.fdr[cells] <= FDR
    p_labeled = ours.posterior_labeled[sketch.cell_index(labeled)]
    return {
        "ece": calibration_error(p, y),
        "ece true prior": calibration_error(p_known, y),
        "brier ratio": float(np.mean((p_known - y) ** 2) / max(best_brier, 1e-4)),
        "brier ratio est.": float(np.mean((p - y) ** 2) / max(best_brier, 1e-4)),
        "auc error": abs(performance(ours).auc - roc_auc_score(y, unlabeled)),
        "precision error": abs(at_half(ours, "precision") - share(p >= 0.5, y)),
        "precision error true prior": abs(at_half(known, "precision") - share(p_known >= 0.5, y)),
        "recall error": abs(at_half(ours, "recall") - share(y, p >= 0.5)),
        "false share": share(calls, ~y),
        "false share true prior": share(known.fdr[cells] <= FDR, ~y),
        "called": float(calls.sum()),
        "allowed": float(allowed(unlabeled, y)),
        "ece labeled": calibration_error(p_labeled, draw.labeled_y),
        "beta error": abs(float(p_labeled.mean()) - estimate.beta),
    }


def at_half(calibration: Calibration, measure: str) -> float:
    """A corrected figure of calling all rows with a posterior of at least a half."""
    cell = np.searchsorted(calibration.posterior, 0.5)
    last = len(calibration.posterior) - 1
    return float(performance(calibration).measures[measure][min(cell, last)])


def share(rows: np.ndarray, kind: np.ndarray) -> float:
    """The share of a kind among some rows, NaN among none."""
    return float(kind[rows].mean()) if rows.any() else np.nan


def summary(figure: str, results: list[dict[str, float]]) -> float:
    """A figure over draws: its mean; of ratios the median; of calls, all over all."""
    values = [result[figure] for result in results]
    if figure == "called":
        return sum(values) / sum(result["allowed"] for result in results)
    return float(np.nanmedian(values) if figure.startswith("brier") else np.nanmean(values))


def main() -> None:
    parser = protocol.real_data_arguments("Posteriors against the hidden classes.")
    parser.add_argument("--method", default="auto", choices=list(ESTIMATORS))
    options = parser.parse_args()
    rows = protocol.rows_at_hand("table1", options.data)
    name = f"calibration-{options.classifier}-{options.method}"
    found = protocol.run(
        options.results / f"{name}.partial.jsonl",
        [(label, repeat, rows[label]) for label in rows for repeat in range(options.repeats)],
        partial(work, data=options.data, classifier=options.classifier, method=options.method),
        options.processes,
    )
    betas = list(dict.fromkeys(row["beta"] for row in rows.values()))
    groups = {f"β = {b}": [k for k, row in rows.items() if row["beta"] == b] for b in betas}
    groups = {"all": list(rows)} | groups
    lines = ["| figure | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for figure, meaning in FIGURES.items():
        cells = [
            f"{summary(figure, [result for label in labels for result in found[label]]):.4f}"
            for labels in groups.values()
        ]
        lines.append(f"| {meaning} | " + " | ".join(cells) + " |")
    note = (
        f"Means over {options.repeats} repeats of {len(rows)} rows; of Brier ratios, medians.\n\n"
    )
    protocol.report(options.results / f"{name}.md", "Posteriors", note + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
