"""Results for people: `report` and `summarize`."""

from __future__ import annotations

from ..errors import UsageError
from .options import Options, command
from .process import Console


@command("report")
def report(options: Options, console: Console) -> None:
    """Write the HTML report of a directory of results, or of scores and their prior, anew.

    \b
    punoise report results
    punoise report --scores scores.tsv --prior prior.json --out report.html
    """
    from ..recipes import report as recipe
    from ..report import page as figures

    if (len(options.folder) == 1) == (options.scores is not None):
        raise UsageError("give a directory of results, or --scores with --prior")
    if options.scores is not None and options.out is None:
        raise UsageError("--scores needs --out")
    if options.figures is not None:
        figures.converter()  # a usage error if it is missing
    folder = options.folder[0] if options.folder else None
    settings = options.pick(recipe.ReportSettings, folder=folder)
    with options.engine(console) as engine:
        written = recipe.report(settings, engine)
    if options.figures is not None:
        figures.write_figures(written.page.drawn, options.figures)
    if options.out is None:
        console.say(f"wrote  {written.out}")
    console.conclude(written.notices)


@command("summarize")
def summarize(options: Options, console: Console) -> None:
    """Gather the results of many samples in one table.

    A sample whose estimation failed (--on-failure write) is listed with the reason.

    \b
    punoise summarize results/*/prior.json --out summary.tsv --multiqc punoise_mqc.json
    """
    from ..prior.document import parse_prior
    from ..report.summary import as_batch, multiqc_content, summarize
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
