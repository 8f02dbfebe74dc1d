"""From scores and a prior to posteriors: `posterior`."""

from __future__ import annotations

from ..settings import PosteriorSettings
from .options import command, engine_for
from .process import Console


@command("posterior", PosteriorSettings)
def posterior(settings: PosteriorSettings, console: Console) -> None:
    """Compute each row's probability of being positive.

    \b
    punoise posterior --scores scores.tsv --prior prior.json --out posterior.tsv
    punoise posterior --scores scores.tsv --alpha 0.0441 --beta 0.99 --out posterior.tsv
    """
    from ..recipes import steps

    with engine_for(settings.process, console) as engine:
        written = steps.posterior(settings, engine)
    if written.groups is not None:
        console.print_groups(written.groups)
    rows, fdr = written.rows, settings.wanted.fdr
    if fdr is not None and rows.unlabeled:
        lowest = f"; the lowest fdr of any row is {rows.lowest_fdr:.2g}"
        console.say(
            f"calls  {rows.called:,} unlabeled rows have an fdr of at most {fdr}"
            f"{'' if rows.called else lowest}"
        )
    console.conclude(written.notices)
