"""Coverage-guided fuzzing of the readers of prior, sketch, model and rule.

It takes atheris, in an environment of its own: pip install atheris . ; python tests/torture/fuzz.py
[samples/] -max_total_time=60; any error but an input error ends it, and leaves the bytes.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys

import atheris

with atheris.instrument_imports(include=["pu_noise_cli", "zipfile", "numpy.lib._format_impl"]):
    from pu_noise_cli.prior.document import parse_prior
    from pu_noise_cli.report.content import Provenance
    from pu_noise_cli.score.model import load_model
    from pu_noise_cli.score.sketch import load_sketch
    from pu_noise_cli.tables.files import parse_document
    from pu_noise_cli.variants.rules import Grading, Rule
from pu_noise_cli.errors import InputError


def _json(raw: bytes) -> object:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


READERS = (
    lambda raw: parse_prior("x", _json(raw)),
    lambda raw: Grading("x", parse_document("x", _json(raw), Rule)).levels(0.1),
    lambda raw: parse_document("x", _json(raw), Provenance),
    lambda raw: load_sketch("x", io.BytesIO(raw)),
    lambda raw: load_model("x", io.BytesIO(raw)),
)


def read(raw: bytes) -> None:
    """The first byte says which reader gets the rest."""
    if raw:
        with contextlib.suppress(InputError):
            READERS[raw[0] % len(READERS)](raw[1:])


atheris.Setup(sys.argv, read)
atheris.Fuzz()
