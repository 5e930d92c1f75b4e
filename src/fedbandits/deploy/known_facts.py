"""The facts that an agent is told, as tables by name: `{"noise": {"sigma": 0.5}, "range": {"low": 0, "high": 1}}`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedbandits.contract.catalogue import ConfigError, hint
from fedbandits.contract.facts import FACTS, Fact


def read_facts(told: Any) -> tuple[Fact, ...]:
    """Facts in a list, or as a table of a file tells them; in an order of their own, so that equals compare equal."""
    facts = list(map(_read, told, told.values())) if isinstance(told, Mapping) else _listed(told)
    named = {fact.name: fact for fact in facts}
    if len(named) < len(facts):
        twice = next(fact.name for fact in facts if named[fact.name] is not fact)
        raise ConfigError(f"{twice} is told twice; leave one out")
    return tuple(named[name] for name in FACTS if name in named)


def plain_facts(facts: Iterable[Fact]) -> dict[str, Any]:
    """`facts` in terms JSON has, by name."""
    return {fact.name: fact.plain() for fact in facts}


def merged(held: Iterable[Fact], told: Iterable[Fact]) -> tuple[Fact, ...]:
    """What is `held`, with what is `told` in place of facts of the same type."""
    return read_facts(list({type(fact): fact for fact in (*held, *told)}.values()))


def beyond_defaults(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Those of `facts` that say more than is taken for granted when nothing is said."""
    return tuple(fact for fact in facts if fact != _default(type(fact)))


def with_defaults(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """`facts`, and beside them what is taken for granted of those types that are not among them."""
    return merged(filter(None, map(_default, FACTS.values())), facts)


def _read(name: str, told: Any) -> Fact:
    if name not in FACTS:
        raise ConfigError(f"unknown fact {name!r}; {hint(name, list(FACTS))}")
    return FACTS[name].read(told)


def _listed(told: Any) -> list[Fact]:
    if isinstance(told, Fact) or not isinstance(told, Iterable):
        raise ConfigError(f"must be a list, as in facts=[Noise(0.5), Range(0, 1)] (got {told!r})")
    facts = list(told)
    for fact in facts:
        if not isinstance(fact, Fact):
            raise ConfigError(f"{fact!r} is no fact; write facts=[Noise(0.5), Range(0, 1)], say")
        if FACTS.get(fact.name) is not type(fact):
            raise ConfigError(f"{fact.name} cannot be told to a deployed agent; {hint(fact.name, list(FACTS))}")
    return facts


def _default(kind: type[Fact]) -> Fact | None:
    try:
        return kind()
    except ConfigError:  # it has no defaults
        return None
