"""Reports for tests: of a plain sample, of one full of hostile text, and of several samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from pu_noise_cli.posterior import calibrate

from pu_noise_cli.errors import InputError
from pu_noise_cli.estimators import Settings
from pu_noise_cli.prior import estimate_prior, failed_prior, prior_shares
from pu_noise_cli.report.content import (
    InputFile,
    PriorView,
    Provenance,
    ReportContent,
    SuspiciousLabel,
)
from pu_noise_cli.sketch import Sketch

RUN = "window.harmed = true"
HOSTILE = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"' onmouseover='{RUN}",
    f"<svg/onload={RUN}>",
    f"javascript:{RUN}",
    f"{{{{constructor.constructor('{RUN}')()}}}}",
    "<!-- <style>*{display:none}</style>",
    "a" * 10_000,
    "word " * 2_000,
    "\u202eturned around\u202c\u2066 and \u200fback",
    "two\nlines\r\nand\ta tab\x00\x1b[31m",
    "line\u2028and paragraph\u2029separators &amp; &lt;entities&gt;",
    "مرحبا بالعالم",
    "Z̸̢̛͔͎͔̲͈̥̤͎̣̹̻̀̈́͌̇̈́̎͑͂͝a̸̡̛̛͓͉̰̗̳͕͉̣͉̤̔̈́͂̃͒̿͗̄͝lgo",
    "lone surrogate \udc80",
)


def sketch(n_labeled: int = 300, n_unlabeled: int = 1000) -> Sketch:
    rng = np.random.default_rng(11)

    def draw(n: int, share: float) -> np.ndarray:
        y = np.arange(n) < share * n
        return np.where(y, rng.beta(5, 2, n), rng.beta(2, 5, n))

    return Sketch.of(draw(n_labeled, 0.9), draw(n_unlabeled, 0.3))


def prior_json(found: Sketch, method: str = "auto", sample: str | None = None) -> dict[str, Any]:
    return estimate_prior(found, method, Settings(), sample=sample).as_json()


def failed_json(message: str = "labeled.csv: the table has no rows") -> dict[str, Any]:
    return failed_prior("auto", 0, InputError(message), None).as_json()


def provenance_json(names: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    return {
        "schema": "punoise.provenance/1",
        "punoise_version": "0.1.0",
        "python_version": "3.11.0",
        "inputs": [{"table": n, "file": n, "sha256": "0f" * 32} for n in names],
        "options": {
            "labeled": "in/labeled.csv",
            "unlabeled": "/somewhere/unlabeled.csv",
            "features": [list(names)],
            "na": list(names),
            "threads": 2,
            "out_dir": "/somewhere/else",
            "seed": 0,
        },
        "n_labeled": 300,
        "n_unlabeled": 1000,
        "columns": [
            {"column": n, "table": t, "kind": k, "values": 9, "missing": 1, "levels": v}
            for n in names
            for t, k, v in (("in/labeled.csv", "number", None), ("unlabeled.csv", "category", 4))
        ],
        "warnings": [{"code": "leaking-column", "message": f"column {n} leaks"} for n in names[:3]],
    }


def content(names: tuple[str, ...] = ("gene 1", "gene 2"), method: str = "auto") -> ReportContent:
    """A report in which every text that can come from a stranger is one of the names."""
    found = sketch()
    document = prior_json(found, method, names[0])
    calibration = calibrate(found, prior_shares("prior.json", document))
    document["warnings"] = [{"code": "few-rows", "message": n} for n in names[:8]]
    return ReportContent(
        PriorView.of("prior.json", document),
        calibration,
        tuple(SuspiciousLabel(i, n, 0.1, 0.2) for i, n in enumerate(names, start=1)),
        Provenance.of("provenance.json", provenance_json(names)),
        tuple(InputFile(n, "1e" * 32) for n in names),
    )


def priors(names: tuple[str, ...]) -> list[PriorView]:
    """Samples with these names, and one that failed."""
    document = prior_json(sketch())
    views = []
    for i, name in enumerate(names):
        alpha = (i + 1) / (len(names) + 2)
        changed = {"sample": name, "alpha": alpha, "alpha_ci": [alpha / 2, (1 + alpha) / 2]}
        views.append(PriorView.of("prior.json", document | changed))
    return [*views, PriorView.of("failed.json", failed_json())]
