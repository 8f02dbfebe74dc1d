"""Peptide-spectrum matches with known truth, as a search engine writes them into a .pin file.

A spectrum has a correct peptide in the database or has none. Each of its candidates, the correct
one and the best wrong one of the targets and of the decoys, has the scores of a search engine;
either the best of all is reported (`concatenated`) or the best target and the best decoy
(`separate`). Wrong targets and decoys are drawn from one distribution, unless they are made to
differ.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

Rng = np.random.Generator

FEATURES = (
    "lnrSp", "deltCn", "Xcorr", "Sp", "IonFrac", "matchedInt", "complement", "spectralAngle",
    "rtDiff", "dM", "absdM", "Mass", "PepLen", "Charge2", "Charge3", "Charge4", "enzN", "enzC",
    "enzInt", "lnNumSP", "hydrophobicity",
)  # fmt: skip
CORRECT, WRONG, DECOY = "correct", "wrong", "decoy"


@dataclass(frozen=True)
class Difficulty:
    """How many spectra have a correct peptide, and how well it scores."""

    present: float  # the share of spectra with a correct peptide
    shift: float  # of the scores of correct matches, in standard deviations of wrong ones
    tolerance: float  # of the mass error of correct matches; that of wrong ones is uniform in ±1


DIFFICULTIES = {
    "easy": Difficulty(0.6, 2.6, 0.15),
    "medium": Difficulty(0.45, 2.0, 0.25),
    "hard": Difficulty(0.3, 1.7, 0.4),
}
SEARCHES = ("concatenated", "separate")
DECOYS = ("fair", "shuffled", "entrapment")


def simulate(
    rng: Rng,
    difficulty: str,
    search: str = "concatenated",
    decoys: str = "fair",
    matches: int = 50_000,
    by_charge: bool = False,
) -> pd.DataFrame:
    """The rows of a .pin file in the order of its spectra, with a column `truth` at the end.

    With `by_charge`, the higher the charge the fewer spectra have a correct peptide, and the lower
    its scores are.
    """
    level = DIFFICULTIES[difficulty]
    spectra = matches if search == "concatenated" else matches // 2
    shared = _spectra(rng, spectra)
    charge = shared["charge"].to_numpy() if by_charge else np.full(spectra, 2)
    share = level.present * np.select([charge == 2, charge == 3], [1.0, 0.6], 0.25)
    present = rng.random(spectra) < share
    kinds = {
        WRONG: _candidates(rng, shared, None, decoys if decoys == "entrapment" else "fair"),
        DECOY: _candidates(rng, shared, None, decoys if decoys == "shuffled" else "fair"),
        CORRECT: _candidates(rng, shared, level, "fair", 1 - 0.15 * (charge - 2)),
    }
    engine = {kind: _engine_score(rows) for kind, rows in kinds.items()}
    target_is_correct = present & (engine[CORRECT] > engine[WRONG])
    of_target = np.where(target_is_correct, CORRECT, WRONG)
    best_target = np.where(target_is_correct, engine[CORRECT], engine[WRONG])
    chosen = np.arange(spectra)
    if search == "concatenated":
        truth = np.where(engine[DECOY] > best_target, DECOY, of_target)
    else:
        truth = np.column_stack([of_target, np.full(spectra, DECOY)]).ravel()
        chosen = np.repeat(chosen, 2)
    return _pin(rng, shared, kinds, chosen, truth)


def _spectra(rng: Rng, count: int) -> pd.DataFrame:
    """What the candidates of a spectrum have in common."""
    mass = rng.gamma(9, 160, count) + 500
    return pd.DataFrame(
        {
            "ScanNr": np.sort(rng.choice(4 * count, count, replace=False)) + 1,
            "Mass": mass,
            "charge": np.clip(rng.poisson(mass / 1500) + 2, 2, 4),
            "lnNumSP": rng.normal(5, 0.7, count),
            "noise": rng.normal(0, 1, count),
        }
    )


def _candidates(
    rng: Rng,
    spectra: pd.DataFrame,
    level: Difficulty | None,
    like: str,
    factor: np.ndarray | float = 1.0,
) -> dict[str, np.ndarray]:
    """Features of a candidate of each spectrum: correct ones of a level, or the best wrong ones."""
    n = len(spectra)
    quality = np.zeros(n) if level is None else level.shift * factor * rng.gamma(6, 1 / 6, n)
    common = rng.normal(0, 0.6, n)  # what makes the scores of a match agree with each other
    reach = spectra["lnNumSP"].to_numpy() - 5  # the best of many wrong ones scores higher
    best = 0.25 * reach if level is None else 0.0

    def score(weight: float, spread: float = 1.0) -> np.ndarray:
        return weight * quality + best + common + rng.normal(0, spread, n)

    length = np.round(spectra["Mass"].to_numpy() / 111 + rng.normal(0, 0.7, n)).clip(6, 50)
    mass_error = rng.uniform(-1, 1, n) if level is None else rng.normal(0, level.tolerance, n)
    rt = rng.normal(0, 1.0 if level is None else 0.35, n)
    trypsin = 0.93 if level is None else 0.98
    found = {
        "Xcorr": 1.5 + 0.5 * score(1.0) + 0.02 * length,
        "deltCn": 0.1 * np.exp(0.45 * score(0.9)),
        "Sp": np.exp(5 + 0.5 * score(0.7)),
        "lnrSp": np.log1p(np.floor(np.exp(1.5 - 0.8 * score(0.7)))),
        "IonFrac": 1 / (1 + np.exp(1.2 - 0.5 * score(0.8))),
        "matchedInt": score(0.5, 1.5),
        "complement": np.floor(np.exp(0.4 * score(0.4, 1.2)) + rng.random(n)),
        "spectralAngle": np.tanh(0.4 * score(1.1, 1.1)),
        "dM": mass_error,
        "absdM": np.abs(mass_error),
        "rtDiff": np.abs(rt),
        "PepLen": length,
        "enzN": (rng.random(n) < trypsin).astype(float),
        "enzC": (rng.random(n) < trypsin).astype(float),
        "enzInt": rng.poisson(0.3, n).astype(float),
        "hydrophobicity": rng.normal(0, 1, n),
    }
    if like == "shuffled":  # a shuffled peptide breaks the pattern of cleavage, and the composition
        found["enzInt"] = rng.poisson(0.55, n).astype(float)
        found["hydrophobicity"] = found["hydrophobicity"] - 0.3
    elif like == "entrapment":  # of another species: relatives of what is in the sample score high
        relatives = rng.random(n) < 0.2
        found["matchedInt"] = found["matchedInt"] + 1.5 * relatives
        found["Sp"] = found["Sp"] * np.where(relatives, 1.8, 1.0)
    return found


def _engine_score(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.asarray(rows["Xcorr"])


def _pin(
    rng: Rng,
    spectra: pd.DataFrame,
    kinds: dict[str, dict[str, np.ndarray]],
    chosen: np.ndarray,
    truth: np.ndarray,
) -> pd.DataFrame:
    rows = spectra.iloc[chosen].reset_index(drop=True)
    values = {
        name: np.select(
            [truth == kind for kind in kinds], [kinds[kind][name][chosen] for kind in kinds]
        )
        for name in kinds[WRONG]
    }
    table = pd.DataFrame({"ScanNr": rows["ScanNr"], **values, "Mass": rows["Mass"]})
    table["lnNumSP"] = rows["lnNumSP"]
    for charge in (2, 3, 4):
        table[f"Charge{charge}"] = (rows["charge"] == charge).astype(float)
    table["ExpMass"] = rows["Mass"].round(4)
    table["CalcMass"] = (rows["Mass"] - values["dM"] / 100).round(4)
    table["Label"] = np.where(truth == DECOY, -1, 1)
    table["SpecId"] = [
        f"run_{scan}_{'decoy' if kind == DECOY else 'target'}"
        for scan, kind in zip(table["ScanNr"], truth, strict=True)
    ]
    table["Peptide"], table["Proteins"] = _names(rng, truth)
    columns = ["SpecId", "Label", "ScanNr", "ExpMass", "CalcMass", *FEATURES]
    return table[[*columns, "Peptide", "Proteins"]].assign(truth=truth)


def _names(rng: Rng, truth: np.ndarray) -> tuple[list[str], list[str]]:
    """Peptides and proteins: correct peptides are seen by several spectra, wrong ones by few."""
    n = len(truth)
    present = max(n // 8, 1)
    number = np.where(
        truth == CORRECT,
        np.minimum(rng.exponential(present / 2, n).astype(int), present - 1),
        rng.integers(present, 10 * n, n),
    )
    peptides, proteins = [], []
    for kind, i in zip(truth, number, strict=True):
        decoy = "decoy_" if kind == DECOY else ""
        peptides.append(f"K.{'SHUF' if decoy else 'PEP'}{i}.R")
        proteins.append(
            "\t".join(f"{decoy}sp|P{(i * 7 + j) % (n // 4 + 1)}" for j in range(i % 3 + 1))
        )
    return peptides, proteins


def write_pin(table: pd.DataFrame, path: Path) -> None:
    """Write the rows without the truth; the last column is ragged, as Percolator has it."""
    names = [name for name in table.columns if name != "truth"]
    lines = ["\t".join(names)]
    for row in table[names].itertuples(index=False):
        lines.append("\t".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in row))
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
