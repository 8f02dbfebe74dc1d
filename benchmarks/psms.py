"""Peptide-spectrum matches with known truth: what is accepted and how much of it is wrong.

python benchmarks/psms.py --mokapot VENV/bin/mokapot --ristretto VENV2/bin/python --repeats 20
python benchmarks/psms.py --matches 2000 --repeats 20      # small files
python benchmarks/psms.py --runs 5 --by-charge             # an experiment of five runs, by charge
python benchmarks/psms.py --decoys shuffled --repeats 10

All read the same files in the same run, one after the other, with one thread each. mokapot 0.10
needs older packages than punoise does, in an environment of its own:
pip install mokapot 'numpy<2' 'pandas<2.2' 'scikit-learn<1.6' 'scipy<1.13'
ristretto is called from Python: pip install ristretto-ms
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
from psm_simulator import CORRECT, DECOYS, DIFFICULTIES, FEATURES, SEARCHES, simulate, write_pin
from scale import measured

RATES = (0.01, 0.05)
BINS = 20
WARNING = "decoys-not-typical"
LEVELS = ("psms", "peptides")
NAMES = {  # of columns
    "punoise": {"id": "PSMId", "q": "q-value", "pep": "posterior_error_prob"},
    "mokapot": {"id": "SpecId", "q": "mokapot q-value", "pep": "mokapot PEP"},
    "ristretto": {"id": "id", "q": "qvalue", "pep": "pep"},
}
RISTRETTO = """
import sys, pandas as pd
from ristretto import rescore
*files, features, rate, folder = sys.argv[1:]
features = features.split(",")
parts = []
for file in files:
    with open(file) as lines:
        header = next(lines).rstrip("\\n").split("\\t")
        rows = [line.rstrip("\\n").split("\\t", len(header) - 1) for line in lines]
    part = pd.DataFrame(rows, columns=header)
    part[features] = part[features].apply(pd.to_numeric)
    parts.append(part.assign(run=file))
table = pd.concat(parts, ignore_index=True)
table["is_decoy"] = table["Label"] == "-1"
found = rescore(table, spectrum_id_col="ScanNr", run_col="run", peptidoform_col="Peptide",
                feature_cols=features, train_fdr=float(rate))
written = found.psms.join(table[["SpecId"]].rename(columns={"SpecId": "id"}), how="left")
written = written[~written["is_decoy"].astype(bool)]
written.to_csv(f"{folder}/psms.tsv", sep="\\t")  # its peptides do not name their match
"""


def run(command: list[str]) -> dict[str, float]:
    """Run a command; the processor time that it took, and the memory at most."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    found = measured(command)
    return {"seconds": found.cpu, "mb": found.peak_mb}


def read(path: Path) -> pd.DataFrame:
    """A table whose last column may be ragged."""
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    width = len(lines[0])
    table = pd.DataFrame([line[:width] for line in lines[1:]], columns=lines[0])
    numbers = {name for names in NAMES.values() for name in (names["q"], names["pep"])}
    numbers = [name for name in table.columns if name in {*numbers, "run_q-value"}]
    table[numbers] = table[numbers].astype(float)
    return table


def figures(table: pd.DataFrame, names: dict[str, str], truth: pd.Series) -> dict[str, float]:
    """Of targets: accepted, the wrong share of these, and the error of PEPs."""
    wrong = (truth.reindex(table[names["id"]]) != CORRECT).to_numpy()
    found: dict[str, float] = {}
    for rate in RATES:
        accepted = (table[names["q"]] <= rate).to_numpy()
        found[f"accepted_{rate}"] = int(accepted.sum())
        found[f"wrong_{rate}"] = float(wrong[accepted].mean()) if accepted.any() else 0.0
    pep = table[names["pep"]].to_numpy()
    parts = np.array_split(np.argsort(pep, kind="stable"), BINS)
    errors = [abs(pep[part].mean() - wrong[part].mean()) for part in parts if len(part)]
    found |= {"pep_error": float(np.mean(errors)), "pi0_error": float(pep.mean() - wrong.mean())}
    return found


def by_part(table: pd.DataFrame, part: str, q: str, truth: pd.Series) -> dict[str, float]:
    """Within runs or groups: the wrong share of what is accepted at 1%, and the error of PEPs."""
    found = defaultdict(list)
    names = {"id": "PSMId", "q": q, "pep": "posterior_error_prob"}
    for _, mine in table.groupby(part):
        for name, value in figures(mine, names, truth).items():
            found[name].append(value)
    accepted = np.array(found["accepted_0.01"])
    wrong = np.array(found["wrong_0.01"]) * accepted
    return {
        "wrong": float(wrong.sum() / max(accepted.sum(), 1)),
        "accepted": int(accepted.sum()),
        "pep_error": float(np.mean(found["pep_error"])),
    }


def simulate_runs(args: argparse.Namespace, difficulty: str, seed: int, folder: Path) -> pd.Series:
    """Write the files of an experiment; the truth of each match by its id."""
    truths = []
    for number in range(args.runs):
        rng = np.random.default_rng([seed, *difficulty.encode(), *([number] if number else [])])
        table = simulate(rng, difficulty, args.search, args.decoys, args.matches, args.by_charge)
        if args.runs > 1:
            table["SpecId"] = f"{number}_" + table["SpecId"]
        write_pin(table, folder / f"run{number}.pin")
        truths.append(table.set_index("SpecId")["truth"])
    return pd.concat(truths)


def measure(args: argparse.Namespace, difficulty: str, seed: int) -> dict[str, Any]:
    """One simulated experiment through all programs."""
    result: dict[str, Any] = {"difficulty": difficulty, "seed": seed}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        truth = simulate_runs(args, difficulty, seed, folder)
        pins = sorted(map(str, folder.glob("*.pin")))
        own = [sys.executable, "-m", "pu_noise_cli", "matches", *pins, "--threads", "1"]
        own += ["--by", "charge"] if args.by_charge else []
        commands = {"punoise": [*own, "--out-dir", str(folder / "punoise")]}
        if args.mokapot:
            several = ["--aggregate"] if args.runs > 1 else []
            commands["mokapot"] = [args.mokapot, *pins, *several, "-d", str(folder / "mokapot")]
            rates = ["--train_fdr", str(args.train_fdr), "--test_fdr", str(args.train_fdr)]
            commands["mokapot"] += rates
        if args.ristretto:
            given = [*pins, ",".join(FEATURES), str(args.train_fdr), str(folder / "ristretto")]
            commands["ristretto"] = [args.ristretto, "-c", RISTRETTO, *given]
        for program, command in commands.items():
            (folder / program).mkdir(exist_ok=True)
            try:
                result[program] = run(command)
            except RuntimeError as error:  # where no single feature accepts anything, they stop
                print(f"{difficulty} {seed} {program}: {str(error)[-60:]}", file=sys.stderr)
                continue
            for level in LEVELS:
                if program == "ristretto" and level != "psms":
                    continue
                file = f"mokapot.{level}.txt" if program == "mokapot" else f"{level}.tsv"
                table = read(folder / program / file)
                found = figures(table, NAMES[program], truth)
                result[program] |= {f"{level}_{key}": value for key, value in found.items()}
                if program == "punoise" and level == "psms":
                    result["runs"] = by_part(table, "file", "run_q-value", truth)
                    if args.by_charge:
                        result["groups"] = by_part(table, "group", "q-value", truth)
                        for charge, mine in table.groupby("group"):
                            part = by_part(mine, "group", "q-value", truth)
                            result[f"charge {charge}"] = part
        said = json.loads((folder / "punoise/matches.json").read_text())["warnings"]
        result["warned"] = WARNING in [entry["code"] for entry in said]
    return result


def mean(values: pd.Series, factor: float = 1, digits: int = 2) -> str:
    """A mean with its standard error."""
    return f"{factor * values.mean():.{digits}f} ± {factor * values.sem():.{digits}f}"


def report(results: list[dict[str, Any]]) -> None:
    """Means over repeats; a program that stopped has accepted nothing."""
    by = defaultdict(list)
    for result in results:
        by[result["difficulty"]].append(result)
    columns = "accepted at 1% | wrong, % | accepted at 5% | wrong, % | PEP error | CPU s | MB"
    print(f"| matches | level | program | repeats | {columns} |")
    print("|" + "---|" * (4 + columns.count("|") + 1))
    for difficulty, found in by.items():
        for level in LEVELS:
            for program in NAMES:
                mine = pd.DataFrame([result[program] for result in found if program in result])
                if mine.empty or f"{level}_pep_error" not in mine:
                    continue
                share = len(mine) / len(found)
                cells = []
                for rate in RATES:
                    cells.append(f"{share * mine[f'{level}_accepted_{rate}'].mean():.1f}")
                    cells.append(mean(mine[f"{level}_wrong_{rate}"], 100))
                cells += [f"{mine[f'{level}_pep_error'].mean():.4f}"]
                cells += [f"{mine['seconds'].mean():.1f}", f"{mine['mb'].mean():.0f}"]
                start = f"{difficulty} | {level} | {program} | {len(mine)}"
                print(f"| {start} | {' | '.join(cells)} |")
    for difficulty, found in by.items():
        print(f"{difficulty}: warned in {sum(result['warned'] for result in found)}", end="")
        for part in ("runs", "groups", "charge 2", "charge 3", "charge 4"):
            if part in found[0]:
                mine = pd.DataFrame([result[part] for result in found])
                print(
                    f"; {part}: {mean(mine['wrong'], 100)}% wrong of "
                    f"{mine['accepted'].mean():.0f}, PEP error {mine['pep_error'].mean():.4f}",
                    end="",
                )
        print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--mokapot", help="its command; without it, it is left out")
    parser.add_argument("--ristretto", help="the Python that has it; without it, it is left out")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--matches", type=int, default=50_000, help="of each run")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--by-charge", action="store_true", help="charges differ, and are groups")
    parser.add_argument("--difficulty", choices=DIFFICULTIES, nargs="+", default=[*DIFFICULTIES])
    parser.add_argument("--train-fdr", type=float, default=0.01, help="of the others")
    parser.add_argument("--search", choices=SEARCHES, default=SEARCHES[0])
    parser.add_argument("--decoys", choices=DECOYS, default=DECOYS[0])
    parser.add_argument("--partial", type=Path, help="where finished repeats are kept (.jsonl)")
    args = parser.parse_args()
    done: list[dict[str, Any]] = []
    if args.partial and args.partial.exists():
        done = [json.loads(line) for line in args.partial.read_text().splitlines()]
    seen = {(result["difficulty"], result["seed"]) for result in done}
    for seed in range(args.repeats):
        for difficulty in args.difficulty:
            if (difficulty, seed) in seen:
                continue
            done.append(measure(args, difficulty, seed))
            if args.partial:
                with args.partial.open("a") as file:
                    file.write(json.dumps(done[-1]) + "\n")
    report(done)


if __name__ == "__main__":
    main()
