"""Tables of peptide-spectrum matches, and what `matches` writes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

HEADER = ["SpecId", "Label", "ScanNr", "ExpMass", "CalcMass", "xcorr", "deltaCn", "charge"]


def pin_lines(spectra: int = 1500, seed: int = 1) -> list[str]:
    """A target and a decoy for each spectrum; in half of the spectra the target is correct."""
    rng = np.random.default_rng(seed)
    lines = ["\t".join([*HEADER, "Peptide", "Proteins"])]
    lines.append("\t".join(["DefaultDirection", "-", "-", "-", "-", "1", "1", "0"]))
    for scan in range(spectra):
        correct = scan % 2 == 0
        for label in (1, -1):
            x = rng.normal(size=2) + 3 * (correct and label == 1)
            number = scan % 300 if correct and label == 1 else 10_000 + 2 * scan + (label == 1)
            peptide = f"K.{'PEP' if label == 1 else 'DECOY'}{number}.R"
            proteins = [f"{'' if label == 1 else 'rev_'}P{number}_{j}" for j in range(scan % 3 + 1)]
            values = [f"s{scan}_{label}", label, scan, 500 + scan / 7, 500.1, *x.round(5), scan % 3]
            lines.append("\t".join([*map(str, values), peptide, *proteins]))
    return lines


def pin_table(spectra: int = 1500, seed: int = 1) -> pd.DataFrame:
    """The matches of a .pin file with numbers as such and proteins in one field."""
    fields = [line.split("\t", 9) for line in pin_lines(spectra, seed)]
    table = pd.DataFrame(fields[2:], columns=fields[0])
    numbers = [name for name in table.columns if name not in ("SpecId", "Peptide", "Proteins")]
    table[numbers] = table[numbers].apply(pd.to_numeric)
    table["Proteins"] = table["Proteins"].str.replace("\t", ";")
    return table


def write_pin(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def outputs(path: Path) -> dict[str, bytes]:
    tables = {file.name: file.read_bytes() for file in path.glob("*.tsv")}
    return {**tables, "matches.json": (path / "matches.json").read_bytes()}
