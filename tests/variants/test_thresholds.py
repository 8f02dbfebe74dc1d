"""Score thresholds of levels of evidence, as numbers."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pytest

from pu_noise_cli.posterior.calibration import GroupCopies, bounds, calibrate, widen
from pu_noise_cli.posterior.columns import ScoredChunk
from pu_noise_cli.posterior.groups import OTHER, Groups
from pu_noise_cli.posterior.pooling import PooledShares
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.prior.document import Prior
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.rows import Chunk
from pu_noise_cli.variants.apply import LevelRange
from pu_noise_cli.variants.groups import GroupThresholds
from pu_noise_cli.variants.rules import Grading, Level
from pu_noise_cli.variants.thresholds import Thresholds

CODES = [
    *("PP3_VeryStrong", "PP3_Strong", "PP3_Moderate", "PP3_Supporting"),
    *("BP4_Supporting", "BP4_Moderate", "BP4_Strong", "BP4_VeryStrong"),
]


ACMG = Grading.read("acmg", 0.0441)


ABOUT = Prior(method="stated", seed=0, alpha=0.3, beta=0.9, sample="assay")


KNOWN = Shares(0.3, 0.9, from_these_rows=False)


def scores_of(rng, n, share):
    """Scores of two unit Gaussians two apart, so that log LR is 2 s - 2."""
    return rng.normal(size=n) + 2 * (rng.random(n) < share)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(4)
    sketch = Sketch.from_samples(scores_of(rng, 2000, 0.9), scores_of(rng, 6000, 0.3))
    calibration = calibrate(sketch, KNOWN)
    return calibration, bounds(calibration, 0)


def test_thresholds_lie_where_the_bound_meets_the_level(found):
    calibration, held = found
    thresholds = Thresholds.from_calibration(calibration, held, ACMG)
    held = thresholds.bounds
    assert [one.level.code for one in thresholds.levels] == CODES
    assert [one.level.points for one in thresholds.levels] == [8, 4, 2, 1, -1, -2, -4, -8]
    scores = calibration.sketch.scores
    for one in thresholds.levels:
        if one.reached is None:
            continue
        level, start = one.level, one.reached.score_from
        inside = scores <= start if level.against else scores >= start
        met = held.lr[1] <= level.lr if level.against else held.lr[0] >= level.lr
        np.testing.assert_array_equal(inside, met)
        assert one.n_unlabeled == calibration.sketch.unlabeled[inside].sum()
        assert one.n_labeled == calibration.sketch.labeled[inside].sum()
        assert (one.reached.posterior_bound <= level.posterior) == level.against
        true = np.exp(2 * start - 2)
        assert true <= level.lr * 1.1 if level.against else true >= level.lr / 1.1


def test_ranges_follow_each_other(found):
    levels = Thresholds.from_calibration(*found, ACMG).levels
    reached = [one.reached for one in levels]
    assert reached[0] is None  # few rows are that telling
    assert reached[1].score_to == np.inf
    assert reached[1].score_from == reached[2].score_to
    assert reached[2].score_from == reached[3].score_to
    assert reached[4].score_to == reached[5].score_from
    assert levels[0].n_unlabeled == 0


def test_a_predictor_that_runs_the_other_way_keeps_its_scale(found):
    usual, turned = (Thresholds.from_calibration(*found, ACMG, lower) for lower in (False, True))
    for one, other in zip(usual.levels, turned.levels, strict=True):
        assert (one.reached is None) == (other.reached is None)
        if one.reached is not None:
            assert other.reached.score_from == -one.reached.score_from
            assert other.reached.score_to == -one.reached.score_to
            assert other.n_unlabeled == one.n_unlabeled


def test_every_row_of_a_coarse_cell_is_within_the_threshold():
    rng = np.random.default_rng(0)
    labeled, unlabeled = scores_of(rng, 20_000, 0.9), scores_of(rng, 100_000, 0.3)
    sketch = Sketch.from_samples(labeled, unlabeled)
    assert sketch.level > 0
    low, high = sketch.spans()
    cells = sketch.cell_index(unlabeled)
    assert (low[cells] <= unlabeled).all()
    assert (unlabeled <= high[cells]).all()
    assert (low[1:] > high[:-1]).all()
    calibration = calibrate(sketch, KNOWN)
    levels = Thresholds.from_calibration(calibration, bounds(calibration, 0), ACMG).levels
    for one in (levels[2], levels[5]):
        start = one.reached.score_from
        inside = unlabeled <= start if one.level.against else unlabeled >= start
        assert inside.sum() == one.n_unlabeled


@pytest.mark.parametrize("lower_is_positive", [False, True])
def test_the_column_of_levels_begins_and_ends_where_thresholds_do(found, lower_is_positive):
    thresholds = Thresholds.from_calibration(*found, ACMG, lower_is_positive)
    reached = [one for one in thresholds.levels if one.reached is not None]
    begins = np.array([one.reached.score_from for one in reached])
    own = np.concatenate([begins, np.nextafter(begins, -np.inf), np.nextafter(begins, np.inf)])
    expected = np.full(len(own), "indeterminate", dtype=object)
    for one in reached:
        ends = LevelRange(one.level.code, None, one.reached.score_from, one.reached.score_to)
        expected[ends.holds(own)] = one.level.name
    assert expected[: len(begins)].tolist() == [one.level.name for one in reached]
    sketch, column = found[0].sketch, thresholds.evidence()
    scores = np.append(-own if lower_is_positive else own, np.nan)
    chunk = Chunk(pa.record_batch([scores], ["score"]), np.zeros(len(scores), np.int8), 0, 0, "", 0)
    rows = ScoredChunk(sketch, chunk, scores)
    assert column.array(rows, rows.scored).to_pylist() == [*expected, None]


@pytest.mark.parametrize("lower_is_positive", [False, True])
def test_a_group_has_the_levels_of_its_own_thresholds(found, lower_is_positive):
    """Of two groups, one does not reach the stronger level; rows of no group are OTHER's."""
    levels = (
        Level("strong", 9.0, 0.5, "S"),
        Level("weak", 2.0, 0.2, "W"),
        Level("against", 0.5, 0.01, "A"),
    )
    begins = np.array([[2.0, 1.0, -1.0], [np.nan, 1.5, -2.0]])
    unit = {field.name: np.zeros(2) for field in dataclasses.fields(PooledShares)}
    groups = Groups("gene", (OTHER, "G"), np.ones((2, 3), np.int64), PooledShares(**unit))
    thresholds = GroupThresholds(groups, levels, begins, lower_is_positive)
    sign = -1.0 if lower_is_positive else 1.0
    for code, column in zip("SWA", begins.T, strict=True):
        np.testing.assert_array_equal(thresholds.columns[code], sign * column)
    scores = np.array([2.0, 1.0, np.nextafter(1.0, 0), -1.0, np.nextafter(-1.0, 0), np.nan] * 2)
    names = [*["", "unheard of"] * 3, *["G"] * 6]
    batch = pa.record_batch([pa.array(names)], ["gene"])
    chunk = Chunk(batch, np.zeros(len(scores), np.int8), 0, 0, "", 0)
    rows, column = ScoredChunk(found[0].sketch, chunk, scores), thresholds.evidence()
    none = "indeterminate"
    assert column.array(rows, rows.scored).to_pylist() == [
        *("strong", "weak", none, "against", none, None),
        *("weak", none, none, none, none, None),
    ]


def test_points_are_ranges_as_excalibr_has_them(found):
    document = Thresholds.from_calibration(*found, ACMG, True).to_json(ABOUT)
    keys = {"prior", "point_ranges", "dataset", "scoreset_flipped", "uncalibratable_reason"}
    assert keys <= document.keys()
    assert list(document["point_ranges"]) == [str(p) for p in (*range(1, 9), *range(-1, -9, -1))]
    ranges = {int(k): v[0] for k, v in document["point_ranges"].items() if v}
    assert ranges[1][0] == ranges[2][1]  # low scores are positive here, as in most assays
    assert ranges[-1][1] == ranges[-2][0]
    assert ranges[max(ranges)][0] is None
    assert ranges[min(ranges)][1] is None
    assert document["scoreset_flipped"] is False
    assert document["uncalibratable_reason"] is None
    json.dumps(document, allow_nan=False)
    levels = {row["level"]: row for row in document["levels"]}
    assert np.nextafter(levels["PP3_Moderate"]["score_from"], np.inf) == ranges[2][1]


def test_no_level_is_said_in_words():
    rng = np.random.default_rng(1)
    calibration = calibrate(
        Sketch.from_samples(rng.random(50), rng.random(50)), Shares(0.3, 0.9, False)
    )
    held = bounds(calibration, 0)
    thresholds = Thresholds.from_calibration(calibration, held, ACMG)
    document = thresholds.to_json(ABOUT)
    assert "no level" in document["uncalibratable_reason"]
    assert not any(document["point_ranges"].values())


def test_levels_are_for_these_rows_unless_another_population_is_stated(found):
    alpha = found[0].shares.alpha
    own, stated, other = (
        Thresholds.from_calibration(*found, Grading.read("acmg", target)).levels
        for target in (None, alpha, 0.01)
    )
    assert own == stated != other


def test_uncertain_shares_enter_through_the_densities_only(found):
    """Where every likely α and β gives the same f1 and f0, bounds are those of certain ones."""
    calibration, held = found
    certain = held.at(0.0441)
    sketch = calibration.sketch
    same = calibrate(sketch, Shares(0.3, 0.9, False, draws=((0.3, 0.9),) * 5))
    np.testing.assert_allclose(bounds(same, 0).at(0.0441), certain, rtol=0.05)


def test_bounds_reach_zero_and_one_where_rows_are_few(found):
    calibration, held = found
    (low, high), (own_low, own_high) = held.lr, held.posterior
    assert (low[0], own_low[0]) == (0, 0)
    assert (high[-1], own_high[-1]) == (np.inf, 1)
    assert 0 < own_low[len(low) // 2] < own_high[len(low) // 2] < 1
    for bounds_on in (low, high, own_low, own_high):
        assert (np.diff(bounds_on[np.isfinite(bounds_on)]) >= 0).all()
    wider = widen(held, calibration, np.full(len(low), 2.0))
    assert (wider.posterior[0] <= own_low).all()
    assert (wider.posterior[1] >= own_high).all()
    same = widen(held, calibration, np.ones(len(low)))
    np.testing.assert_allclose(same.posterior, held.posterior, atol=1e-12)
    np.testing.assert_allclose(same.lr[0], low)


@pytest.mark.ci
def test_bounds_hold_as_often_as_they_say():
    """At five scores of forty samples, α and β known: about one bound in twenty fails."""
    x = np.array([-0.5, 0.25, 1.0, 1.75, 2.5])
    missed = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sketch = Sketch.from_samples(scores_of(rng, 600, 0.9), scores_of(rng, 2000, 0.3))
        low, high = bounds(calibrate(sketch, KNOWN), 0).lr
        cells = sketch.cell_index(x)
        missed += [*(low[cells] > np.exp(2 * x - 2)), *(high[cells] < np.exp(2 * x - 2))]
    assert 0.01 < np.mean(missed) < 0.08


# Rows in groups


def width(scores, sets, names):
    calibration = calibrate(Sketch.from_rows(scores, sets), Shares(0.2, 0.9, from_these_rows=False))
    copies = GroupCopies.from_rows(scores, sets, pa.array(list(map(str, names))))
    low, high = bounds(calibration, 0, copies).posterior
    return (high - low).mean()


def test_bounds_are_wider_where_rows_of_a_group_are_alike(genes):
    scores, sets, gene = genes
    alike = width(scores, sets, gene)
    alone = width(scores, sets, np.arange(len(scores)))
    shuffled = width(scores, sets, np.random.default_rng(0).permutation(gene))
    assert alike > 1.4 * shuffled
    assert shuffled < 1.3 * alone


@pytest.mark.parametrize("smooth", [False, pytest.param(True, marks=pytest.mark.ci)])
def test_bounds_by_group_are_numbers_for_both_calibrators(genes, smooth):
    scores, sets, gene = genes
    calibration = calibrate(Sketch.from_rows(scores, sets), Shares(0.2, 0.9), smooth)
    copies = GroupCopies.from_rows(scores, sets, pa.array(list(map(str, gene))))
    by_row, by_group = (bounds(calibration, 0, of) for of in (None, copies))
    for narrow, wide in zip(
        (*by_row.lr, *by_row.posterior), (*by_group.lr, *by_group.posterior), strict=True
    ):
        assert not np.isnan(wide).any()
        assert np.isinf(wide[np.isinf(narrow)]).all()
    assert (by_group.posterior[0] <= by_row.posterior[0] + 1e-12).all()
    assert (by_group.posterior[1] >= by_row.posterior[1] - 1e-12).all()


def test_groups_may_come_in_any_parts(genes):
    scores, sets, gene = genes
    names = pa.array([f"gene {g}" for g in gene])
    whole = GroupCopies.from_rows(scores, sets, names)
    cuts = [slice(0, 700), slice(700, 701), slice(701, None)]
    parts = [GroupCopies.from_rows(scores[c], sets[c], names[c]) for c in cuts]
    merged = GroupCopies.merge([parts[2], GroupCopies.merge([parts[0], parts[1]])])
    np.testing.assert_array_equal(merged.wide.edges, whole.wide.edges)
    np.testing.assert_array_equal(merged.wide.counts, whole.wide.counts)
    assert len(whole.wide.edges) <= 512
    rows, copies = whole.sketches(Sketch.from_rows(scores, sets))
    assert rows.n_labeled == 1000
    assert len(copies) == 100
    assert np.mean([copy.n_unlabeled for copy in copies]) == pytest.approx(4000, rel=0.06)
    assert whole.notices == ()
    few = GroupCopies.from_rows(scores, sets, pa.array([f"{g % 7}" for g in gene]))
    assert [notice.code for notice in few.notices] == ["few-groups"]
    assert "7 groups" in few.notices[0].message


def test_smooth_posteriors_lie_within_their_own_bounds():
    rng = np.random.default_rng(0)
    targets = np.concatenate([rng.normal(0, 1, 400), rng.normal(3, 1, 200)])
    sketch = Sketch.from_samples(rng.normal(0, 1, 400), targets)
    sketch = dataclasses.replace(sketch, labeled_class="negative")
    calibration = calibrate(sketch, Shares(1 / 3, 0.0, from_these_rows=False), smooth=True)
    for values, name in ((calibration.posterior, "posterior"), (calibration.lr, "lr")):
        low, high = getattr(bounds(calibration, 0), name)
        assert ((low <= values) & (values <= high)).all()
        assert (low < high).mean() > 0.9
