"""Graphs on which agents talk to each other, under the name that users import: see `fedbandits.graphs`."""

from fedbandits.graphs import *  # noqa: F403
from fedbandits.graphs import __all__ as __all__
