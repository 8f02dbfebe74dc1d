"""The sketch is exact where it can be, and merges exactly always."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pu_noise_cli.score.sketch import MAX_CELLS, Sketch, SketchBuilder

finite = st.floats(allow_nan=False, allow_infinity=False)
samples = st.lists(finite, min_size=1, max_size=50).map(np.array)


def same(one: Sketch, other: Sketch) -> bool:
    return one.level == other.level and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("edges", "labeled", "unlabeled")
    )


@given(samples, samples)
def test_few_scores_are_kept_exactly(labeled, unlabeled):
    sketch = Sketch.from_samples(labeled, unlabeled)
    both = np.concatenate([labeled, unlabeled]) + 0.0
    assert np.array_equal(sketch.scores, np.unique(both))
    assert np.array_equal(sketch.scores[sketch.cell_index(both)], both)
    assert (sketch.n_labeled, sketch.n_unlabeled) == (len(labeled), len(unlabeled))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(0, 60_000), max_size=4))
def test_shards_merge_to_the_whole(seed, cuts):
    rng = np.random.default_rng(seed)
    scores = rng.choice([rng.beta(0.2, 0.2, 60_000), rng.normal(size=60_000), rng.random(60_000)])
    labeled = rng.random(60_000) < 0.2
    shards = np.split(np.arange(60_000), np.sort(cuts))
    parts = [Sketch.from_samples(scores[s][labeled[s]], scores[s][~labeled[s]]) for s in shards]
    whole = Sketch.from_samples(scores[labeled], scores[~labeled])
    assert len(whole.edges) <= MAX_CELLS
    assert same(Sketch.merge(parts), whole)
    assert same(Sketch.merge([Sketch.merge(parts[::-1][:2]), *parts[::-1][2:]]), whole)


ODD_SCORES = np.array(
    [0.0, -0.0, 0.5, 1.0, 5e-324, -5e-324, 1e-310, -1e-310, 1e300, -1e300, -1, 2]
    + [np.nextafter(near, to) for near, to in ((0.5, 0), (0.5, 1), (1, 0), (1, 2))]
)


@pytest.mark.parametrize("seed", range(6))
def test_batches_add_up_to_the_bytes_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    scores = [rng.random, rng.standard_normal, lambda n: rng.beta(0.05, 0.05, n)][seed % 3](20_000)
    scores[rng.random(20_000) < 0.05] = 0
    scores = np.where(scores == 0, rng.choice(ODD_SCORES, 20_000), scores)
    labeled = rng.random(20_000) < 0.3
    builder = SketchBuilder()
    for rows in np.split(rng.permutation(20_000), [1, 2, 3, 9_000, 19_998, 19_999]):
        builder.add(scores[rows], labeled[rows])
    whole, built = Sketch.from_rows(scores, labeled), builder.sketch()
    assert whole.level > 0
    assert same(built, whole)
    assert built.edges.tobytes() == whole.edges.tobytes()  # which tell 0.0 from -0.0
    cells = whole.cell_index(scores)
    assert (np.diff(cells[np.argsort(scores, kind="stable")]) >= 0).all()
    counts = np.bincount(cells, minlength=len(whole.edges))
    assert np.array_equal(counts, whole.labeled + whole.unlabeled)


def test_both_ends_are_resolved_alike():
    near = np.geomspace(1e-9, 0.5, 20_000)
    ends = np.concatenate([near, 1 - near])
    sketch = Sketch.from_samples(ends, ends)
    assert np.isclose(sketch.scores.min(), 1e-9, rtol=0.05)
    assert np.isclose(1 - sketch.scores.max(), 1e-9, rtol=0.05)


def test_auc_counts_ties_as_a_half():
    rng = np.random.default_rng(0)
    labeled, unlabeled = rng.integers(0, 9, 80) / 8, rng.integers(0, 7, 200) / 8
    expected = roc_auc_score(np.r_[np.ones(80), np.zeros(200)], np.r_[labeled, unlabeled])
    assert Sketch.from_samples(labeled, unlabeled).auc == pytest.approx(expected)


def test_resampling_keeps_the_sizes():
    rng = np.random.default_rng(0)
    sketch = Sketch.from_samples(rng.random(100), rng.random(1000))
    drawn = sketch.resample(rng)
    assert (drawn.n_labeled, drawn.n_unlabeled) == (100, 1000)
    assert not np.array_equal(drawn.unlabeled, sketch.unlabeled)
