"""punoise: class priors and posteriors from noisy positives and unlabeled rows."""

__version__ = "0.1.0"
