"""Many PRIOR.json as one table, and as custom content for MultiQC's general statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from . import __version__
from .errors import EstimationError, InputError
from .prior import prior_shares

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("sample", "status", "reason")),
        *((name, pa.float64()) for name in ("alpha", "alpha_low", "alpha_high")),
        *((name, pa.float64()) for name in ("beta", "beta_low", "beta_high", "auc")),
        *((name, pa.int64()) for name in ("n_labeled", "n_unlabeled")),
        ("warnings", pa.string()),
    ]
)
SHARE = {"min": 0, "max": 1, "format": "{:,.3f}"}
MULTIQC_HEADERS: dict[str, dict[str, Any]] = {
    "alpha": {"title": "α", "description": "Share of positives among the unlabeled rows"},
    "alpha_low": {"title": "α low", "description": "Lower end of the 95 % interval of α"},
    "alpha_high": {"title": "α high", "description": "Upper end of the 95 % interval of α"},
    "beta": {"title": "β", "description": "Share of true positives among the labeled rows"},
    "beta_low": {"title": "β low", "description": "Lower end of the 95 % interval of β"},
    "beta_high": {"title": "β high", "description": "Upper end of the 95 % interval of β"},
    "auc": {"title": "AUC", "description": "Positives against negatives"},
    "warnings": {"title": "Warnings", "description": "Codes of what to be careful about"},
}
HIDDEN = ("beta_low", "beta_high")


def as_batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """The rows as a table."""
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def summarize(priors: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    """One row for each named PRIOR.json, in their order; a failed one says why."""
    rows: dict[str, dict[str, Any]] = {}
    files: dict[str, str] = {}
    for name, prior in priors:
        row = _row(name, prior)
        sample = row["sample"]
        if sample in rows:
            raise InputError(
                f"{name}: has the same sample name as {files[sample]}, {sample!r}; "
                "give each its own by --sample of 'estimate-prior'"
            )
        rows[sample], files[sample] = row, name
    return list(rows.values())


def _row(name: str, prior: Any) -> dict[str, Any]:
    status, reason = "ok", None
    try:
        prior_shares(name, prior)
    except EstimationError:
        status, reason = "failed", "no reason given"
    try:
        warnings = [(str(w["code"]), str(w["message"])) for w in prior["warnings"]]
        if status == "failed" and warnings:
            reason = " ".join(_printable(warnings[0][1]).split())
        return {
            "sample": _printable(prior["sample"] or sample_of(name)),
            "status": status,
            "reason": reason,
            **_interval("alpha", prior),
            **_interval("beta", prior),
            "auc": _share(prior["auc"]),
            "n_labeled": _count(prior["n_labeled"]),
            "n_unlabeled": _count(prior["n_unlabeled"]),
            "warnings": _printable(",".join(code for code, _ in warnings)),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{name}: not a whole prior ({error!r})") from error


def _interval(key: str, prior: Mapping[str, Any]) -> dict[str, Any]:
    low, high = prior[f"{key}_ci"] or (None, None)
    values = {key: prior[key], f"{key}_low": low, f"{key}_high": high}
    return {name: _share(value) for name, value in values.items()}


def _share(value: Any) -> float | None:
    if value is None or (type(value) in (int, float) and 0 <= value <= 1):
        return value
    raise ValueError(f"{value!r} is not a share")


def _count(value: Any) -> int | None:
    if value is None or (type(value) is int and 0 <= value < 2**63):
        return value
    raise ValueError(f"{value!r} is not a number of rows")


def sample_of(name: str) -> str:
    """The name of a sample that does not tell its own: results/liver/prior.json is 'liver'."""
    path = PurePath(name)
    stem = path.name.split(".json")[0]
    return path.parent.name if stem == "prior" and path.parent.name else stem


def _printable(text: Any) -> str:
    """Text that UTF-8 can hold; JSON may have lone surrogates."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is not text")
    return text.encode("utf-8", "backslashreplace").decode()


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
