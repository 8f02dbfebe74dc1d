"""Stand-ins for the files of the tutorial on target-decoy searches: `python search.py stand-in`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FOLDER = Path("mokapot-0.10.0/data")
FEATURES = ("Sp", "IonFrac", "RefactoredXCorr", "absdM")
SPECTRA = 400  # of each run, half of them with a correct match


def lines(rng: np.random.Generator) -> list[str]:
    """A .pin file: a target and a decoy for each spectrum."""
    charges = ("Charge2", "Charge3")
    header = ["SpecId", "Label", "ScanNr", "ExpMass", *FEATURES, *charges, "Peptide", "Proteins"]
    rows = ["\t".join(header)]
    for scan in range(SPECTRA):
        charge = rng.choice(2)
        for label in (1, -1):
            correct = label == 1 and scan % 2 == 0
            values = rng.normal(2.5 * correct, 1, len(FEATURES))
            number, decoy = scan // 3 if correct else 1000 + scan, "" if label == 1 else "decoy_"
            texts = [f"{decoy or 'target_'}{scan}", f"{label}", f"{scan}", f"{900 + scan}"]
            texts += [f"{value:.4f}" for value in values]
            texts += [f"{int(charge == 0)}", f"{int(charge == 1)}"]
            rows.append("\t".join([*texts, f"K.{decoy}PEP{number}.R", f"{decoy}P{number}"]))
    return rows


if __name__ == "__main__":
    FOLDER.mkdir(parents=True)
    for seed, run in enumerate("ABC"):
        text = "\n".join(lines(np.random.default_rng(seed))) + "\n"
        (FOLDER / f"scope2_FP97A{run}.pin").write_text(text)
