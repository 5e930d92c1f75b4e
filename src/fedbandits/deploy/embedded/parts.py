"""The parts that something with a state is made up of, and the names of their arrays in its snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from fedbandits.contract.state import Stateful


def parts_of(whole: Stateful, place: str = "") -> Iterator[tuple[str, Stateful]]:
    """`whole` and all its parts, each with what the names of its arrays begin with: `"own.rng."`."""
    yield place, whole
    for name in whole.keeps:
        part = getattr(whole, name)
        if isinstance(part, Stateful):
            yield from parts_of(part, f"{place}{name}.")


def names_within(whole: Stateful, kind: type[Stateful]) -> frozenset[str]:
    """The names of all arrays in the snapshot of `whole` that belong to parts of a kind."""
    return frozenset(
        f"{place}{name}" for place, part in parts_of(whole) if isinstance(part, kind) for name in part.state()
    )
