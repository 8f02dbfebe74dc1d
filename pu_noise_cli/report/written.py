"""POSTERIOR, read back: what it says of each score, and for which population."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..notices import Notice
from ..numerics import FloatArray
from ..posterior.calibration import MEAN_TOLERANCE, Calibration, mean_off, posterior_at
from ..posterior.table import TARGET_ALPHA
from ..score.sketch import Sketch
from ..tables.columns import Column, Encoding
from ..tables.reading import Table
from ..tables.rows import Chunk, Rows
from .content import PosteriorCurve, base_name, bounds_on_posterior

SHARE_COLUMNS = ("posterior", "tau", "posterior_labeled")
BOUND_COLUMNS = ("posterior_low", "posterior_high")
SAME = 1e-6  # posteriors that differ by less were made with the same settings


def as_written(
    calibration: Calibration, table: Table, seed: int
) -> tuple[Calibration, PosteriorCurve]:
    """The calibration that a POSTERIOR file holds, and its posteriors in their own population.

    Its rows must be those of the sketch. Posteriors for another population are turned back by
    Bayes' rule for the calibration, which is about the population of the unlabeled rows. Those by
    group are not functions of the score: then the calibration stays that of all rows together.
    """
    found, target_alpha = _read(table, calibration.sketch)
    posterior, alpha = found["posterior"], calibration.shares.alpha
    if (np.diff(posterior) < -SAME).any():  # in one population it never falls as the score rises
        of_all = PosteriorCurve.of(calibration, bounds=bounds_on_posterior(calibration, seed))
        return calibration, replace(of_all, rows_by_group=True)
    notices = [notice for notice in calibration.notices if notice.code != "posterior-mean-off"]
    lr = calibration.lr
    if target_alpha is not None:
        with np.errstate(divide="ignore"):
            lr = posterior / (1 - posterior) * (1 - target_alpha) / target_alpha
        posterior = posterior_at(lr, alpha)
    elif "pep" not in table.columns:  # posteriors of matches need not average to α
        rows = calibration.population
        mean = float(posterior @ rows / rows.sum())
        if abs(mean - alpha) > MEAN_TOLERANCE:
            notices.append(
                Notice(
                    "posterior-mean-off",
                    f"{base_name(table.name)}: {mean_off(mean, alpha).message}",
                )
            )
    written = replace(
        calibration,
        notices=tuple(notices),
        posterior=posterior,
        tau=found["tau"],
        lr=lr,
        posterior_labeled=np.where(
            calibration.sketch.labeled > 0,
            found["posterior_labeled"],
            calibration.posterior_labeled,
        ),
    )
    bounds = None
    if BOUND_COLUMNS[0] in found:
        bounds = found[BOUND_COLUMNS[0]], found[BOUND_COLUMNS[1]]
    elif np.abs(posterior - calibration.posterior).max() < SAME:
        bounds = bounds_on_posterior(written, seed, target_alpha)
    return written, PosteriorCurve.of(written, target_alpha, bounds)


def _read(table: Table, sketch: Sketch) -> tuple[dict[str, FloatArray], float | None]:
    """The mean of each column over the rows of each cell, shape (cells,), and the target α."""
    for column in ("set", "score", *SHARE_COLUMNS):
        table.require(column, "--posterior")
    bounds = BOUND_COLUMNS if all(column in table.columns for column in BOUND_COLUMNS) else ()
    target = (TARGET_ALPHA,) if TARGET_ALPHA in table.columns else ()
    columns = ("score", *SHARE_COLUMNS, *bounds, *target)
    rows = Rows.from_tables([table], features=columns, label_column="set")
    encoding = Encoding(tuple(Column(name, "number") for name in columns))
    size, target_alpha = len(sketch.edges), None
    counts = np.zeros_like(sketch.counts)
    sums = {name: np.zeros(size) for name in (*SHARE_COLUMNS, *bounds)}
    for chunk in rows.chunks(columns):
        values = dict(zip(columns, encoding.encode(chunk).T, strict=True))
        values["posterior_labeled"] = np.where(chunk.labeled, values["posterior_labeled"], 0)
        known = _check_values(chunk, values)
        if target:
            target_alpha = _checked_target(chunk, values[TARGET_ALPHA][known], target_alpha)
        cells = sketch.cell_index(values["score"][known])
        np.add.at(counts, (cells, chunk.sets[known]), 1)
        for name, total in sums.items():
            total += np.bincount(cells, values[name][known], size)
    if not np.array_equal(counts, sketch.counts):
        raise InputError(f"{table.name}: its rows are not those of --scores")
    of_labeled = sums.pop("posterior_labeled") / np.maximum(sketch.labeled, 1)
    means = {name: total / counts.sum(1) for name, total in sums.items()}
    return {**means, "posterior_labeled": of_labeled}, target_alpha


def _check_values(chunk: Chunk, values: dict[str, FloatArray]) -> NDArray[np.bool_]:
    """Stop at values that cannot be; tells which rows have a score, shape (n,)."""
    known = ~np.isnan(values["score"])
    for name, column in values.items():
        if name == "score":
            bad = ~known & ~np.isnan(values["posterior"])
        elif name == TARGET_ALPHA:
            bad = known & ~((column > 0) & (column < 1))
        else:
            bad = known & ~((column >= 0) & (column <= 1))
        if bad.any():
            raise chunk.error(name, "has no value that it could have", int(bad.argmax()))
    return known


def _checked_target(chunk: Chunk, column: FloatArray, before: float | None) -> float | None:
    """The one target α of all rows so far."""
    if len(column) == 0:
        return before
    target = float(column[0]) if before is None else before
    if (column != target).any():
        row = int((column != target).argmax())
        raise chunk.error(TARGET_ALPHA, f"is not {target:g} as in the rows before", row)
    return target
