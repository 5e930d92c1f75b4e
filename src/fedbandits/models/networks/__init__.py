"""Fully connected networks of a whole population, in numpy and compiled loops."""

from fedbandits.models.networks.architecture import Architecture
from fedbandits.models.networks.descent import Adam, Descent, descended
from fedbandits.models.networks.evaluation import gradients, hidden, outputs
from fedbandits.models.networks.initial import gaussian, symmetric
from fedbandits.models.networks.sums import descend, feature_sums, gradient_sums

__all__ = [
    "Adam",
    "Architecture",
    "Descent",
    "descend",
    "descended",
    "feature_sums",
    "gaussian",
    "gradient_sums",
    "gradients",
    "hidden",
    "outputs",
    "symmetric",
]
