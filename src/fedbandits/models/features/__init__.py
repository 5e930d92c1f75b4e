"""Features: what a model sees of an arm."""

from fedbandits.models.features.features import Features, Identity

__all__ = ["Features", "Identity"]
