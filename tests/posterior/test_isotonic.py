"""Isotonic regression is that of scipy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from pu_noise_cli.numerics import isotonic


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 9)), min_size=1, max_size=60))
def test_fit_and_blocks_are_those_of_scipy(rows):
    values, weights = np.array(rows, float).T
    fit, blocks = isotonic(values / 7, weights)
    expected = isotonic_regression(values / 7, weights=weights)
    np.testing.assert_allclose(fit, expected.x, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(blocks, expected.blocks[:-1])


def test_long_samples():
    rng = np.random.default_rng(0)
    values = rng.normal(np.linspace(0, 1, 8000), 1)
    weights = rng.integers(1, 1000, 8000)
    fit, _ = isotonic(values, weights)
    np.testing.assert_allclose(fit, isotonic_regression(values, weights=weights).x, rtol=1e-12)
