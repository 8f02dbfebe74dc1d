"""punoise: class priors and posteriors from noisy positives and unlabeled rows."""

__version__ = "0.1.0"

from .api import Estimated, Model, apply, estimate, load

__all__ = ["Estimated", "Model", "__version__", "apply", "estimate", "load"]
