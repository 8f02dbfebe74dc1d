"""punoise: class priors and posteriors from noisy positives and unlabeled rows."""

__version__ = "0.1.0"

from .api import Estimated, apply, estimate

__all__ = ["Estimated", "__version__", "apply", "estimate"]
