"""Few labeled rows and many features: a gene set of 50, of which 45 are right, among 18,000 genes.

python benchmarks/small.py --repeats 5

200 features, of which 20 inform; 2 % of the unlabeled genes are positive. Average precision of each
classifier's out-of-bag scores, and what the default says of the best hundred.
"""

from __future__ import annotations

import argparse

import numpy as np
from calibration import calibration_error
from sklearn.metrics import average_precision_score

from pu_noise_cli.posterior.calibration import calibrate
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import shares_for
from pu_noise_cli.prior.estimation import estimate_prior
from pu_noise_cli.score.classifiers import CLASSIFIERS, Training
from pu_noise_cli.score.model import fit_scaling
from pu_noise_cli.score.sketch import Sketch

LABELED, UNLABELED, FEATURES, INFORMING = 50, 18_000, 200, 20
ALPHA, BETA = 0.02, 0.9
SHIFT = 0.75  # of positives in each informing feature, in standard deviations


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, d), which rows are labeled and which positive, both (n,); labeled rows first."""
    rng = np.random.default_rng(seed)
    labeled = np.arange(LABELED + UNLABELED) < LABELED
    share = np.where(labeled, BETA, ALPHA)
    y = rng.random(len(share)) < share
    x = rng.normal(size=(len(y), FEATURES))
    x[:, :INFORMING] += SHIFT * y[:, None]
    return x, labeled, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--classifiers", nargs="+", default=["standard", "networks", "logistic"])
    options = parser.parse_args()
    print("| classifier | average precision | ECE | top 100: posterior | true share |")
    print("|---|---|---|---|---|")
    for name in options.classifiers:
        found = []
        for repeat in range(options.repeats):
            x, labeled, y = draw(repeat)
            training = Training(fit_scaling(x).apply(x), labeled)
            fit = CLASSIFIERS[name](training, seed=repeat, threads=1, progress=lambda share: None)
            scores, truth = fit.scores[~labeled], y[~labeled]
            sketch = Sketch.from_samples(fit.scores[labeled], scores)
            prior = estimate_prior(sketch, "auto", Settings())
            p = calibrate(*shares_for(prior, sketch)[:2]).posterior[sketch.cell_index(scores)]
            top = np.argsort(-scores)[:100]
            found.append(
                [
                    average_precision_score(truth, scores),
                    calibration_error(p, truth),
                    p[top].mean(),
                    truth[top].mean(),
                ]
            )
        print(f"| {name} | " + " | ".join(f"{x:.3f}" for x in np.mean(found, axis=0)) + " |")


if __name__ == "__main__":
    main()
