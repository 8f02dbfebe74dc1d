"""How much evidence counts of controls can show; thresholds of strangers."""

import json

import numpy as np
import pytest

import pu_noise_cli
from pu_noise_cli.posterior.calibration import bounds, calibrate
from pu_noise_cli.prior.base import Shares
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.variants.apply import LevelRanges
from pu_noise_cli.variants.reach import Reach, upper_limit
from pu_noise_cli.variants.rules import Grading
from pu_noise_cli.variants.thresholds import Thresholds

# Few controls


def test_so_few_controls_cannot_show_more():
    rng = np.random.default_rng(0)
    rule = Grading.read("acmg", 0.1)
    for n in (20, 37, 100, 300):
        sketch = Sketch.from_samples(rng.normal(9, 1, 400), np.empty(0), rng.normal(0, 1, n))
        calibration = calibrate(sketch, Shares(0.1, 1.0, from_these_rows=False))
        held = bounds(calibration, 0)
        assert held.lr[0].max() > 350  # as the curve has it, classes being apart
        found = Thresholds.from_calibration(calibration, held, rule)
        highest = found.bounds.lr[0].max()
        assert highest <= n / 2.99
        assert found.reach[1] == pytest.approx(n / 2.9957, rel=1e-3)
        for one in found.levels[:4]:
            assert (one.reached is not None) == (one.level.lr <= highest)
            assert found.is_out_of_reach(one.level) == (one.level.lr > n / 2.9957)
        (notice,) = found.notices
        assert notice.code == "few-controls"
        assert f"{n} known negatives" in notice.message


@pytest.mark.parametrize("mirrored", [False, True])
def test_outliers_that_counts_allow_are_allowed_for(mirrored):
    """3% of 60 negatives (or positives) are outliers: no ratio exceeds 33, and none is claimed."""
    rule, wrong, called = Grading.read("acmg", 0.1), 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        few = rng.normal(size=60) + 4 * (rng.random(60) < 0.03)
        many = rng.normal(4, 1, 200)
        sketch = Sketch.from_samples(many, np.empty(0), few)
        if mirrored:
            sketch = Sketch.from_samples(-few, np.empty(0), -many)
        calibration = calibrate(sketch, Shares(0.1, 1.0, from_these_rows=False))
        found = Thresholds.from_calibration(calibration, bounds(calibration, 0), rule)
        for one in found.levels:
            if one.reached is None or one.level.against != mirrored:
                continue
            x = abs(one.reached.score_from)
            ratio = np.exp(4 * x - 8)
            called += 1
            needed = 1 / one.level.lr if mirrored else one.level.lr
            wrong += ratio / (0.97 + 0.03 * ratio) < needed
    assert called >= 80
    assert wrong <= 0.05 * called


def test_what_counts_show_does_not_fall_with_the_score():
    rng = np.random.default_rng(2)
    labeled, unlabeled = rng.normal(2, 1, 500), rng.normal(size=2000)
    unlabeled[:200] += 2
    for shares in (Shares(0.1, 1.0), Shares(0.1, 0.9)):
        shown = Reach.from_calibration(calibrate(Sketch.from_samples(labeled, unlabeled), shares))
        assert (np.diff(shown.greatest) >= 0).all()
        assert (np.diff(shown.least) >= 0).all()
    np.testing.assert_allclose(
        upper_limit(np.array([0, 999, 1000])), [2.9957, 1053.2, 1054.2], 1e-3
    )


def test_thresholds_of_strangers_and_of_other_versions(tmp_path):
    row = {"level": "A", "points": 1, "score_from": 0.5, "score_to": None, "lr": 3.0}
    needed = {"schema": "punoise.thresholds/1", "scoreset_flipped": True, "levels": [row]}
    later = {"unheard_of": [1, None], "provenance": {"unheard_of": 1}}
    for content in (needed, needed | later):
        (tmp_path / "t.json").write_text(json.dumps(content))
        (tmp_path / "t.tsv").write_text(
            "note\tlevel\tlr\tpoints\tscore_from\tscore_to\nx\tA\thigh\t1\t0.5\tinf\n"
        )
        for name in ("t.json", "t.tsv"):
            ranges = LevelRanges.read(str(tmp_path / name))
            assert ranges(np.array([0.4, 0.5])).tolist() == ["indeterminate", "A"]
    for content in ({k: v for k, v in needed.items() if k != key} for key in needed):
        (tmp_path / "t.json").write_text(json.dumps(content))
        with pytest.raises(pu_noise_cli.errors.InputError, match=r"t\.json"):
            LevelRanges.read(str(tmp_path / "t.json"))
