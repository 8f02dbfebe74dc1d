"""What columns contribute to a learned score: columns.tsv."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from pu_noise_cli.score.classifiers import CLASSIFIERS, Training
from pu_noise_cli.score.contributions import MAX_SHUFFLED, contributions
from pu_noise_cli.score.model import fit_scaling
from pu_noise_cli.tables.columns import Column


def measure(x, labeled, classifier="networks", kinds=(), sign=1.0, threads=1):
    """The contributions of the columns of a table, by name."""
    training = Training(fit_scaling(x).apply(x), labeled)
    fit = CLASSIFIERS[classifier](training, 0, 1, lambda fraction: None)
    columns = [Column(f"x{i}", "number") for i in range(x.shape[1])]
    found = contributions(training, fit.parts, columns, sign, 0, threads)
    return {one.column: one for one in found}


def simulated(rng, shifts, n_labeled=1500, n_unlabeled=4000, alpha=0.3):
    """Normal features whose means differ by the shifts between the classes."""
    positive = np.append(np.ones(n_labeled, bool), rng.random(n_unlabeled) < alpha)
    x = rng.normal(size=(len(positive), len(shifts))) + np.outer(positive, shifts)
    return x, np.arange(len(positive)) < n_labeled


@pytest.mark.parametrize("classifier", ["networks", "logistic", "standard", "semi-supervised"])
def test_shares_have_the_order_of_the_true_weights(classifier):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        shifts = rng.permutation(np.linspace(0, 1.2, 12)) * rng.choice([-1, 1], 12)
        x, labeled = simulated(rng, shifts)
        found = measure(x, labeled, classifier)
        shares = np.array([found[f"x{i}"].share for i in range(12)])
        # of independent normal features, the log-likelihood ratio gains the squared shift
        assert spearmanr(shares, shifts**2).statistic >= 0.9
        assert shares.sum() == pytest.approx(1, abs=0.2)
        assert np.abs(shares - shifts**2 / (shifts**2).sum()).max() < 0.06
        strong = [i for i in range(12) if abs(shifts[i]) > 0.4]
        directions = [found[f"x{i}"].direction for i in strong]
        assert directions == ["higher" if shifts[i] > 0 else "lower" for i in strong]
        assert {one.flag for one in found.values()} == {""}


@pytest.mark.parametrize("n_labeled", [60, 1500])
def test_a_leaking_column_comes_first_and_is_flagged(n_labeled):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, labeled = simulated(rng, np.linspace(0, 1, 8), n_labeled, 3000)
        leak = labeled + rng.normal(scale=0.1, size=len(labeled))
        found = measure(np.column_stack([x, leak]), labeled, "standard")
        assert next(iter(found)) == "x8"
        assert found["x8"].flag == "dominant"


def test_a_column_that_pulls_the_wrong_way_is_flagged():
    """A column that corrects for the noise of another, though labeled rows have more of it."""
    rng = np.random.default_rng(0)
    x, labeled = simulated(rng, [2, 1, 0.3])
    x[:, 0] += x[:, 1]
    found = measure(x, labeled)
    assert found["x1"].share < -0.02
    assert found["x1"].flag == "wrong way"
    assert found["x1"].direction == "lower"


def test_columns_that_only_act_together_count():
    """Neither column differs between the classes, only the sign of their product does."""
    rng = np.random.default_rng(1)
    x, labeled = simulated(rng, np.zeros(3), 3000, 6000, alpha=0.1)
    x[labeled, 1] = np.abs(x[labeled, 1]) * np.sign(x[labeled, 0])
    found = measure(x, labeled)
    assert min(found["x0"].share, found["x1"].share) > 0.5
    assert abs(found["x2"].share) < 0.1
    assert found["x0"].direction == "mixed"


def test_of_many_columns_the_most_influential_get_a_share():
    rng = np.random.default_rng(2)
    shifts = np.zeros(3 * MAX_SHUFFLED)
    shifts[[5, 70, 400]] = 1.5, -1.0, 0.7
    x, labeled = simulated(rng, shifts, 500, 1500)
    found = measure(x, labeled)
    assert list(found)[:3] == ["x5", "x70", "x400"]
    assert sum(one.share is not None for one in found.values()) == MAX_SHUFFLED
    assert len(found) == len(shifts)


def test_threads_change_nothing_and_labeled_negatives_turn_directions():
    rng = np.random.default_rng(3)
    x, labeled = simulated(rng, [1.0, -1.0, 0.2])
    assert measure(x, labeled) == measure(x, labeled, threads=3)
    turned = measure(x, labeled, sign=-1.0)
    assert [turned[f"x{i}"].direction for i in range(2)] == ["lower", "higher"]
