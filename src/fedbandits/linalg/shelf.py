"""What is compiled stays on disk for the next process, unless it is for types that the next process may not know.

What was kept is found again as long as everything is written as it was that the code was made of, in whatever file
(`linalg.ingredients`).

Numba keeps an index for each function, in which every set of argument types has a place, and reads the whole of it for
any of them. Named tuples in it are found by the modules they come from: one of somebody else's module, as states of an
algorithm of one's own are (`contract.compiled`), would make the index unreadable to all who do not have that module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

from fedbandits.linalg.ingredients import OURS, digest, package_of


class Shelf(FunctionCache):
    """The compiled forms of one function, of which those are kept whose types come from its own package or from ours.

    An index that cannot be read is begun anew.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What is kept for the signature `sig`; None where there is nothing."""
        if not self._known(sig):
            return None
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except (ImportError, AttributeError):  # what reading a type that is gone raises
            self.flush()  # type: ignore[no-untyped-call]
            return None

    def holds(self, sig: Any, target_context: Any) -> bool:
        """Whether anything is kept for the signature `sig`, without reading it."""
        if not self._known(sig):
            return False
        try:
            index = cast(Any, self._cache_file)._load_index()
        except (ImportError, AttributeError):
            return False
        return self._index_key(sig, target_context.codegen()) in index

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for the signature `sig`."""
        if self._known(sig):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        made_of = digest(self._py_func, _named(getattr(sig, "args", sig)))
        return (*super()._index_key(sig, codegen), made_of, _how())  # type: ignore[no-untyped-call]

    def _known(self, sig: Any) -> bool:
        at_home = {package_of(self._py_func.__module__), OURS}
        return all(package_of(kind.__module__) in at_home for kind in _named(getattr(sig, "args", sig)))


def kinds_of(function: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What the compiler takes `arguments` of `function` for; nothing where it is switched off."""
    if not isinstance(function, Dispatcher):
        return ()
    return tuple(function.typeof_pyval(argument) for argument in arguments)


def is_loaded(function: Any, kinds: tuple[Any, ...]) -> bool:
    """Whether this process has `function` compiled for arguments of these `kinds`, if it has to be."""
    return not isinstance(function, Dispatcher) or kinds in cast(Any, function).overloads


def is_at_hand(function: Any, kinds: tuple[Any, ...]) -> bool:
    """Whether nobody has to compile `function` for arguments of these `kinds`: it is loaded, or on disk."""
    return is_loaded(function, kinds) or function._cache.holds(kinds, function.targetctx)


def _named(kinds: Iterable[Any]) -> Iterable[type]:
    """The classes of all named tuples among `kinds`, at whatever depth."""
    for kind in kinds:
        if isinstance(kind, types.NamedTuple | types.NamedUniTuple):
            yield kind.instance_class
        if isinstance(kind, types.BaseTuple):
            yield from _named(cast(Any, kind))


@cache
def _how() -> str:
    """A number for the compiler's options, and for what we have changed of it."""
    here = Path(__file__)
    return sha256(b"".join(here.with_name(name).read_bytes() for name in ("jit.py", "parts.py"))).hexdigest()
