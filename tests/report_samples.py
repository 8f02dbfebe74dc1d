"""Reports for tests: of all kinds of samples, of one full of hostile text, and of several.

What takes time is made once; none of it can be changed.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from pu_noise_cli.errors import InputError
from pu_noise_cli.notices import Notice
from pu_noise_cli.posterior.calibration import Calibration, bounds, calibrate
from pu_noise_cli.posterior.candidates import FirstRows, ListedRows
from pu_noise_cli.posterior.summary import Summary
from pu_noise_cli.posterior.table import posterior_columns
from pu_noise_cli.prior import document
from pu_noise_cli.prior.base import Settings
from pu_noise_cli.prior.document import Prior, shares_for
from pu_noise_cli.prior.estimation import estimate_prior, failed_prior, stated_prior
from pu_noise_cli.report.content import sample_page
from pu_noise_cli.report.page import Chart, Page
from pu_noise_cli.score.sketch import Sketch
from pu_noise_cli.tables.files import parse_document
from pu_noise_cli.tables.results import SCHEMA, InputFile, Provenance

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


@cache
def sketch(n_labeled: int = 300, n_unlabeled: int = 1000) -> Sketch:
    rng = np.random.default_rng(11)

    def draw(n: int, share: float) -> np.ndarray:
        y = np.arange(n) < share * n
        return np.where(y, rng.beta(5, 2, n), rng.beta(2, 5, n))

    return Sketch.from_samples(draw(n_labeled, 0.9), draw(n_unlabeled, 0.3))


@cache
def with_negatives() -> Sketch:
    """The same with known negatives, some of which score beyond all other rows."""
    rng, plain = np.random.default_rng(12), sketch()
    known = np.concatenate([rng.beta(2, 5, 198), [0.0, 1.0]])
    labeled, unlabeled = (np.repeat(plain.scores, n) for n in (plain.labeled, plain.unlabeled))
    return Sketch.from_samples(labeled, unlabeled, known)


@cache
def without_unlabeled() -> Sketch:
    """Labeled rows, of which 9 in 10 are positive, and known negatives."""
    found = with_negatives()
    counts = found.counts * np.array([0, 1, 1])
    return Sketch(found.edges[counts.any(1)], counts[counts.any(1)])


@cache
def decoys() -> Sketch:
    """Labeled rows of which 95 % are negatives, and unlabeled ones of which 30 % are positive."""
    rng = np.random.default_rng(13)

    def draw(n: int, share: float) -> np.ndarray:
        return np.where(np.arange(n) < share * n, rng.beta(6, 2, n), rng.beta(2, 6, n))

    return Sketch.from_samples(draw(400, 0.05), draw(1000, 0.3))


@cache
def few_positives() -> Sketch:
    """Scores of unlabeled rows of which 0.2 % are positive."""
    rng = np.random.default_rng(5)
    return Sketch.from_samples(
        rng.beta(8, 2, 400), np.append(rng.beta(8, 2, 100), rng.beta(1, 9, 49_900))
    )


@cache
def prior(found: Sketch, method: str = "auto", sample: str | None = None) -> Prior:
    return estimate_prior(found, method, Settings(), sample=sample)


@cache
def prior_of_decoys() -> Prior:
    return estimate_prior(replace(decoys(), labeled_class="negative"), "auto", Settings())


def stated(found: Sketch, alpha: float, beta: float, labeled_negatives: bool = False) -> Prior:
    """A prior of the user's own."""
    prior = document.stated(alpha, beta, "negative" if labeled_negatives else "positive")
    return stated_prior(found, prior)


def failed(message: str = "labeled.csv: the table has no rows") -> Prior:
    return failed_prior("auto", 0, InputError(message), None)


def calibrated(found: Sketch, known: Prior) -> Calibration:
    sketch, shares, _ = shares_for(known, found)
    return calibrate(sketch, shares)


def provenance_json(names: tuple[str, ...] = ("a", "b")) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "punoise_version": "0.1.0",
        "python_version": "3.11.0",
        "inputs": [
            {"table": table, "file": n, "sha256": "0f" * 32}
            for n in names
            for table in ("in/labeled.csv", "/somewhere/unlabeled.csv")
        ],
        "options": {
            "labeled": "in/labeled.csv",
            "unlabeled": "/somewhere/unlabeled.csv",
            "features": [list(names)],
            "na": list(names),
            "seed": 0,
        },
        "execution": {"threads": 2, "out_dir": "/somewhere/else"},
        "score_column": names[0],
        "n_labeled": 300,
        "n_unlabeled": 1000,
        "n_negatives": None,
        "columns": [
            {"column": n, "table": t, "kind": k, "values": 9, "missing": 1, "levels": v}
            for n in names
            for t, k, v in (("in/labeled.csv", "number", None), ("unlabeled.csv", "category", 4))
        ],
        "warnings": [{"code": "leaking-column", "message": f"column {n} leaks"} for n in names[:3]],
    }


def provenance(names: tuple[str, ...] = ("a", "b"), **changes: Any) -> Provenance:
    return parse_document("p.json", provenance_json(names) | changes, Provenance)


def content_of(found: Sketch, known: Prior, target_alpha: float | None = None, **more: Any) -> Page:
    """A report, without provenance unless it is given."""
    calibration = calibrated(found, known)
    columns = posterior_columns(calibration, target_alpha=target_alpha)
    notices = (*known.notices, *calibration.notices)
    by_group = more.get("groups") is not None
    return sample_page(
        Summary.from_calibration(known, calibration, columns, notices, by_group),
        calibration,
        columns,
        bounds(calibration, known.seed).at(target_alpha),
        target_alpha=target_alpha,
        **more,
    )


def listed(names: tuple[str, ...]) -> ListedRows:
    """Candidates and labels to check with these ids, and as values of a column of such a name."""
    texts = [name.encode("utf-8", "backslashreplace").decode() for name in names]
    n = len(texts)
    common = {"id": texts, "score": [0.1] * n}
    bounds = {"posterior_low": [0.5] * n, "posterior_high": [1.0] * n}
    candidates = {**common, "posterior": [0.9] * n, **bounds, "fdr": [0.1] * n, "kept": texts}
    labels = {**common, "posterior_labeled": [0.25] * n, "kept": texts}
    return ListedRows(*(FirstRows(pa.table(columns)) for columns in (candidates, labels)))


def named_content(known: Prior, names: tuple[str, ...] = ("gene 1", "gene 2"), **more: Any) -> Page:
    """A report of `sketch()` in which ids, columns and files have these names."""
    files = {"provenance": provenance(names)} | more
    return content_of(
        sketch(),
        known,
        listed=listed(names),
        sources=[InputFile("", name, "1e" * 32) for name in names],
        **files,
    )


@cache
def content(names: tuple[str, ...] = ("gene 1", "gene 2"), method: str = "auto") -> Page:
    """A report in which every text that can come from a stranger is one of the names."""
    known = prior(sketch(), method, names[0])
    notices = tuple(Notice("few-rows", n) for n in names[:8])
    assumed = known.assumed
    if assumed is not None:
        assumed = msgspec.structs.replace(assumed, words=" ".join(names))
    return named_content(msgspec.structs.replace(known, notices=notices, assumed=assumed), names)


@cache
def page(names: tuple[str, ...] = ("gene 1", "gene 2"), method: str = "auto") -> str:
    return render(content(names, method))


def chart(content: Page, name: str) -> Chart:
    """The chart of a name."""
    (found,) = (c for c in content.drawn if c.name == name)
    return found


# What stands in a page


def render(content: Page) -> str:
    return content.html()


class Outline(HTMLParser):
    """The elements of a page with their attributes, and the text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self.elements and self.elements[-1][0] not in ("script", "style"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split()).replace("\u00a0", " ")


def section(page: str, name: str) -> str:
    """The text of a section."""
    return Outline(page.split(f'<section id="{name}"')[1].split("</section>")[0]).text


def data_of(page: str) -> dict[str, dict]:
    """The specifications of the charts by name."""
    found = re.findall(r'<script type="application/json" id="data-(.*?)">(.*?)</script>', page)
    return {name: json.loads(value) for name, value in found}
