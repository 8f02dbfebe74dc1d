"""Many samples: a table, and custom content for MultiQC's general statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import pyarrow as pa

from .. import __version__
from ..errors import InputError, option
from ..prior.document import Prior

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
