"""The command line: all commands, in the order in which one uses them."""

from __future__ import annotations

import click

from . import __version__
from .commands.audit import audit
from .commands.documents import report, schema, simulate, summarize
from .commands.parts import merge_sketches, score, sketch
from .commands.posterior import performance, posterior
from .commands.prior import estimate_prior, train, transform
from .commands.run import run
from .parameters import Commands


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """Class priors and posteriors from noisy positives and unlabeled rows.

    Given a table of labeled positives, some of them wrong, and a table of unlabeled rows, punoise
    estimates the share of positives among the unlabeled (alpha) and among the labeled rows (beta),
    and for each row the probability that it is positive.

    \b
    punoise run --labeled labeled.csv --unlabeled unlabeled.csv --out-dir results
    """


for _command in (
    *(run, transform, estimate_prior, posterior, performance, audit, report),
    *(summarize, score, train, sketch, merge_sketches, simulate, schema),
):
    cli.add_command(_command)
