"""punoise: class priors and posteriors from noisy positives and unlabeled rows."""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Any

from .api import Estimated, Model, NewSample, apply, estimate, load

if TYPE_CHECKING:
    from .classifier import PUClassifier

__all__ = [
    "Estimated",
    "Model",
    "NewSample",
    "PUClassifier",
    "__version__",
    "apply",
    "estimate",
    "load",
]


def __getattr__(name: str) -> Any:
    """Load the part that needs scikit-learn when it is first asked for."""
    if name == "PUClassifier":
        from .classifier import PUClassifier

        return PUClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
