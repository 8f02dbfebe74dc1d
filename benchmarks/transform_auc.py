"""The out-of-bag AUC of labeled against unlabeled rows beside that of the paper's table 1.

python benchmarks/transform_auc.py --data DIR --repeats 5 --classifier networks

DIR holds one Parquet file per data set, with the class in column y.
"""

import argparse
from pathlib import Path

import numpy as np
from protocol import paper, real
from sklearn.metrics import roc_auc_score

from pu_noise_cli.score.classifiers import CLASSIFIERS, Training
from pu_noise_cli.score.model import fit_scaling


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="*", help="only these")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--classifier", choices=list(CLASSIFIERS), default="networks")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    classify = CLASSIFIERS[options.classifier]

    print("| data | β | AUC | sd | paper | difference |\n|---|---|---|---|---|---|")
    differences = []
    for row in paper("table1"):
        if options.sets and row["data"] not in options.sets:
            continue
        aucs = []
        for repeat in range(options.repeats):
            rng = np.random.default_rng([repeat, round(100 * row["beta"])])
            draw = real(options.data / f"{row['data']}.parquet", row["beta"], rng)
            features = np.concatenate([draw.labeled, draw.unlabeled])
            labeled = np.arange(len(features)) < len(draw.labeled)
            training = Training(fit_scaling(features).apply(features), labeled)
            fit = classify(training, seed=repeat, threads=options.threads, progress=lambda _: None)
            aucs.append(roc_auc_score(labeled, fit.scores))
        differences.append(np.mean(aucs) - row["auc_pu"])
        print(
            f"| {row['data']} | {row['beta']} | {np.mean(aucs):.3f} | {np.std(aucs):.3f} "
            f"| {row['auc_pu']:.3f} | {differences[-1]:+.3f} |",
            flush=True,
        )
    print(f"| mean | | | | | {np.mean(differences):+.4f} |")


if __name__ == "__main__":
    main()
