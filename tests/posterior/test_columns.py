"""Columns of POSTERIOR: values by cell of the sketch, by range of the score, and by group."""

import numpy as np
import pyarrow as pa
import pytest

from pu_noise_cli.posterior.calibration import bounds, calibrate, shift_prior
from pu_noise_cli.posterior.columns import CellColumn, RangeColumn, ScoredChunk
from pu_noise_cli.posterior.groups import OTHER, GroupPosteriors, Groups
from pu_noise_cli.posterior.pooling import Bins, PooledShares
from pu_noise_cli.posterior.table import posterior_columns
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import Chunk

BELOW, ABOVE = -np.inf, np.inf


def scored(sketch, scores, groups=None):
    """Rows with these scores, all unlabeled."""
    names = [""] * len(scores) if groups is None else groups
    batch = pa.record_batch([pa.array(names, pa.string())], ["gene"])
    sets = np.zeros(len(scores), np.int8)
    return ScoredChunk(sketch, Chunk(batch, sets, 0, 0, "rows", 0), np.asarray(scores, float))


def values(column, rows):
    """What a column says of rows, as the step that writes POSTERIOR asks for it."""
    array = column.array(rows, rows.scored)
    assert array.type == column.type
    return array.to_pylist()


def test_a_column_by_cell_has_the_value_of_each_rows_cell():
    sketch = Sketch.from_samples(np.array([0.1, 0.5]), np.array([0.1, 0.9]))
    rows = scored(sketch, [0.9, 0.1, np.nan, 0.5, 0.1])
    assert values(CellColumn(np.array([1.0, 2.0, 3.0])), rows) == [3.0, 1.0, None, 2.0, 1.0]
    assert values(CellColumn(np.array([False, True, True])), rows) == [
        True,
        False,
        None,
        True,
        False,
    ]


def test_a_new_score_has_the_value_of_the_nearest_cell():
    sketch = Sketch.from_samples(np.array([0.0, 1.0]), np.array([3.0]))
    rows = scored(sketch, [-5.0, 0.4, 0.6, 1.9, 2.1, 5.0])
    assert values(CellColumn(np.array([1.0, 2.0, 3.0])), rows) == [1, 1, 2, 2, 3, 3]


def test_a_range_begins_with_its_start():
    starts = np.array([-1.0, 0.5])
    ends = [np.nextafter(start, to) for start in starts for to in (BELOW, start, ABOVE)]
    rows = scored(Sketch.from_samples(np.arange(3.0), np.arange(3.0)), [*ends, np.nan, 0.5, 0.5])
    column = RangeColumn(starts, np.array(["low", "middle", "high"]))
    expected = ["low", "middle", "middle", "middle", "high", "high", None, "high", "high"]
    assert values(column, rows) == expected


def test_one_range_needs_no_start():
    rows = scored(Sketch.from_samples(np.arange(3.0), np.arange(3.0)), [-1e308, 0.0, np.nan])
    assert values(RangeColumn(np.empty(0), np.array(["all"])), rows) == ["all", "all", None]


# ---- By group


@pytest.fixture(scope="module")
def calibration():
    rng = np.random.default_rng(5)
    labeled, unlabeled = rng.normal(2, 1, 400), rng.normal(size=2000)
    unlabeled[:600] += 2
    return calibrate(Sketch.from_samples(labeled, unlabeled), Shares(0.3, 1.0))


def by_group(calibration, log_odds, shift, bounds=None, target_alpha=None, fdr=None):
    """Posteriors of OTHER, which is as the whole, and of a group A."""
    of_both = {"alpha": 0.3, "alpha_low": 0.2, "alpha_high": 0.4, "log_odds_error": 0.0}
    arrays = {name: np.full(2, value) for name, value in of_both.items()}
    arrays |= {"shrinkage": np.zeros(2), "p_typical": np.ones(2)}
    arrays |= {"log_odds": np.array([0.0, log_odds]), "shift": np.array([0.0, shift])}
    groups = Groups("gene", (OTHER, "A"), np.ones((2, 3), np.int64), PooledShares(**arrays))
    whole = posterior_columns(calibration, bounds=bounds, target_alpha=target_alpha)
    return GroupPosteriors(groups, Bins.from_calibration(calibration), whole, fdr)


def cell_columns(calibration, fdr=0.1):
    return {
        "posterior": CellColumn(calibration.posterior),
        "lr": CellColumn(calibration.lr),
        "fdr": CellColumn(calibration.fdr),
        "call": CellColumn(calibration.fdr <= fdr),
    }


def test_rows_without_a_group_have_the_values_of_their_cells(calibration):
    columns = cell_columns(calibration)
    grouped = by_group(calibration, 1.0, 0.5, fdr=0.1).columns(columns)
    assert grouped.keys() == columns.keys()
    scores = [*calibration.sketch.scores[::50], np.nan]
    rows = scored(calibration.sketch, scores, ["", "unheard of"] * (len(scores) // 2) + ["."])
    for name, column in columns.items():
        found, expected = values(grouped[name], rows), values(column, rows)
        assert found[-1] is None
        assert found[:-1] == pytest.approx(expected[:-1], rel=1e-9)


@pytest.mark.parametrize("log_odds", [-1.0, 2.0])
def test_a_group_has_the_posteriors_of_its_own_odds(calibration, log_odds):
    columns = by_group(calibration, log_odds, 0.0).columns(cell_columns(calibration))
    scores = calibration.sketch.scores[::20]
    rows = scored(calibration.sketch, scores, ["A"] * len(scores))
    posterior = calibration.posterior[::20]
    odds = posterior / (1 - posterior).clip(1e-300) * np.exp(log_odds)
    np.testing.assert_allclose(values(columns["posterior"], rows), odds / (1 + odds), rtol=1e-6)
    assert values(columns["lr"], rows) == calibration.lr[::20].tolist()


def test_a_shifted_group_has_the_values_of_shifted_scores(calibration):
    columns = by_group(calibration, 0.0, 0.5).columns(cell_columns(calibration))
    scores = calibration.sketch.scores[10:-10:20]
    rows = scored(calibration.sketch, [*scores, *scores], ["A"] * 2 * len(scores))
    found = values(columns["lr"], rows)
    assert found[: len(scores)] == found[len(scores) :]  # tied scores have one value
    assert (np.diff(found[: len(scores)]) >= 0).all()
    assert (np.array(found[: len(scores)]) <= calibration.lr[10:-10:20]).all()  # all score higher


def test_groups_of_one_population_have_its_prior(calibration):
    held = bounds(calibration, 0)
    grouped = by_group(calibration, 2.0, 0.0, bounds=held, target_alpha=0.05)
    column = CellColumn(calibration.posterior)
    columns = grouped.columns(dict.fromkeys(("posterior", "posterior_low", "target_alpha"), column))
    scores = calibration.sketch.scores
    rows = scored(calibration.sketch, scores, ["A"] * len(scores))
    shifted, _ = shift_prior(calibration, 0.05)
    np.testing.assert_allclose(values(columns["posterior"], rows), shifted)
    np.testing.assert_allclose(values(columns["posterior_low"], rows), held.at(0.05)[0])
    assert set(values(columns["target_alpha"], rows)) == {0.05}
