"""How mean rewards depend on scores."""

from __future__ import annotations

from typing import ClassVar

from fedbandits.contract.facts.fact import Fact
from fedbandits.contract.parameters import value
from fedbandits.linalg.links import LinkName


@value
class Link(Fact):
    """The mean reward of an arm x is mu(<theta, x>), mu being the mean `function` of that name; see `linalg.links`."""

    name: ClassVar[str] = "link"

    function: LinkName = "identity"
