"""Results for people: `report` and `summarize`."""

from __future__ import annotations

from ..errors import UsageError
from .console import Console
from .options import Options, command


@command("report")
def report(options: Options, console: Console) -> None:
    """One HTML file with the answer and the charts behind it.

    With several priors it compares the samples.

    \b
    punoise report --scores scores.tsv --prior prior.json --out report.html
    punoise report --prior a.json b.json c.json --out samples.html --figures figures
    """
    from .. import pipeline
    from ..report import charts as figures
    from ..scale.engine import open_engine
    from ..tables.writing import check_target, make_directory, write_figures, write_text

    names = (*options.prior, *options.more_priors)
    if not names:
        raise UsageError("give at least one --prior")
    if options.scores is not None and len(names) > 1:
        raise UsageError("--scores needs a single --prior; several are compared without it")
    check_target(options.out)
    if options.figures is not None:
        figures.converter()  # a usage error if it is missing
    tolerant, wanted = options.on_failure == "write", options.pick(pipeline.Wanted)
    with open_engine(None, options.threads, console) as engine:
        if options.scores is None:
            page, charts, notices = pipeline.compare_samples(names, tolerant)
        else:
            page, charts, notices = pipeline.report_files(
                options.scores, names[0], options.provenance, wanted, engine, tolerant
            )
    if options.figures is not None:
        images = figures.images(charts)
        make_directory(options.figures)
        write_figures(options.figures, images, figures.summary(charts))
    write_text(options.out, page)
    console.conclude(notices)


@command("summarize")
def summarize(options: Options, console: Console) -> None:
    """One table of the priors of many samples.

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
