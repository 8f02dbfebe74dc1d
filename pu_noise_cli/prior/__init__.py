"""Estimates of alpha and beta from a sketch, one file a method. May import score."""

from . import alphamax, auto, bound, elkan_noto, msgmm, multivariate, subclasses

__all__ = ["alphamax", "auto", "bound", "elkan_noto", "msgmm", "multivariate", "subclasses"]
