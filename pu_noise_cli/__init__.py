"""punoise: class priors and posteriors from noisy positives and unlabeled rows.

    import pu_noise_cli as punoise

    result = punoise.estimate(labeled, unlabeled)   # data frames, arrays or files
    result.alpha, result.alpha_ci, result.beta      # fractions: positive rows, correct labels
    result.unlabeled["posterior"]                   # the probability that each row is positive
    result.candidates(20)                           # the most likely positives
    audit = result.audit(60)                        # rows to verify: fill in audit["verdict"]
    result = result.with_verdicts(audit)            # verdicts narrow alpha_ci
    result.score(new_rows)                          # posteriors of new rows
    result.estimate_new(new_rows).alpha             # the fraction of positives among them
    result.save("model.punoise"); punoise.load("model.punoise")
    punoise.apply(variants, "pejaver2022:REVEL", "REVEL")   # levels of evidence
    punoise.PUClassifier(estimator).fit(X, y)       # the same for scikit-learn

Bad tables and options raise `punoise.errors.InputError` and `punoise.errors.UsageError`, which are
ValueErrors.
"""

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import errors

if TYPE_CHECKING:
    from .api import Estimated, Model, NewSample, apply, estimate, load
    from .classifier import PUClassifier

__all__ = [
    "Estimated",
    "Model",
    "NewSample",
    "PUClassifier",
    "__version__",
    "apply",
    "errors",
    "estimate",
    "load",
]


def __getattr__(name: str) -> Any:
    """Load what is behind a name when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = ".classifier" if name == "PUClassifier" else ".api"
    return getattr(import_module(home, __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
