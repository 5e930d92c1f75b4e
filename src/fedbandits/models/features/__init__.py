"""Features: what a model sees of an arm."""

from fedbandits.models.features.appended import Appended
from fedbandits.models.features.features import Features, Identity
from fedbandits.models.features.quadrature import QuadratureFeatures, quadrature_features
from fedbandits.models.features.random_fourier import RandomFourierFeatures

__all__ = ["Appended", "Features", "Identity", "QuadratureFeatures", "RandomFourierFeatures", "quadrature_features"]
