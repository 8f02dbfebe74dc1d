"""Documents and tables for people: `report`, `summarize`, `simulate` and `schema`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ..errors import UsageError
from .options import (
    SHARE,
    Common,
    EvidenceOptions,
    OnFailure,
    Seeded,
    Strict,
    argument,
    command,
    option,
    reads,
    writes,
)
from .process import Console


@dataclass(frozen=True, kw_only=True)
class ReportOptions(EvidenceOptions, OnFailure, Strict):
    scores: str | None = reads(
        "--scores", "SCORES", "Scores that 'transform' wrote; for one prior."
    )
    priors: tuple[str, ...] = reads(
        "--prior",
        "PRIOR.json",
        "What 'estimate-prior' wrote; several, without --scores, to compare samples.",
        multiple=True,
    )
    more_priors: tuple[str, ...] = argument(nargs=-1, reads=True, metavar="[PRIOR.json]...")
    provenance: str | None = reads(
        "--provenance", "FILE", "The provenance.json of a run, to be shown."
    )
    out: str = writes("--out", "REPORT.html", "Where the report goes.", required=True)
    figures: str | None = option(
        "--figures", "Output", "Also write the charts there, as SVG and PNG.", metavar="DIR"
    )


@command(ReportOptions)
def report(given: ReportOptions, console: Console) -> None:
    """One HTML file with the answer and the charts behind it.

    With several priors it compares the samples.

    \b
    punoise report --scores scores.tsv --prior prior.json --out report.html
    punoise report --prior a.json b.json c.json --out samples.html --figures figures
    """
    from .. import pipeline
    from ..report import charts as figures
    from ..tables.writing import check_target, make_directory, write_figures, write_text

    names = (*given.priors, *given.more_priors)
    if not names:
        raise UsageError("give at least one --prior")
    of_scores = given.given("provenance", "evidence", "target_alpha")
    if given.scores is None and of_scores:
        raise UsageError(f"{of_scores[0]} goes with --scores")
    if given.target_alpha is not None and given.evidence is None:
        raise UsageError("--target-alpha goes with --evidence")
    if given.scores is not None and len(names) > 1:
        raise UsageError("--scores goes with one --prior; several priors are compared without it")
    check_target(given.out)
    if given.figures is not None:
        figures.converter()  # a usage error where it is missing
    page, charts, notices = pipeline.report(
        names,
        given.scores,
        given.provenance,
        given.grading(),
        tolerate_failure=given.on_failure == "write",
    )
    if given.figures is not None:
        images = figures.images(charts)
        make_directory(given.figures)
        write_figures(given.figures, images, figures.summary(charts))
    write_text(given.out, page)
    console.warn(notices)
    given.check_strict(notices)


@dataclass(frozen=True, kw_only=True)
class SummarizeOptions(Common):
    priors: tuple[str, ...] = argument(nargs=-1, required=True, reads=True, metavar="PRIOR.json...")
    out: str = writes("--out", "TABLE", "By default tab-separated on standard output.", default="-")
    multiqc: str | None = writes(
        "--multiqc", "NAME_mqc.json", "Also write what 'multiqc' shows in its general statistics."
    )


@command(SummarizeOptions)
def summarize(given: SummarizeOptions, console: Console) -> None:
    """One table of the priors of many samples.

    A sample whose estimation failed (--on-failure write) is listed with the reason.

    \b
    punoise summarize results/*/prior.json --out summary.tsv --multiqc punoise_mqc.json
    """
    from ..prior.document import parse_prior
    from ..report.comparison import as_batch, multiqc_content, summarize
    from ..tables.files import read_json
    from ..tables.writing import check_table_target, check_target, write_json, write_table

    check_table_target(given.out)
    if given.multiqc is not None:
        if not given.multiqc.endswith("_mqc.json"):
            raise UsageError(f"--multiqc {given.multiqc}: the name must end in _mqc.json")
        check_target(given.multiqc)
    rows = summarize((name, parse_prior(name, read_json(name))) for name in given.priors)
    write_table(given.out, as_batch(rows))
    if given.multiqc is not None:
        write_json(given.multiqc, multiqc_content(rows))


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(Seeded):
    out_dir: str = option(
        "--out-dir", "Output", "Directory for the three tables.", metavar="DIR", required=True
    )
    alpha: float = option(
        "--alpha",
        "Simulation",
        "Share of positives among the unlabeled rows.",
        type=SHARE,
        default=0.2,
    )
    beta: float = option(
        "--beta",
        "Simulation",
        "Share of positives among the labeled rows.",
        type=SHARE,
        default=0.95,
    )
    n_labeled: int = option(
        "--n-labeled", "Simulation", "", type=click.IntRange(1, 10**9), default=1000
    )
    n_unlabeled: int = option(
        "--n-unlabeled", "Simulation", "", type=click.IntRange(1, 10**9), default=10000
    )
    n_negatives: int = option(
        "--n-negatives",
        "Simulation",
        "Rows known to be negative.",
        type=click.IntRange(0, 10**7),
        default=0,
    )
    n_features: int = option(
        "--n-features", "Simulation", "", type=click.IntRange(1, 10**5), default=10
    )
    selection: float = option(
        "--selection",
        "Simulation",
        "How many times as often the most labeled of three kinds of positives is labeled as the "
        "least labeled; 1: positives are of one kind.",
        metavar="STRENGTH",
        type=click.FloatRange(1, 10**6),
        default=1.0,
    )


@command(SimulateOptions)
def simulate(given: SimulateOptions, console: Console) -> None:
    """Simulate tables with a known answer.

    Writes labeled.csv, unlabeled.csv and truth.csv, and negatives.csv if any are asked for.

    \b
    punoise simulate --out-dir simulated --alpha 0.2 --beta 0.95
    """
    from ..tables.simulate import simulate, write_simulation
    from ..tables.writing import new_directory

    with new_directory(given.out_dir):
        drawn = simulate(
            given.alpha,
            given.beta,
            given.n_labeled,
            given.n_unlabeled,
            given.n_features,
            given.seed,
            given.selection,
            given.n_negatives,
        )
        write_simulation(drawn, given.out_dir)


@dataclass(frozen=True, kw_only=True)
class SchemaOptions(Common):
    document: str = argument(metavar="prior", type=click.Choice(["prior"]))


@command(SchemaOptions)
def schema(given: SchemaOptions, console: Console) -> None:
    """Print the JSON Schema of a document that punoise writes.

    \b
    punoise schema prior > prior.schema.json
    """
    from ..prior.document import json_schema
    from ..tables.writing import write_json

    write_json("-", json_schema())
