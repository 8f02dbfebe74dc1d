"""Results for people: `report` and `summarize`."""

from __future__ import annotations

from ..errors import UsageError
from ..settings import ReportSettings, SummarizeSettings
from .options import command, engine_for
from .process import Console


@command("report", ReportSettings)
def report(settings: ReportSettings, console: Console) -> None:
    """Write the HTML report of a directory of results, or of scores and their prior, anew.

    \b
    punoise report results
    punoise report --scores scores.tsv --prior prior.json --out report.html
    """
    from ..recipes import report as recipe
    from ..report import page as figures

    if (settings.folder is None) == (settings.scores is None):
        raise UsageError("give a directory of results, or --scores with --prior")
    if settings.scores is not None and settings.out is None:
        raise UsageError("--scores needs --out")
    if settings.figures is not None:
        figures.converter()  # a usage error if it is missing
    with engine_for(settings.process, console) as engine:
        written = recipe.report(settings, engine)
    if settings.figures is not None:
        figures.write_figures(written.page.drawn, settings.figures)
    if settings.out is None:
        console.say(f"wrote  {written.out}")
    console.conclude(written.notices)


@command("summarize", SummarizeSettings)
def summarize(settings: SummarizeSettings, console: Console) -> None:
    """Gather the results of many samples in one table.

    A sample whose estimation failed (--on-failure write) is listed with the reason.

    \b
    punoise summarize results/*/prior.json --out summary.tsv --multiqc punoise_mqc.json
    """
    from ..prior.document import parse_prior
    from ..report.summary import as_batch, multiqc_content, summarize
    from ..tables.files import read_json
    from ..tables.writing import check_table_target, check_target, write_json, write_table

    check_table_target(settings.out)
    if settings.multiqc is not None:
        if not settings.multiqc.endswith("_mqc.json"):
            raise UsageError(f"--multiqc {settings.multiqc}: the name must end in _mqc.json")
        check_target(settings.multiqc)
    rows = summarize((name, parse_prior(name, read_json(name))) for name in settings.priors)
    write_table(settings.out, as_batch(rows))
    if settings.multiqc is not None:
        write_json(settings.multiqc, multiqc_content(rows))
