"""The estimators of α and β, one file per method."""

from . import (
    alphamax,
    auto,
    bound,
    elkan_noto,
    msgmm,
    multivariate,
    subclasses,
    target_decoy,
)
from .base import ESTIMATORS, Curve, Estimate, Estimator, Interval, Samples, Settings, other_way

__all__ = [
    "ESTIMATORS",
    "Curve",
    "Estimate",
    "Estimator",
    "Interval",
    "Samples",
    "Settings",
    "alphamax",
    "auto",
    "bound",
    "elkan_noto",
    "msgmm",
    "multivariate",
    "other_way",
    "subclasses",
    "target_decoy",
]
