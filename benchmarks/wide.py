"""Wide, long and grouped tables: processor time of `run` beside the least that could be done.

    python benchmarks/wide.py wide long groups --repeats 3 --beside ../older-checkout

Wide tables are compared with scikit-learn's logistic regression out of five folds, a long CSV with
bare parsing by pyarrow, and groups with another checkout of punoise. Each measurement is a process
on one thread, and the sides of a ratio alternate. Ratios are of medians over the repeats.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import protocol
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from scale import Measured, measured
from sklearn.metrics import roc_auc_score

REGRESSION = """
import sys
import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

labeled, unlabeled, out = sys.argv[1:]
tables = [pq.read_table(path) for path in (labeled, unlabeled)]
x = np.concatenate([np.column_stack([c.to_numpy() for c in t.columns]) for t in tables])
s = np.repeat([1, 0], [len(t) for t in tables])
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
np.save(out, cross_val_predict(model, x, s, cv=5, method="predict_proba")[s == 0, 1])
"""
PARSING = """
import sys
import pyarrow as pa, pyarrow.csv
pa.set_cpu_count(1)
options = pyarrow.csv.ReadOptions(use_threads=False)
for path in sys.argv[1:]:
    for batch in pyarrow.csv.open_csv(path, read_options=options):
        pass
"""
SHIFTED = 50  # columns in which positives differ


class Wide(NamedTuple):
    """A table of embeddings, positives shifted by so many standard deviations."""

    labeled: int
    unlabeled: int
    columns: int
    shift: float


WIDE = (Wide(100, 400, 3000, 0.52), Wide(300, 20_000, 1280, 0.58), Wide(100, 200, 20_000, 0.8))
ALPHA, BETA = 0.15, 0.95


def write_wide(folder: Path, table: Wide) -> tuple[list[str], np.ndarray]:
    """The tables as Parquet files, and the class of each unlabeled row."""
    rng, paths = np.random.default_rng(0), []
    for name, rows, share in (("l", table.labeled, BETA), ("u", table.unlabeled, ALPHA)):
        y = rng.random(rows) < share
        x = rng.standard_normal((rows, table.columns), dtype=np.float32)
        x[:, :SHIFTED] += np.float32(table.shift) * y[:, None]
        paths.append(str(folder / f"{name}.parquet"))
        pq.write_table(pa.table({f"e{i}": column for i, column in enumerate(x.T)}), paths[-1])
    return paths, y


def write_long(folder: Path, rows: int, columns: int = 20, step: int = 200_000) -> None:
    """Tables of numbers as CSV and as Parquet."""
    rng, names = np.random.default_rng(1), [f"x{i}" for i in range(columns)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    for table, count, share in (("l", rows // 100, BETA), ("u", rows - rows // 100, 0.2)):
        with (
            pyarrow.csv.CSVWriter(folder / f"{table}.csv", schema) as as_text,
            pq.ParquetWriter(folder / f"{table}.parquet", schema, use_dictionary=False) as columnar,
        ):
            for start in range(0, count, step):
                y = rng.random(min(step, count - start)) < share
                x = [pa.array(rng.normal(0.6 * y, 1)) for _ in names]
                for writer in (as_text, columnar):
                    writer.write_batch(pa.record_batch(x, schema=schema))


def write_groups(folder: Path, rows: int, groups: int) -> None:
    """A score and a group for each row; groups differ in alpha."""
    rng = np.random.default_rng(2)
    alpha = rng.beta(1, 4, groups)
    for name, count in (("l", 5000), ("u", rows)):
        group = rng.integers(0, groups, count)
        y = rng.random(count) < (BETA if name == "l" else alpha[group])
        columns = {"group": [f"G{i:06d}" for i in group], "score": rng.normal(1.5 * y, 1)}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def run(folder: Path, kind: str, *options: str, checkout: Path | None = None) -> Measured:
    """`punoise run` on one thread, perhaps of another checkout."""
    tables = ["--labeled", f"{folder}/l.{kind}", "--unlabeled", f"{folder}/u.{kind}"]
    command = [sys.executable, "-m", "pu_noise_cli", "run", *tables, *options, "--threads", "1"]
    package = checkout or Path(__file__).parent.parent
    os.environ["PYTHONPATH"] = str(package)
    return measured([*command, "--out-dir", f"{folder}/out"])


def cpu(runs: list[Measured]) -> float:
    """The median processor time."""
    return median(run.cpu for run in runs)


def wide_tables(repeats: int, beside: Path | None) -> str:
    """`run` beside logistic regression, and the AUC against the true classes."""
    head = "rows × columns | punoise s | scikit-learn s | ratio | AUC | scikit-learn's"
    lines = [f"| {head} | older punoise's |", "|---" * 7 + "|"]
    for table in WIDE:
        with tempfile.TemporaryDirectory() as directory:
            folder = Path(directory)
            paths, y = write_wide(folder, table)
            scores, ours, theirs = str(folder / "sklearn.npy"), [], []
            regression = [sys.executable, "-c", REGRESSION, *paths, scores]
            for _ in range(repeats):
                ours.append(run(folder, "parquet"))
                theirs.append(measured(regression))
            aucs = [_auc(folder, y), roc_auc_score(y, np.load(scores))]
            if beside is not None and table.columns < 20_000:
                run(folder, "parquet", checkout=beside)
                aucs.append(_auc(folder, y))
        size = f"{table.labeled + table.unlabeled:,} × {table.columns:,}"
        shown = " | ".join(f"{auc:.3f}" for auc in aucs) + " | |"[: 2 * (4 - len(aucs))]
        ratio = cpu(ours) / cpu(theirs)
        lines.append(f"| {size} | {cpu(ours):.2f} | {cpu(theirs):.2f} | {ratio:.2f} | {shown}")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def _auc(folder: Path, y: np.ndarray) -> float:
    scores = pq.read_table(folder / "out" / "scores.parquet", filters=[("set", "=", "unlabeled")])
    return float(roc_auc_score(y, scores["score"].to_numpy()))


def long_tables(repeats: int, beside: Path | None, rows: int) -> str:
    """`run` on CSV beside bare parsing, and on Parquet; perhaps beside another checkout."""
    found: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        write_long(folder, rows)
        files = [f"{folder}/{name}.csv" for name in "lu"]
        for _ in range(repeats):
            parsed = measured([sys.executable, "-c", PARSING, *files])
            found.setdefault("bare parsing of the CSV", []).append(parsed)
            for kind in ("csv", "parquet"):
                found.setdefault(f"run, {kind}", []).append(run(folder, kind))
                if beside is not None:
                    older = run(folder, kind, checkout=beside)
                    found.setdefault(f"older run, {kind}", []).append(older)
    return _times(f"{rows:,} × 20", found, "bare parsing of the CSV")


def grouped_tables(repeats: int, beside: Path | None, rows: int, groups: int) -> str:
    """`run --by` with many groups; perhaps beside another checkout."""
    options = ("--by", "group", "--score-column", "score")
    found: dict[str, list[Measured]] = {}
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        write_groups(folder, rows, groups)
        for _ in range(repeats):
            found.setdefault("run --by", []).append(run(folder, "parquet", *options))
            if beside is not None:
                older = run(folder, "parquet", *options, checkout=beside)
                found.setdefault("older run --by", []).append(older)
    return _times(f"{rows:,} rows, {groups:,} groups", found, [*found][-1])


def _times(title: str, found: dict[str, list[Measured]], reference: str) -> str:
    lines = [f"| {title} | processor s | times {reference} | MB |", "|---" * 4 + "|"]
    for name, runs in found.items():
        ratio, peak = cpu(runs) / cpu(found[reference]), median(run.peak_mb for run in runs)
        lines.append(f"| {name} | {cpu(runs):.2f} | {ratio:.2f} | {peak:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=["wide", "long", "groups"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout of punoise")
    parser.add_argument("--rows", type=float, default=2e6)
    parser.add_argument("--groups", type=float, default=1e5)
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    texts = {
        "wide": lambda: wide_tables(options.repeats, options.beside),
        "long": lambda: long_tables(options.repeats, options.beside, int(options.rows)),
        "groups": lambda: grouped_tables(
            options.repeats, options.beside, int(1e6), int(options.groups)
        ),
    }
    text = f"Medians of {options.repeats} runs each.\n\n"
    text += "\n".join(texts[part]() for part in options.parts)
    print(text)
    (protocol.HERE / "results" / "wide.md").write_text(text)


if __name__ == "__main__":
    main()
