"""The tables of the tutorial on saturation genome editing.

python saturation_editing.py tables FILE    write pathogenic.csv, benign.csv and population.csv
python saturation_editing.py stand-in       the tables, from random scores of the same shape

FILE has the columns `score` and `sample_assignments`, codes joined by commas: 0 pathogenic,
1 benign, 2 gnomAD, 3 synonymous.
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

PATHOGENIC, BENIGN, GNOMAD, SYNONYMOUS = "0123"


def sample(codes: set[str]) -> list[str]:
    """The tables that a variant belongs to; synonymous variants are controls, not population."""
    return [
        name
        for name, belongs in {
            "pathogenic": PATHOGENIC in codes,
            "benign": bool(codes & {BENIGN, SYNONYMOUS}),
            "population": GNOMAD in codes and SYNONYMOUS not in codes,
        }.items()
        if belongs
    ]


def write(variants: list[tuple[str, set[str]]]) -> None:
    rows: dict[str, list[tuple[str, str]]] = {"pathogenic": [], "benign": [], "population": []}
    for number, (score, codes) in enumerate(variants):
        for name in sample(codes):
            rows[name].append((f"v{number}", score))
    for name, some in rows.items():
        with Path(f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("variant", "score"), *some])


def published(file: str) -> list[tuple[str, set[str]]]:
    with Path(file).open() as rows:
        return [(r["score"], set(r["sample_assignments"].split(","))) for r in csv.DictReader(rows)]


def made_up(rng: random.Random) -> list[tuple[str, set[str]]]:
    """Two modes: variants without function score about -2, others about 0."""
    numbers = {"0": 320, "3": 280, "2": 490, "1": 158, "1,3": 157, "1,2": 112, "0,2": 90}
    lost = {"0": 0.99, "0,2": 0.99, "2": 0.09}  # the fraction without function
    variants = []
    for codes, number in numbers.items():
        for _ in range(number):
            is_lost = rng.random() < lost.get(codes, 0.01)
            score = rng.gauss(-2, 0.4) if is_lost else rng.gauss(0, 0.25)
            variants.append((f"{score:.4f}", set(codes.split(","))))
    return variants


if __name__ == "__main__":
    command, *files = sys.argv[1:] or ["help"]
    if command == "tables":
        write(published(*files))
    elif command == "stand-in":
        write(made_up(random.Random(1)))
    else:
        print(__doc__)
