"""From scores and a prior to posteriors: `posterior`."""

from __future__ import annotations

from .options import Options, command
from .process import Console


@command("posterior")
def posterior(options: Options, console: Console) -> None:
    """Compute each row's probability of being positive.

    \b
    punoise posterior --scores scores.tsv --prior prior.json --out posterior.tsv
    punoise posterior --scores scores.tsv --alpha 0.0441 --beta 0.99 --out posterior.tsv
    """
    from .. import pipeline
    from ..recipes import steps

    settings = options.pick(
        steps.PosteriorSettings, wanted=options.pick(pipeline.Wanted), sketches=options.sketch
    )
    with options.engine(console) as engine:
        written = steps.posterior(settings, engine)
    if written.groups is not None:
        console.print_groups(written.groups)
    rows = written.rows
    if options.fdr is not None and rows.unlabeled:
        lowest = f"; the lowest fdr of any row is {rows.lowest_fdr:.2g}"
        console.say(
            f"calls  {rows.called:,} unlabeled rows have an fdr of at most {options.fdr}"
            f"{'' if rows.called else lowest}"
        )
    console.conclude(written.notices)
