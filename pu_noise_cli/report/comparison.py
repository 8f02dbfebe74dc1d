"""Samples compared: a page, a table, and custom content for MultiQC's general statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from .. import __version__
from ..errors import InputError, option
from ..notices import Notice
from ..numerics import expit, logit
from ..prior.document import STATED, Prior
from .content import explain
from .figures import WORDS
from .page import Page, Proportion, forest

MAX_SAMPLES = 1000  # that are drawn and listed
MIN_COMPARED = 8  # estimates among which one can stand out
OUTLYING = 3.5  # robust standard deviations of the log-odds from their median
MIN_SPREAD = 0.1  # of the log-odds: closer samples are alike


@dataclass(frozen=True)
class Sample:
    """One of the samples that a report compares; alpha and beta are None if it failed."""

    name: str
    prior: Prior
    alpha: Proportion | None
    beta: Proportion | None
    reason: str  # why it failed
    is_stated: bool
    words: Mapping[str, str]  # that depend on the class of the labeled rows
    link: str = ""  # to its own report
    outlier: str = ""  # "high" or "low" α, among the others

    @property
    def status(self) -> str:
        """Failed, an outlier or ok, in a word."""
        if self.alpha is None:
            return "failed"
        return f"outlier: {self.outlier} α" if self.outlier else "ok"


def compared_sample(name: str, prior: Prior, link: str = "") -> Sample:
    """What a report shows of a prior; the link is a relative path."""
    alpha, beta = prior.alpha, prior.beta
    reasons = "; ".join(notice.message for notice in prior.notices) or "no reason given"
    return Sample(
        name,
        prior,
        None if alpha is None else Proportion.from_estimate(alpha, prior.alpha_ci),
        None if beta is None else Proportion.from_estimate(beta, prior.beta_ci),
        "" if alpha is not None else reasons,
        prior.method == STATED,
        WORDS[prior.labeled_class],
        "" if not link else "./" + quote(link),  # never taken for a scheme such as javascript:
    )


def comparison_page(samples: Sequence[Sample]) -> Page:
    """The page that compares samples: failures first, then by falling α."""
    samples = _ordered(_with_outliers(samples))
    estimated = [one for one in samples if one.alpha is not None]
    codes = sorted({notice.code for one in samples for notice in one.prior.notices})
    has_negatives = any(one.words is not WORDS["positive"] for one in samples)
    correct = "correct labels" if has_negatives else "true positives"
    charts = [
        forest(
            f"samples-{name}",
            f"{symbol} by sample: {title}",
            symbol,
            [
                (one.name, getattr(one, name), not one.prior.notices)
                for one in estimated[:MAX_SAMPLES]
            ],
        )
        for name, symbol, title in (
            ("alpha", "α", "fraction of positives among the unlabeled rows"),
            ("beta", "β", f"fraction of {correct} among the labeled rows"),
        )
        if estimated
    ]
    return Page(
        "comparison.html",
        f"{len(samples)} samples, punoise report" if len(samples) > 1 else "punoise report",
        {"forest": charts},
        {
            "samples": samples,
            "estimated": estimated,
            "failed": [one for one in samples if one.alpha is None],
            "outliers": [one for one in estimated if one.outlier],
            "warned": [one for one in estimated if one.prior.notices],
            "wide": sum(one.alpha is not None and one.alpha.is_wide for one in estimated),
            "warnings": explain(Notice(code, "") for code in codes),
            "max_samples": MAX_SAMPLES,
        },
    )


def _ordered(samples: Iterable[Sample]) -> list[Sample]:
    """Failed samples by name, then the others by falling α."""
    return sorted(
        samples, key=lambda one: (one.alpha is not None, -(one.prior.alpha or 0.0), one.name)
    )


def _with_outliers(samples: Sequence[Sample]) -> list[Sample]:
    """Mark estimates far from the median of all, if their intervals exclude it."""
    alphas = [one.alpha.value for one in samples if one.alpha is not None and not one.is_stated]
    if len(alphas) < MIN_COMPARED:
        return [*samples]
    values = logit(np.array(alphas).clip(1e-6, 1 - 1e-6))
    middle = float(np.median(values))
    spread = max(1.4826 * float(np.median(np.abs(values - middle))), MIN_SPREAD)
    low, high = (float(expit(np.array(middle + end * OUTLYING * spread))) for end in (-1, 1))
    median = float(np.median(alphas))

    def marked(one: Sample) -> Sample:
        if one.alpha is None or one.is_stated:
            return one
        from_, to = one.prior.alpha_ci or (one.alpha.value, one.alpha.value)
        if one.alpha.value > high and from_ > median:
            return replace(one, outlier="high")
        if one.alpha.value < low and to < median:
            return replace(one, outlier="low")
        return one

    return [marked(one) for one in samples]


# ---- Tables

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("sample", "status", "reason")),
        *((name, pa.float64()) for name in ("alpha", "alpha_low", "alpha_high")),
        *((name, pa.float64()) for name in ("beta", "beta_low", "beta_high", "auc")),
        *((name, pa.int64()) for name in ("n_labeled", "n_unlabeled", "n_negatives")),
        ("warnings", pa.string()),
    ]
)
SHARE = {"min": 0, "max": 1, "format": "{:,.3f}"}
MULTIQC_HEADERS: dict[str, dict[str, Any]] = {
    "alpha": {"title": "α", "description": "Share of positives among the unlabeled rows"},
    "alpha_low": {"title": "α low", "description": "Lower end of the 95% interval of α"},
    "alpha_high": {"title": "α high", "description": "Upper end of the 95% interval of α"},
    "beta": {"title": "β", "description": "Share of the labeled rows that are what the labels say"},
    "beta_low": {"title": "β low", "description": "Lower end of the 95% interval of β"},
    "beta_high": {"title": "β high", "description": "Upper end of the 95% interval of β"},
    "auc": {"title": "AUC", "description": "Positives against negatives"},
    "warnings": {"title": "Warnings", "description": "Codes of what to be careful about"},
}
HIDDEN = ("beta_low", "beta_high")


def as_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as a table."""
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def summarize(priors: Iterable[tuple[str, Prior]]) -> list[dict[str, Any]]:
    """One row for each prior, named by its file, in their order; a failed one says why."""
    rows: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}
    for file, prior in priors:
        row = _row(file, prior)
        sample = row["sample"]
        if sample in rows:
            raise InputError(
                f"{file}: has the same sample name as {files[sample]}, {sample!r}; "
                f"give each its own by {option('sample')} of 'estimate-prior'"
            )
        rows[sample], files[sample] = row, file
    return list(rows.values())


def _row(file: str, prior: Prior) -> dict[str, Any]:
    failed = prior.alpha is None
    row: dict[str, Any] = {
        # the name of a file need not be Unicode text
        "sample": prior.sample_name(file).encode("utf-8", "backslashreplace").decode(),
        "status": "failed" if failed else "ok",
        "reason": " ".join(prior.reason.split()) if failed else None,
        "warnings": ",".join(notice.code for notice in prior.notices),
    }
    for name in ("alpha", "beta", "auc", "n_labeled", "n_unlabeled", "n_negatives"):
        row[name] = getattr(prior, name)
    row["alpha_low"], row["alpha_high"] = prior.alpha_ci or (None, None)
    row["beta_low"], row["beta_high"] = prior.beta_ci or (None, None)
    return row


def multiqc_content(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """MultiQC's custom content: columns of its general statistics table.

    MultiQC puts names and texts into its page as they are, so they are escaped here; of a name
    with a slash it would keep the end only.
    """
    headers = {
        key: {**header, **({} if key == "warnings" else SHARE), "hidden": key in HIDDEN}
        for key, header in MULTIQC_HEADERS.items()
    }
    data: dict[str, dict[str, Any]] = {}
    for row in rows:
        name = " ".join(escape(row["sample"].replace("/", "_")).split())
        while name in data:
            name += "_"
        values = {key: row[key] for key in headers if row[key] not in (None, "")}
        if "warnings" in values:
            values["warnings"] = escape(values["warnings"])
        data[name] = values
    return {
        "id": "punoise",
        "plot_type": "generalstats",
        "namespace": "punoise",
        "description": f"Class priors by punoise {__version__}",
        "headers": [{key: header} for key, header in headers.items()],
        "data": data,
    }
