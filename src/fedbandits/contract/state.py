"""Snapshots: an object that names its arrays can be saved, moved to another process and resumed."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, State, check_state


class Stateful:
    """`keeps` names the attributes that make up the state: arrays, or parts that are `Stateful` too.

    `state` copies them out under dotted names (`"model.theta"`); `load` copies a snapshot back in
    place and changes nothing unless all of it fits. What grows while an object lives is kept in an
    array that `load` may replace: such names are listed in `resizes` and may change their lengths.
    """

    keeps: ClassVar[tuple[str, ...]] = ()
    resizes: ClassVar[frozenset[str]] = frozenset()

    def state(self) -> State:
        """A copy of everything this object knows, as named arrays."""
        return {name: np.array(array) for name, array in self._arrays().items()}

    def share(self, agent: int) -> State:
        """What agent `agent` of a population would keep if it lived alone, in a form that two populations agree on."""
        return {name: np.array(array) for name, array in self._share(agent, "").items()}

    def load(self, state: Mapping[str, Array]) -> None:
        """Become the object that `state` was taken from; raises before anything has changed."""
        own = self._arrays()
        grown = self._growing()
        fixed = {name: array for name, array in own.items() if name not in grown}
        check_state({name: state[name] for name in state if name not in grown}, fixed)
        if missing := sorted(grown - state.keys()):
            raise ValueError(f"the snapshot lacks {', '.join(missing)}")
        for name in grown:
            given, held = state[name], own[name]
            if given.dtype != held.dtype or given.ndim != held.ndim:
                raise ValueError(
                    f"the snapshot's {name} is {given.dtype} of {given.ndim} dimensions, "
                    f"this object needs {held.dtype} of {held.ndim}"
                )
        self._check_grown(state, "")
        self._take(state, "")

    def _arrays(self, prefix: str = "") -> State:
        found: State = {}
        for name in self.keeps:
            part = getattr(self, name)
            if isinstance(part, Stateful):
                found |= part._arrays(f"{prefix}{name}.")
            else:
                found[prefix + name] = part
        return found

    def _share(self, agent: int, prefix: str) -> State:
        """One row of every array; parts whose arrays are not led by the axis of agents override this."""
        found: State = {}
        for name in self.keeps:
            part = getattr(self, name)
            if isinstance(part, Stateful):
                found |= part._share(agent, f"{prefix}{name}.")
            else:
                found[prefix + name] = part[agent : agent + 1]
        return found

    def _growing(self, prefix: str = "") -> set[str]:
        found = {prefix + name for name in self.resizes}
        for name in self.keeps:
            part = getattr(self, name)
            if isinstance(part, Stateful):
                found |= part._growing(f"{prefix}{name}.")
        return found

    def _check_grown(self, state: Mapping[str, Array], prefix: str) -> None:
        """Raise where arrays that may change their lengths do not fit this object otherwise; parts override this."""
        for name in self.keeps:
            part = getattr(self, name)
            if isinstance(part, Stateful):
                part._check_grown(state, f"{prefix}{name}.")

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        """Become what `state` holds; what follows from it is computed anew by overriding this, not `load`, which is not
        called for parts of other objects.
        """
        for name in self.keeps:
            part = getattr(self, name)
            if isinstance(part, Stateful):
                part._take(state, f"{prefix}{name}.")
            elif name in self.resizes:
                setattr(self, name, np.array(state[prefix + name]))
            else:
                part[...] = state[prefix + name]


def load_whole(load: Callable[[Mapping[str, Array]], None], state: Mapping[str, Array], before: State) -> None:
    """`load` the parts of `state` one after the other; where one does not fit, all are as they were `before`."""
    try:
        load(state)
    except Exception:
        load(before)
        raise


def to_bytes(state: Mapping[str, Array], *, compressed: bool = False) -> bytes:
    """`state` as the bytes of one `.npz` file."""
    out = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    save(out, allow_pickle=False, **state)
    return out.getvalue()


def from_bytes(content: bytes) -> State:
    """What `to_bytes` was given."""
    with np.load(io.BytesIO(content), allow_pickle=False) as held:
        return dict(held)
