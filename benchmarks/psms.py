"""Peptide-spectrum matches with known truth: what is accepted at 1 %, beside mokapot.

python benchmarks/psms.py --mokapot VENV/bin/mokapot --repeats 20
python benchmarks/psms.py --decoys shuffled --repeats 10

Both read the same file in the same run, one after the other, with one thread each. mokapot 0.10
needs older packages than punoise does, in an environment of its own:
pip install mokapot 'numpy<2' 'pandas<2.2' 'scikit-learn<1.6' 'scipy<1.13'
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from psm_simulator import CORRECT, DECOYS, DIFFICULTIES, SEARCHES, simulate, write_pin
from scale import measured

RATE = 0.01
BINS = 20
WARNING = "decoys-not-typical"
OURS = {"q": "q-value", "pep": "posterior_error_prob", "id": "PSMId"}
THEIRS = {"q": "mokapot q-value", "pep": "mokapot PEP", "id": "SpecId"}


def run(command: list[str]) -> dict[str, float]:
    """Run a command; the processor time that it took, and the memory at most."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    found = measured(command)
    return {"seconds": found.cpu, "mb": found.peak_mb}


def read_ours(path: Path) -> pd.DataFrame:
    """A table whose last column is ragged."""
    lines = [line.split("\t")[:4] for line in path.read_text().splitlines()]
    table = pd.DataFrame(lines[1:], columns=lines[0])
    return table.astype({OURS["q"]: float, OURS["pep"]: float})


def figures(table: pd.DataFrame, names: dict[str, str], truth: pd.Series) -> dict[str, float]:
    """Of the best matches of targets: accepted, the wrong share of these, and the error of PEPs."""
    wrong = (truth.reindex(table[names["id"]]) != CORRECT).to_numpy()
    accepted = (table[names["q"]] <= RATE).to_numpy()
    order = np.argsort(table[names["pep"]].to_numpy(), kind="stable")
    parts = np.array_split(order, BINS)
    pep = table[names["pep"]].to_numpy()
    errors = [abs(pep[part].mean() - wrong[part].mean()) for part in parts]
    return {
        "accepted": int(accepted.sum()),
        "wrong": float(wrong[accepted].mean()) if accepted.any() else 0.0,
        "pep_error": float(np.mean(errors)),
        "mean_pep": float(pep.mean()),
        "pi0": float(wrong.mean()),
    }


def measure(args: argparse.Namespace, difficulty: str, seed: int) -> dict[str, Any]:
    """One simulated file through both programs."""
    rng = np.random.default_rng([seed, *difficulty.encode()])
    table = simulate(rng, difficulty, args.search, args.decoys, args.matches)
    truth = table.set_index("SpecId")["truth"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pin = folder / "psms.pin"
        write_pin(table, pin)
        ours = [sys.executable, "-m", "pu_noise_cli", "run", "--table", str(pin), "--threads", "1"]
        found = {"punoise": run([*ours, "--out-dir", str(folder / "ours")])}
        prior = json.loads((folder / "ours/prior.json").read_text())
        found["punoise"] |= figures(read_ours(folder / "ours/psms.tsv"), OURS, truth)
        found["punoise"]["warned"] = WARNING in [entry["code"] for entry in prior["warnings"]]
        if args.mokapot:
            try:
                found["mokapot"] = run([args.mokapot, str(pin), "-d", str(folder / "theirs")])
            except RuntimeError as error:  # where no single feature accepts anything, it stops
                print(f"{difficulty} {seed}: {str(error)[-60:]}", file=sys.stderr)
                return {"difficulty": difficulty, "seed": seed, **found}
            written = pd.read_csv(folder / "theirs/mokapot.psms.txt", sep="\t")
            found["mokapot"] |= figures(written, THEIRS, truth)
    return {"difficulty": difficulty, "seed": seed, **found}


def report(results: list[dict[str, Any]]) -> None:
    """Means over repeats, and ratios of ours to theirs."""
    names = [name for name in ("punoise", "mokapot") if name in results[0]]
    results = [result for result in results if all(name in result for name in names)]
    by = defaultdict(list)
    for result in results:
        by[result["difficulty"]].append(result)
    print(
        "| matches | program | repeats | accepted | wrong of these, % | PEP error | mean PEP - π0 |"
    )
    print("|---|---|---|---|---|---|---|")
    for difficulty, found in by.items():
        for name in names:
            mine = pd.DataFrame([result[name] for result in found])
            print(
                f"| {difficulty} | {name} | {len(mine)} | {mine['accepted'].mean():.0f} "
                f"| {100 * mine['wrong'].mean():.2f} ± {100 * mine['wrong'].sem():.2f} "
                f"| {mine['pep_error'].mean():.4f} "
                f"| {(mine['mean_pep'] - mine['pi0']).mean():+.4f} |"
            )
    for difficulty, found in by.items():
        ours = pd.DataFrame([result["punoise"] for result in found])
        print(f"{difficulty}: warned in {ours['warned'].sum()} of {len(ours)}", end="")
        if "mokapot" in names:
            theirs = pd.DataFrame([result["mokapot"] for result in found])
            for what in ("accepted", "pep_error", "seconds", "mb"):
                print(f", {what} x {ours[what].mean() / theirs[what].mean():.3f}", end="")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--mokapot", help="its command; without it, punoise alone")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--matches", type=int, default=50_000)
    parser.add_argument("--search", choices=SEARCHES, default=SEARCHES[0])
    parser.add_argument("--decoys", choices=DECOYS, default=DECOYS[0])
    parser.add_argument("--partial", type=Path, help="where finished repeats are kept (.jsonl)")
    args = parser.parse_args()
    done: list[dict[str, Any]] = []
    if args.partial and args.partial.exists():
        done = [json.loads(line) for line in args.partial.read_text().splitlines()]
    seen = {(result["difficulty"], result["seed"]) for result in done}
    for seed in range(args.repeats):
        for difficulty in DIFFICULTIES:
            if (difficulty, seed) in seen:
                continue
            done.append(measure(args, difficulty, seed))
            if args.partial:
                with args.partial.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    report(done)


if __name__ == "__main__":
    main()
