"""The tables of the tutorial on peptides, and the truth behind them.

pip install --no-deps modlamp        (BSD-3; has 2,600 antimicrobial and 2,600 other peptides)
python peptides.py tables            write known.csv, all.csv and truth.csv
python peptides.py compare FOLDER    compare the lists of a run with the truth
python peptides.py verify AUDIT      fill in the verdicts of an audit, as an expert would
python peptides.py stand-in          the tables, from random peptides of the same shape
"""

from __future__ import annotations

import csv
import random
import sys
from importlib import resources
from pathlib import Path

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
HYDROPATHY = dict(
    zip(
        "ARNDCQEGHILKMFPSTWYV",
        (
            1.8,
            -4.5,
            -3.5,
            -3.5,
            2.5,
            -3.5,
            -3.5,
            -0.4,
            -3.2,
            4.5,
            3.8,
            -3.9,
            1.9,
            2.8,
            -1.6,
            -0.8,
            -0.7,
            -0.9,
            -1.3,
            4.2,
        ),
        strict=True,
    )
)
CHARGE = {"K": 1, "R": 1, "D": -1, "E": -1}
N_KNOWN, N_WRONG, N_POSITIVE, N_OTHER = 135, 15, 500, 2000


def published() -> dict[str, bool]:
    """Peptides, and whether they are antimicrobial."""
    file = resources.files("modlamp").joinpath("data", "AMPvsUniProt.csv")
    rows = list(csv.reader(file.read_text().splitlines()))[1:]
    return {row[0]: row[1].strip() == "1" for row in rows if set(row[0]) <= set(AMINO_ACIDS)}


def made_up(rng: random.Random) -> dict[str, bool]:
    """Random peptides; antimicrobial ones are richer in lysine, glycine and cysteine."""
    weights = {True: [3 if a in "KGCLI" else 1 for a in AMINO_ACIDS], False: [1] * 20}
    return {
        "".join(rng.choices(AMINO_ACIDS, weights[kind], k=rng.randint(15, 45))): kind
        for kind in (True, False)
        for _ in range(2400)
    }


def features(peptide: str) -> dict[str, float]:
    n = len(peptide)
    charges = [CHARGE.get(a, 0) for a in peptide]
    return {
        "length": n,
        "net_charge": sum(charges),
        "hydropathy": round(sum(HYDROPATHY[a] for a in peptide) / n, 4),
        **{f"percent_{a}": round(100 * peptide.count(a) / n, 2) for a in AMINO_ACIDS},
    }


def write(file: str, rows: list[dict[str, object]]) -> None:
    with Path(file).open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def tables(peptides: dict[str, bool]) -> None:
    """150 known peptides, 15 of them wrong, and 2,500 of unknown class, 500 of them positive."""
    rng = random.Random(1)
    positive = [p for p, kind in peptides.items() if kind]
    other = [p for p, kind in peptides.items() if not kind]
    rng.shuffle(positive)
    rng.shuffle(other)
    known = positive[:N_KNOWN] + other[:N_WRONG]
    rest = positive[N_KNOWN : N_KNOWN + N_POSITIVE] + other[N_WRONG : N_WRONG + N_OTHER]
    for name, chosen in (("known.csv", known), ("all.csv", rest)):
        rng.shuffle(chosen)
        write(name, [{"peptide": p, **features(p)} for p in chosen])
    write("truth.csv", [{"peptide": p, "antimicrobial": int(peptides[p])} for p in known + rest])


def truth() -> dict[str, bool]:
    with Path("truth.csv").open() as file:
        return {row["peptide"]: row["antimicrobial"] == "1" for row in csv.DictReader(file)}


def compare(folder: str) -> None:
    """How many candidates are right, and how many labels to check are wrong."""
    correct = truth()
    for name, best, what in (("candidates", 100, True), ("labels_to_check", 20, False)):
        with (Path(folder) / f"{name}.tsv").open() as file:
            ids = [row["id"] for row in csv.DictReader(file, delimiter="\t")][:best]
        right = sum(correct[peptide] is what for peptide in ids)
        kind = "antimicrobial" if what else "wrong labels"
        print(f"{name}.tsv: of the first {len(ids)}, {right} are {kind}")


def verify(audit: str) -> None:
    correct = truth()
    with Path(audit).open() as file:
        reader = csv.DictReader(file, delimiter="\t")
        rows, names = list(reader), reader.fieldnames or []
    with Path(audit).open("w", newline="") as file:
        writer = csv.DictWriter(file, names, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({**row, "verdict": "yes" if correct[row["id"]] else "no"})


if __name__ == "__main__":
    command, *files = sys.argv[1:] or ["help"]
    if command == "tables":
        tables(published())
    elif command == "stand-in":
        tables(made_up(random.Random(2)))
    elif command in ("compare", "verify"):
        (compare if command == "compare" else verify)(*files)
    else:
        print(__doc__)
