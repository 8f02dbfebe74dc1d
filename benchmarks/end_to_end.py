"""`run`, stage by stage, beside what a user would write instead: processor time, memory, error.

    python benchmarks/end_to_end.py --sizes 11000x13 1000000x20 --mokapot ENV/bin/python

Beside it, in the same environment: scikit-learn's bagged networks on as many rows, DEDPUL or best
bin estimation, isotonic calibration. On rows like matches of spectra, half of them decoys: mokapot,
by the Python of an environment that has it and pyarrow. Every one runs in a process and on a thread
of its own; times are the processor's, so that other work on the machine changes them little.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import protocol
import pyarrow as pa
import pyarrow.parquet as pq
import scale

ALPHA, BETA = 0.2, 0.95
LABELED_SHARE = 1 / 11
STEP = 1 << 17
MATCHED = 0.4  # share of right matches among the targets
# of positives, in standard deviations of the first features; a match has a score to begin with
SHIFTS = (1.2,) * 6
SHIFTS_OF_MATCHES = (3.0, *SHIFTS[1:])
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
REST = "start-up and the rest"

# stages by the clock of the processor
PUNOISE = """
import sys, time, types
import pu_noise_cli.scale.engine
pu_noise_cli.scale.engine.time = types.SimpleNamespace(monotonic=time.process_time)
from pu_noise_cli.cli.process import main
main()
"""

NOTEBOOK = """
import json, sys, time, warnings
sys.path.insert(0, {here!r})
seconds, start = {{}}, 0.0
def stage(name):
    global start
    now = time.process_time()
    seconds[name], start = now - start, now

import numpy as np, pandas as pd
from sklearn.ensemble import BaggingClassifier
from sklearn.isotonic import IsotonicRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from peers import bbe, dedpul
from pu_noise_cli.score.sketch import Sketch
warnings.simplefilter("ignore")
stage("{rest}")
labeled, unlabeled = (pd.read_parquet({folder!r} + name) for name in ("/l.parquet", "/u.parquet"))
x = np.concatenate([labeled, unlabeled]).astype(np.float32)
s = np.arange(len(x)) < len(labeled)
rng = np.random.default_rng(0)
rows = np.sort(rng.permutation(len(x))[:{most}])
stage("sample")
scaler = StandardScaler().fit(x[rows])
networks = BaggingClassifier(
    MLPClassifier((5,), activation="tanh", early_stopping=True), 100, oob_score=True, random_state=0
)
networks.fit(scaler.transform(x[rows]), s[rows])
stage("train")
scores = np.empty(len(x))
others = np.setdiff1d(np.arange(len(x)), rows)
if len(others):
    scores[others] = networks.predict_proba(scaler.transform(x[others]))[:, 1]
scores[rows] = networks.oob_decision_function_[:, 1]
stage("score")
sketch = Sketch.from_samples(scores[s], scores[~s])
found = {{"DEDPUL": dedpul(sketch), "BBE": bbe(sketch)}}
stage("estimate")
tau = IsotonicRegression(out_of_bounds="clip").fit(scores, s).predict(scores)
share = s.mean()
odds = tau / (1 - tau).clip(1e-9) * (1 - share) / share
posterior = np.clip(found["DEDPUL"] * odds, 0, 1)
frame = pd.DataFrame({{"score": scores, "posterior": posterior}})
frame.to_parquet({folder!r} + "/notebook.parquet")
stage("posterior")
print(json.dumps({{"seconds": seconds, "alpha": found}}))
"""

MOKAPOT = """
import json, time, warnings
seconds, start = {{}}, 0.0
def stage(name):
    global start
    now = time.process_time()
    seconds[name], start = now - start, now

import numpy as np, pandas as pd
import mokapot
warnings.simplefilter("ignore")
stage("{rest}")
tables = [pd.read_parquet({folder!r} + name) for name in ("/l.parquet", "/u.parquet")]
psms = pd.concat(tables, ignore_index=True)
features = list(psms.columns)
n = len(psms)
psms["Label"] = np.arange(n) >= len(tables[0])
psms["SpecId"] = psms["ScanNr"] = np.arange(n)
psms["Peptide"] = [f"P{{i}}" for i in range(n)]
psms["Proteins"] = [f"Q{{i}}" for i in range(n)]
data = mokapot.LinearPsmDataset(
    psms, target_column="Label", spectrum_columns=["SpecId", "ScanNr"], peptide_column="Peptide",
    protein_column="Proteins", feature_columns=features,
)
stage("sample")
results, _ = mokapot.brew(data)
stage("train")
psms = results.confidence_estimates["psms"]
psms.to_csv({folder!r} + "/mokapot.tsv", sep="\\t", index=False)
stage("posterior")
alpha = float((1 - psms["mokapot PEP"]).mean())
print(json.dumps({{"seconds": seconds, "alpha": {{"mokapot": alpha}}}}))
"""


def write_table(
    path: Path, rows: int, columns: int, share: float, shifts: tuple[float, ...] = SHIFTS
) -> int:
    """A table of features in which a share of the rows is positive; returns how many are."""
    rng = np.random.default_rng([rows, columns, round(1000 * share)])
    names = [f"x{i}" for i in range(columns)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    positives = 0
    with pq.ParquetWriter(path, schema, use_dictionary=False) as writer:
        for first in range(0, rows, STEP):
            y = rng.random(min(STEP, rows - first)) < share
            x = rng.normal(size=(columns, len(y)))
            x[: len(shifts)] += np.outer(shifts, y)
            writer.write_batch(pa.record_batch([pa.array(values) for values in x], schema=schema))
            positives += int(y.sum())
    return positives


def punoise(folder: Path, *options: str) -> dict[str, object]:
    """`run` on the tables of a folder: seconds of each stage, and α."""
    out = folder / "run"
    tables = ["--labeled", f"{folder}/l.parquet", "--unlabeled", f"{folder}/u.parquet"]
    command = ["run", *tables, "--out-dir", str(out), "--threads", "1", *options]
    found = scale.measured([sys.executable, "-c", PUNOISE, *command])
    seconds = json.loads((out / "provenance.json").read_text())["execution"]["seconds"]
    seconds = {**seconds, REST: found.cpu - sum(seconds.values())}
    alpha = json.loads((out / "prior.json").read_text())["alpha"]
    return {"seconds": seconds, "alpha": {"punoise": alpha}, "found": found}


def script(python: str, code: str, folder: Path, **names: object) -> dict[str, object]:
    """A script of somebody else's tools, which prints its seconds and α."""
    file, said = folder / "script.py", folder / "said.json"
    file.write_text(
        code.format(here=str(Path(__file__).parent), folder=str(folder), rest=REST, **names)
    )
    with said.open("w") as out:
        found = scale.measured([python, str(file)], stdout=out)
    return {**json.loads(said.read_text().splitlines()[-1]), "found": found}


def table(title: str, truth: float, ours: dict, theirs: dict, name: str) -> str:
    """Both side by side, stage by stage."""
    lines = [f"### {title}", "", f"| | {name} | punoise | ratio |", "|---|---|---|---|"]
    for stage in ours["seconds"]:
        mine, other = ours["seconds"][stage], theirs["seconds"].get(stage)
        shown = "" if other is None else f"{other:.2f} s"
        ratio = "" if other is None or mine <= 0 else f"{other / mine:.1f}"
        lines.append(f"| {stage} | {shown} | {mine:.2f} s | {ratio} |")
    mine, other = ours["found"], theirs["found"]
    lines.append(f"| **all** | {other.cpu:.1f} s | {mine.cpu:.1f} s | {other.cpu / mine.cpu:.1f} |")
    ratio = other.peak_mb / mine.peak_mb
    lines.append(f"| peak memory | {other.peak_mb:.0f} MB | {mine.peak_mb:.0f} MB | {ratio:.1f} |")
    errors = [
        ", ".join(f"{method} {value - truth:+.3f}" for method, value in of["alpha"].items())
        for of in (theirs, ours)
    ]
    lines.append(f"| error of α ({truth:.3f}) | {errors[0]} | {errors[1]} | |")
    return "\n".join(lines) + "\n"


def compare(folder: Path, size: str, most: int, mokapot: str | None) -> list[str]:
    """The tables of one size, ROWSxCOLUMNS."""
    rows, columns = map(int, size.split("x"))
    n_labeled = round(rows * LABELED_SHARE)
    write_table(folder / "l.parquet", n_labeled, columns, BETA)
    positives = write_table(folder / "u.parquet", rows - n_labeled, columns, ALPHA)
    title = f"{rows:,} × {columns}"
    ours = punoise(folder)
    theirs = script(sys.executable, NOTEBOOK, folder, most=most)
    found = [table(title, positives / (rows - n_labeled), ours, theirs, "notebook")]
    print(found[-1], flush=True)
    if mokapot is not None:
        targets = rows - rows // 2
        write_table(folder / "l.parquet", rows // 2, columns, 0)
        positives = write_table(folder / "u.parquet", targets, columns, MATCHED, SHIFTS_OF_MATCHES)
        ours = punoise(folder, "--labeled-are", "negatives", "--beta", "1")
        theirs = script(mokapot, MOKAPOT, folder)
        title = f"{title}, half of them decoys"
        found.append(table(title, positives / targets, ours, theirs, "mokapot"))
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", default=["11000x13", "1000000x20", "10000000x20"])
    parser.add_argument("--max-train-rows", type=int, default=100_000, help="of the notebook")
    parser.add_argument("--mokapot", help="the Python of an environment with mokapot")
    parser.add_argument("--scratch", type=Path, help="where the tables are made")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ.update(ONE_THREAD)
    parts: list[str] = []
    for size in options.sizes:
        folder = Path(tempfile.mkdtemp(dir=options.scratch))
        try:
            parts += compare(folder, size, options.max_train_rows, options.mokapot)
        finally:
            shutil.rmtree(folder)
    protocol.report(options.results / "end_to_end.md", "End to end", "\n".join(parts))


if __name__ == "__main__":
    main()
