"""The estimators of α and β, one file per method."""

from . import auto, bound
from .base import ESTIMATORS, Curve, Estimate, Estimator, Samples, Settings

__all__ = ["ESTIMATORS", "Curve", "Estimate", "Estimator", "Samples", "Settings", "auto", "bound"]
