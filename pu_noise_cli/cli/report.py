"""Results for people: `report` and `summarize`."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import EstimationError, InputError, PunoiseError, UsageError
from .options import Options, command
from .process import Console

if TYPE_CHECKING:
    from ..notices import Notice
    from ..report.comparison import Sample
    from ..report.page import Page
    from ..scale.engine import Engine
    from ..score.contributions import Contribution
    from ..tables.results import InputFile


@command("report")
def report(options: Options, console: Console) -> None:
    """Write an HTML report, or compare samples.

    With --scores, the report of one sample. With several priors, a comparison of the samples.

    \b
    punoise report --scores scores.tsv --prior prior.json --out report.html
    punoise report --prior a.json b.json c.json --out samples.html --figures figures
    """
    from ..report import page as figures
    from ..report.comparison import comparison_page
    from ..tables.writing import check_target, write_text

    names = (*options.prior, *options.more_priors)
    if not names:
        raise UsageError("give at least one --prior")
    if options.scores is not None and len(names) > 1:
        raise UsageError("--scores needs a single --prior; several are compared without it")
    check_target(options.out)
    if options.figures is not None:
        figures.converter()  # a usage error if it is missing
    try:
        if options.scores is None:
            page, notices = _comparison(names, options.out, options.on_failure == "write")
        else:
            with options.engine(console) as engine:
                page, notices = _sample(options, names[0], engine)
    except (InputError, EstimationError) as error:
        if options.on_failure != "write":
            raise
        failed = _failed_sample(names[0], error)
        page, notices = comparison_page([failed]), failed.prior.notices
    if options.figures is not None:
        figures.write_figures(page.drawn, options.figures)
    write_text(options.out, page.html())
    console.conclude(notices)


def _sample(options: Options, prior_file: str, engine: Engine) -> tuple[Page, tuple[Notice, ...]]:
    """The report of one sample, from its files."""
    from .. import pipeline
    from ..audit.design import audit_command
    from ..prior.document import read_prior
    from ..score.contributions import COLUMNS, read_columns
    from ..score.scores import open_scores
    from ..tables.files import read_document
    from ..tables.results import InputFile, Provenance, check_same_run

    prior, provenance = read_prior(prior_file), None
    contributions: tuple[Contribution, ...] = ()
    calibrated_by, target_alpha = pipeline.in_population(prior, options.target_alpha)
    wanted = pipeline.Wanted(target_alpha=target_alpha, seed=prior.seed)
    if options.provenance is not None:
        provenance = read_document(options.provenance, Provenance)
        check_same_run(options.provenance, provenance.files, [options.scores, prior_file])
        if COLUMNS in provenance.files and options.provenance != "-":
            folder = os.path.dirname(options.provenance)
            check_same_run(options.provenance, provenance.files, [os.path.join(folder, COLUMNS)])
            contributions = read_columns(folder)
    scored = pipeline.read_scores(open_scores(options.scores), engine)
    calibration = pipeline.calibrate_scores(scored, calibrated_by)
    bounds = pipeline.bound(calibration, scored, engine, wanted.seed, of_groups=True)
    posteriors = pipeline.interpret(calibration, wanted, bounds)
    assert scored.rows is not None
    listed = engine.gather(posteriors.step, scored.rows, "posterior").listed
    shards = scored.rows.tables[0].shards
    sources = [InputFile("", shard.name, shard.sha256()) for shard in shards]
    documents = [name for name in (prior_file, options.provenance) if name is not None]
    sources += map(_digested, documents)
    command = audit_command(
        *(os.path.basename(name.rstrip("/")) for name in (options.scores, prior_file))
    )
    page = pipeline.sample_report(
        prior,
        posteriors,
        listed,
        provenance,
        contributions,
        sources=sources,
        command=command,
    )
    return page, posteriors.notices


def _comparison(priors: Sequence[str], out: str, tolerant: bool) -> tuple[Page, tuple[Notice, ...]]:
    """The page that compares samples; if tolerant, unusable ones are listed with the reason."""
    from ..prior.document import parse_prior
    from ..report.comparison import compared_sample, comparison_page
    from ..tables.files import read_json

    samples = []
    for name in priors:
        try:
            prior = parse_prior(name, read_json(name))
            link = _own_report(name, out)
            samples.append(compared_sample(prior.sample_name(name), prior, link))
        except InputError as error:
            if not tolerant:
                raise
            samples.append(_failed_sample(name, error))
    return comparison_page(samples), ()


def _own_report(prior: str, out: str) -> str:
    """The path from a page to the report that lies beside a prior; empty if there is none."""
    report = os.path.join(os.path.dirname(prior), "report.html")
    if os.path.basename(prior) != "prior.json" or not os.path.isfile(report):
        return ""
    folder = "." if out == "-" else os.path.dirname(os.path.abspath(out))
    return os.path.relpath(report, folder)


def _failed_sample(name: str, error: PunoiseError) -> Sample:
    """A sample without an estimate: its prior says why, or the error does."""
    from .. import pipeline
    from ..prior.document import parse_prior
    from ..report.comparison import compared_sample
    from ..tables.files import read_json

    with contextlib.suppress(InputError):
        prior = parse_prior(name, read_json(name))
        if prior.alpha is None:
            return compared_sample(prior.sample_name(name), prior)
    prior = pipeline.failed_prior_for(pipeline.PriorSettings(), error)
    return compared_sample(prior.sample_name(name), prior)


def _digested(name: str) -> InputFile:
    from ..tables.files import read_bytes
    from ..tables.results import InputFile

    if name == "-":
        return InputFile("", "standard input", "–")
    return InputFile("", name, hashlib.sha256(read_bytes(name).getvalue()).hexdigest())


@command("summarize")
def summarize(options: Options, console: Console) -> None:
    """Gather the results of many samples in one table.

    A sample whose estimation failed (--on-failure write) is listed with the reason.

    \b
    punoise summarize results/*/prior.json --out summary.tsv --multiqc punoise_mqc.json
    """
    from ..prior.document import parse_prior
    from ..report.comparison import as_batch, multiqc_content, summarize
    from ..tables.files import read_json
    from ..tables.writing import check_table_target, check_target, write_json, write_table

    check_table_target(options.out)
    if options.multiqc is not None:
        if not options.multiqc.endswith("_mqc.json"):
            raise UsageError(f"--multiqc {options.multiqc}: the name must end in _mqc.json")
        check_target(options.multiqc)
    rows = summarize((name, parse_prior(name, read_json(name))) for name in options.priors)
    write_table(options.out, as_batch(rows))
    if options.multiqc is not None:
        write_json(options.multiqc, multiqc_content(rows))
