"""The tables of the tutorial on missense variants, and the truth behind them.

python missense_variants.py tables FILE      write pathogenic.tsv, benign.tsv, new.tsv and truth.tsv
python missense_variants.py compare EVIDENCE    compare levels of the new variants with the truth
python missense_variants.py stand-in         the tables, from random scores of the same shape

FILE is a Parquet table of classified variants: hg19_chr, hg19_pos, ref, alt, genename, REVEL_score
(may be missing) and y, 1 for pathogenic.
"""

from __future__ import annotations

import csv
import random
import sys
from pathlib import Path

ID = ("CHROM", "POS", "REF", "ALT")
EACH = 5  # every fifth variant is new
Variant = tuple[str, str, str, str, str, str, int]  # the id, the gene, the score, the class


def published(file: str) -> list[Variant]:
    import pyarrow.parquet as pq

    names = ["hg19_chr", "hg19_pos", "ref", "alt", "genename", "REVEL_score", "y"]
    columns = [pq.read_table(file, columns=[name])[name].to_pylist() for name in names]
    return [
        (*map(str, row[:5]), "." if row[5] is None else str(row[5]), row[6])
        for row in zip(*columns, strict=True)
    ]


def made_up(rng: random.Random) -> list[Variant]:
    """60 genes, the scores of which are shifted against each other."""
    shifts, variants = [rng.gauss(0, 0.5) for _ in range(60)], []
    for place in range(6000):
        gene, y = rng.randrange(60), place % 2
        x = rng.gauss(2.2 * y - 1.1 + shifts[gene], 0.9)
        score = "." if place % 40 == 0 else f"{1 / (1 + 2.718**-x):.3f}"
        variants.append(("1", str(1000 + place), "A", "G", f"GENE{gene}", score, y))
    return variants


def write(name: str, variants: list[Variant]) -> None:
    """A table as `bcftools query -H` prints it; `.` is a missing score."""
    with Path(name).open("w", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow([*ID, "GENE", "REVEL"])
        out.writerows(variant[:6] for variant in variants)


def tables(variants: list[Variant]) -> None:
    new, known = variants[::EACH], [v for i, v in enumerate(variants) if i % EACH]
    write("pathogenic.tsv", [variant for variant in known if variant[6]])
    write("benign.tsv", [variant for variant in known if not variant[6]])
    write("new.tsv", new)
    with Path("truth.tsv").open("w", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow([*ID, "pathogenic"])
        out.writerows((*variant[:4], variant[6]) for variant in new)


def compare(evidence: str) -> None:
    """How many new variants of each class have evidence for and against pathogenicity."""
    with Path("truth.tsv").open() as file:
        truth = [row["pathogenic"] == "1" for row in csv.DictReader(file, delimiter="\t")]
    with Path(evidence).open() as file:
        levels = [row["level"][:3] for row in csv.DictReader(file, delimiter="\t")]
    for name, code in (("PP3", "PP3"), ("BP4", "BP4")):
        right, wrong = (
            sum(level == code and known is kind for level, known in zip(levels, truth, strict=True))
            for kind in (True, False)
        )
        print(f"{name}: {right} of {sum(truth)} pathogenic, {wrong} of {truth.count(False)} benign")


if __name__ == "__main__":
    command, *files = sys.argv[1:] or ["help"]
    if command == "tables":
        tables(published(*files))
    elif command == "stand-in":
        tables(made_up(random.Random(1)))
    elif command == "compare":
        compare(*files)
    else:
        print(__doc__)
