"""Stages between an algorithm and the wire, under the name that users import: see `fedbandits.channel`."""

from fedbandits.channel import STAGES, End, Gaussian, Quantise, Robust, Stage, Through, through

__all__ = ["STAGES", "End", "Gaussian", "Quantise", "Robust", "Stage", "Through", "through"]
