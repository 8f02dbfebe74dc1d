"""The network ensemble beside scikit-learn's bagged networks: time and out-of-bag AUC, in one run.

python benchmarks/transform_speed.py --threads 2

At one thread time is that of the processor, which other work on the machine does not change.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from pu_noise_cli.scale.engine import ahead
from pu_noise_cli.score.classifiers import Training, paper_networks

N_LABELED, N_UNLABELED = 1_000, 10_000
N_SCORED = 1_000_000
CHUNK = 50_000  # rows that `score` reads at a time, about


def sample(d: int) -> Training:
    """Labeled rows are positive, unlabeled ones to a fifth."""
    features, y = make_classification(
        4 * N_UNLABELED, d, n_informative=8, n_clusters_per_class=3, weights=[0.5], random_state=d
    )
    positive, negative = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    n_positive = N_LABELED + N_UNLABELED // 5
    rows = np.concatenate([positive[:n_positive], negative[: N_UNLABELED * 4 // 5]])
    features = features[rows]
    features = (features - features.mean(0)) / features.std(0)
    return Training(features.astype(np.float32), np.arange(len(rows)) < N_LABELED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--columns", type=int, nargs="+", default=[13, 126])
    threads = parser.parse_args().threads
    columns = parser.parse_args().columns
    clock = time.process_time if threads == 1 else time.perf_counter
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| columns | step | scikit-learn | punoise | ratio |\n|---|---|---|---|---|")
    for d in columns:
        training = sample(d)
        network = MLPClassifier((5,), activation="tanh", early_stopping=True)
        bagging = BaggingClassifier(
            network, n_estimators=100, oob_score=True, n_jobs=threads, random_state=0
        )
        start = clock()
        with threadpool_limits(1):  # the threads are the bagging's
            bagging.fit(training.features, training.labeled)
        theirs = clock() - start
        start = clock()
        fit = paper_networks(training, seed=0, threads=threads, progress=lambda _: None)
        ours = clock() - start
        print(f"| {d} | train | {theirs:.2f} s | {ours:.2f} s | {theirs / ours:.1f} |")
        aucs = [
            roc_auc_score(training.labeled, scores)
            for scores in (bagging.oob_decision_function_[:, 1], fit.scores)
        ]
        print(f"| {d} | out-of-bag AUC | {aucs[0]:.4f} | {aucs[1]:.4f} | |", flush=True)

        repeats = -(-N_SCORED // len(training.features))
        rows = np.tile(training.features, (repeats, 1))[:N_SCORED]
        start = clock()
        with threadpool_limits(1):
            bagging.predict(rows)
        theirs = clock() - start
        start = clock()
        parts = np.array_split(rows, N_SCORED // CHUNK)
        list(ahead(fit.model.predict, parts, threads))
        ours = clock() - start
        ratio = theirs / ours
        print(f"| {d} | score {N_SCORED:,} rows | {theirs:.2f} s | {ours:.2f} s | {ratio:.1f} |")


if __name__ == "__main__":
    main()
