"""Tables with known alpha and beta: `simulate`."""

from __future__ import annotations

import os
import shlex

from .options import Options, command
from .process import Console


@command("simulate")
def simulate(options: Options, console: Console) -> None:
    """Simulate tables with known alpha and beta.

    Writes labeled.csv, unlabeled.csv and truth.csv, and negatives.csv if any are asked for.

    \b
    punoise simulate --out-dir simulated --alpha 0.2 --beta 0.95
    """
    from ..tables.simulate import simulate, write_simulation
    from ..tables.writing import make_directory

    make_directory(options.out_dir)
    drawn = simulate(
        options.alpha,
        options.beta,
        options.n_labeled,
        options.n_unlabeled,
        options.n_features,
        options.seed,
        options.selection,
        options.n_negatives,
    )
    write_simulation(drawn, options.out_dir)
    console.say(f"wrote  the tables to {options.out_dir}")
    tables = (
        f"--{name} {shlex.quote(os.path.join(options.out_dir, name))}.csv"
        for name in ("labeled", "unlabeled")
    )
    console.say(f"next   punoise run {' '.join(tables)} --out-dir results")
