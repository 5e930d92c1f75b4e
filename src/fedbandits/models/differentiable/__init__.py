"""Models that are differentiable in their parameters, by name or by address."""

import dataclasses

from fedbandits.contract.catalogue import Registry, build
from fedbandits.models.differentiable.hill import Hill
from fedbandits.models.differentiable.model import AboutModel, Model
from fedbandits.models.differentiable.rectifier import Rectifier
from fedbandits.models.differentiable.sigmoid import Sigmoid
from fedbandits.models.differentiable.waves import Waves

MODELS: Registry[Model] = Registry(
    "model", "fedbandits.models", (Sigmoid, Rectifier, Waves, Hill), needs=("parameters", "values", "gradients")
)


def model_of(name: str, **sizes: int) -> Model:
    """The model called `name`, or at that address, with those of the `sizes` that it has.

    >>> model_of("sigmoid", width=10, layers=2)
    Sigmoid(width=10)
    """
    kind = MODELS.find(name)
    fields: set[str] = {item.name for item in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set()
    return build(MODELS, name, {key: size for key, size in sizes.items() if key in fields}, "model")


__all__ = ["MODELS", "AboutModel", "Hill", "Model", "Rectifier", "Sigmoid", "Waves", "model_of"]
