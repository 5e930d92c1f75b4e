"""Whom observations are about, as numbers: for algorithms that bound what one person contributes.

A person is known to an agent's file by the text that the product gave (`who`), and to its algorithm by 63 bits of

    BLAKE2b(who, key = the agent's key),

the same as long as the file lives, other ones in every other file, and of no use to anybody without the key (`secret`).
How many observations of each number were used is part of what the agent has learned: it survives `forget`, or a person
who was forgotten could be used anew. Two persons whose numbers are equal share what is allowed to one of them, which
protects both.
"""

from __future__ import annotations

import hashlib

from fedbandits.deploy.errors import InputError

_PURPOSE = b"fedbandits who"


def number_of(who: str, key: bytes) -> int:
    """The number that stands for a person, at least 0 and below 2^63."""
    told = hashlib.blake2b(who.encode(), key=key, digest_size=8, person=_PURPOSE).digest()
    return int.from_bytes(told, "little") >> 1


def check_named(who: str | None) -> None:
    """Raise `InputError` unless it is said whom a decision of an agent that protects persons is about."""
    if who is None:
        raise InputError(
            "this agent protects persons (unit='person'), and has to be told whom each decision is about: name them, "
            "by who"
        )
