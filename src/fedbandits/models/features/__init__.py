"""Features: what a model sees of an arm."""

from fedbandits.models.features.features import Features, Identity
from fedbandits.models.features.quadrature import QuadratureFeatures, quadrature_features

__all__ = ["Features", "Identity", "QuadratureFeatures", "quadrature_features"]
