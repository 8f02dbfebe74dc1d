"""punoise in a notebook: two data frames to shares, posteriors, a plot and a report.

Run it as a script, or cell by cell (`# %%`) in an editor that knows such cells.
"""

# %% Two data frames; here simulated, with α = 0.2 and β = 0.95
import numpy as np
import pandas as pd

import pu_noise_cli as punoise

rng = np.random.default_rng(0)


def table(rows: int, share: float, prefix: str) -> pd.DataFrame:
    positive = np.arange(rows) < share * rows
    x = rng.normal(size=(rows, 4)) + 1.2 * positive[:, None]
    names = [f"{prefix}{i}" for i in range(rows)]
    return pd.DataFrame(x, columns=["a", "b", "c", "d"], index=names)


labeled, unlabeled = table(500, 0.95, "known"), table(4000, 0.2, "candidate")

# %% The shares, with their intervals and what to be wary of
found = punoise.estimate(labeled, unlabeled)
print(f"alpha {found.alpha:.3f} {found.alpha_ci}, beta {found.beta:.3f} {found.beta_ci}")
print(*found.warnings, sep="\n")

# %% The best candidates, and the labels to check first, by the names in the data frames
print(found.unlabeled.nlargest(5, "posterior"))
print(found.labeled.nsmallest(5, "posterior_labeled"))

# %% New rows, by the same model
print(found.score(table(3, 0.5, "new")))

# %% A plot: pandas draws it where matplotlib is installed
try:
    ax = found.unlabeled.sort_values("score").plot(x="score", y="posterior", legend=False)
    ax.figure.savefig("posterior.png")
except ImportError:
    print("pip install matplotlib for the plot; the report has it, too")

# %% Everything at a glance
found.report("report.html")
