"""How much the exact curve saves, and that estimation does not slow down with the rows.

python benchmarks/alphamax_speed.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from pu_noise_cli.prior import alphamax
from pu_noise_cli.prior.base import ESTIMATORS, Settings
from pu_noise_cli.score.sketch import Sketch

TIMED = 5  # of the proportions, by the slow way; the others are taken to cost the same


def draw(rng: np.random.Generator, share: float, n: int) -> np.ndarray:
    return rng.normal(size=n) + 2.0 * (np.arange(n) < round(share * n))


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The least time of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def per_sample_optimum(mixture: np.ndarray, component: np.ndarray, r: float) -> float:
    """The paper's step 3: SLSQP over ω with analytic gradients, the likelihood summed over rows.

    The rows of the mixture and the component are given as indicators of their bins, (n, bins).
    """
    v, c = mixture.mean(0), component.mean(0)

    def loss(omega: np.ndarray) -> tuple[float, np.ndarray]:
        m = mixture @ (r * c + (1 - omega) * v)
        g = component @ (omega * v / r)
        gradient = (mixture.T @ (1 / m)) * -v + (component.T @ (1 / g)) * (v / r)
        n = len(m) + len(g)
        return -(np.log(m).sum() + np.log(g).sum()) / n, -gradient / n

    found = minimize(
        loss,
        np.full(len(v), r),
        jac=True,
        method="SLSQP",
        bounds=[(1e-9, 1 - 1e-9)] * len(v),
        constraints={"type": "eq", "fun": lambda omega: omega @ v - r, "jac": lambda omega: v},
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    return -float(found.fun) * (len(mixture) + len(component))


def curve_against_optimiser() -> None:
    rng = np.random.default_rng(0)
    sketch = Sketch.from_samples(draw(rng, 0.95, 1000), draw(rng, 0.3, 10_000))
    mixture, component = alphamax.histogram(sketch.scores, sketch.unlabeled, sketch.labeled)
    grid = alphamax.GRID
    exact = seconds(lambda: alphamax.log_likelihood(mixture, component, grid), 20)
    bins = np.eye(len(mixture))
    rows = [bins.repeat(counts.astype(np.int64), axis=0) for counts in (mixture, component)]
    timed = grid[np.linspace(0, len(grid) - 1, TIMED + 2).astype(int)[1:-1]]
    slow = np.mean([seconds(lambda r=r: per_sample_optimum(*rows, r), 1) for r in timed])
    optima = [per_sample_optimum(*rows, r) for r in timed]
    gap = np.abs(alphamax.log_likelihood(mixture, component, timed) - optima).max()
    print(f"curve of {len(grid)} proportions, 1,000 + 10,000 rows, {len(mixture)} bins")
    print(f"  exact                    {exact * 1e3:10.2f} ms")
    print(
        f"  SLSQP over the rows      {slow * len(grid) * 1e3:10.2f} ms ({TIMED} timed, scaled up)"
    )
    print(f"  ratio                    {slow * len(grid) / exact:10.0f}")
    print(f"  largest difference       {gap:10.1e} of a log-likelihood of {optima[0]:.0f}")


def sketch_of(rows: int, shard: int = 1_000_000) -> Sketch:
    """A tenth of the rows labeled."""
    rng = np.random.default_rng(0)
    sizes = [min(shard, rows - start) for start in range(0, rows, shard)]
    return Sketch.merge(
        Sketch.from_samples(draw(rng, 0.9, n // 10), draw(rng, 0.3, n - n // 10)) for n in sizes
    )


def rows_against_rows() -> None:
    few, many = sketch_of(10_000), sketch_of(10_000_000)
    print("\nestimation given a sketch       10,000 rows   10,000,000 rows   ratio")
    for method in ESTIMATORS.values():
        if method.needs == "scores":
            a, b = (
                seconds(lambda s=s, m=method: m.estimate(s, Settings()), 10) for s in (few, many)
            )
            print(f"  {method.name:<24} {a * 1e3:13.2f} ms {b * 1e3:14.2f} ms {b / a:7.2f}")


if __name__ == "__main__":
    curve_against_optimiser()
    rows_against_rows()
