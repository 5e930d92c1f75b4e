"""Features by name, or by place: `{"age": 0.3, "new": 1.0}` as a row of d numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedbandits.contract.errors import hint
from fedbandits.deploy.errors import InputError

if TYPE_CHECKING:
    from fedbandits.deploy.settings import Settings

_LISTED = 5


def row_of(told: Mapping[Any, Any], settings: Settings, arm: str | int) -> list[Any]:
    """The features that are `told` of an arm, in the order in which they were declared.

    Names that were not declared are refused. Features that are not told are refused, too, unless the agent was asked
    to let them count as 0 (`missing = "zero"`): that nothing was said need not mean that it is nothing.
    """
    places, row, left = settings.feature_places, [0.0] * settings.dim, set(range(settings.dim))
    for name, value in told.items():
        place = places.get(name) if isinstance(name, str | int) and not isinstance(name, bool) else None
        if place is None:
            raise InputError(f"arm {arm!r} has a feature {name!r} that is not known; {_known(name, settings)}")
        if place not in left:
            raise InputError(f"arm {arm!r} has the feature {name!r} twice")
        left.remove(place)
        row[place] = value
    if left and settings.missing == "refused":
        names = [settings.features[place] if settings.features else place for place in sorted(left)]
        raise InputError(
            f"arm {arm!r} lacks {len(names)} of {settings.dim} features: {', '.join(map(repr, names[:_LISTED]))}"
            f'{", ..." if len(names) > _LISTED else ""}; tell them, or open the agent with missing="zero"'
        )
    return row


def _known(name: Any, settings: Settings) -> str:
    if settings.features is None:
        return f"features of this agent have no names, but places from 0 to {settings.dim - 1}"
    return hint(str(name), settings.features)
