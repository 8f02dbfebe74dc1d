"""Estimates of α and β from a sketch, one file a method; PRIOR.json. May import score."""

from . import alphamax, auto, bound, elkan_noto, msgmm, multivariate, subclasses

__all__ = ["alphamax", "auto", "bound", "elkan_noto", "msgmm", "multivariate", "subclasses"]
