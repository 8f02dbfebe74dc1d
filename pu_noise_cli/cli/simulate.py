"""Tables with known alpha and beta: `simulate`."""

from __future__ import annotations

import os
import shlex

from ..settings import SimulateSettings
from .options import command
from .process import Console


@command("simulate", SimulateSettings)
def simulate(settings: SimulateSettings, console: Console) -> None:
    """Simulate tables with known alpha and beta.

    Writes labeled.csv, unlabeled.csv and truth.csv, and negatives.csv if any are asked for.

    \b
    punoise simulate --out-dir simulated --alpha 0.2 --beta 0.95
    """
    from ..tables.simulate import simulate, write_simulation
    from ..tables.writing import make_directory

    make_directory(settings.out_dir)
    drawn = simulate(
        settings.alpha,
        settings.beta,
        settings.n_labeled,
        settings.n_unlabeled,
        settings.n_features,
        settings.seed,
        settings.selection,
        settings.n_negatives,
    )
    write_simulation(drawn, settings.out_dir)
    console.say(f"wrote  the tables to {settings.out_dir}")
    tables = (
        f"--{name} {shlex.quote(os.path.join(settings.out_dir, name))}.csv"
        for name in ("labeled", "unlabeled")
    )
    console.say(f"next   punoise run {' '.join(tables)} --out-dir results")
