"""Noise that protects people: from a key that is in the agent's file and nowhere else.

Whoever can compute the noise can remove it. A deployed agent that draws such noise therefore has a key of its own, 32
bytes from the operating system, made with its file. It is part of the saved state, and of nothing that leaves the file:
not of settings, status, logs, letters or what `Agent.state` tells.

Noise has to be repeated when the journal is done again, and must never be used for two different things: not even by a
file that went back in time, as one that was restored from a backup. Each entry of the journal therefore has a *nonce*,
16 fresh bytes from the operating system, which is recorded with it. Its noise is the key stream of ChaCha20 (RFC 8439)
under

    BLAKE2b(nonce, key = the agent's key), 32 bytes,

from its beginning. Nonces are dropped when the state is saved whole: afterwards the noise of earlier entries cannot be
computed from the file any more, not even by its owner.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.streams import Secret
from fedbandits.deploy.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

KEY_BYTES, NONCE_BYTES = 32, 16
_PURPOSE = b"fedbandits noise"


def fresh_nonce() -> bytes:
    """What no entry had before."""
    return os.urandom(NONCE_BYTES)


class OwnSecret(Secret):
    """The secret of one agent: a key that only its snapshot holds, and a stream for each occasion.

    Draws are (b + 1/2) 2^-52, b being 52 bits of the stream: in the open unit interval.
    """

    keeps: ClassVar[tuple[str, ...]] = ("key",)

    def __init__(self, needed_by: str) -> None:
        self._cipher = _chacha20(needed_by)
        self.key = np.frombuffer(os.urandom(KEY_BYTES), dtype=np.uint8).reshape(1, KEY_BYTES).copy()
        """(1, 32) bytes; replaced by `load`."""
        self.begin(fresh_nonce())

    def __repr__(self) -> str:
        return "OwnSecret()"

    def begin(self, nonce: bytes) -> None:
        """Draw from the stream of `nonce` from now on, from its beginning."""
        self._nonce = nonce
        self._stream: Callable[[int], bytes] | None = None

    def uniform(self, who: IntArray, size: int | None = None) -> FloatArray:
        """(w,) or (w, size) draws from the open unit interval."""
        if self._stream is None:
            derived = hashlib.blake2b(
                self._nonce, key=self.key.tobytes(), digest_size=KEY_BYTES, person=_PURPOSE
            ).digest()
            self._stream = self._cipher(derived)
        drawn = np.frombuffer(self._stream(8 * len(who) * (1 if size is None else size)), dtype="<u8")
        inside = ((drawn >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
        return inside if size is None else inside.reshape(len(who), size)

    def _take(self, state: Mapping[str, Array], prefix: str) -> None:
        super()._take(state, prefix)
        self._stream = None  # that of another key


class UndeclaredSecret(Secret):
    """What agents get that have no use for a secret, as far as they say: drawing from it fails, rather than giving
    noise that others can compute.
    """

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm

    def uniform(self, who: IntArray, size: int | None = None) -> FloatArray:
        """Refused."""
        raise SettingsError(
            f"{self._algorithm} draws noise that protects people, which a deployed agent has only if its algorithm "
            "says so (About.private) and its population keeps the streams that it draws from (`keeps`)"
        )


def _chacha20(needed_by: str) -> Callable[[bytes], Callable[[int], bytes]]:
    """From a key to a function that gives the next bytes of its stream."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        raise SettingsError(
            f"{needed_by} draws noise that protects people, for which a deployed agent needs the package cryptography: "
            "pip install 'fedbandits[deploy]'"
        ) from None

    def stream(key: bytes) -> Callable[[int], bytes]:
        # counter and nonce may be zero: no key is used for two streams
        encrypt = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update
        return lambda count: bytes(encrypt(bytes(count)))

    return stream
