"""What agents send up is bounded, and they keep to it: or else nobody could tell a lie from what was observed.

Tried as a deployed server does it (`deploy.flower.inspection`), with what each agent has sent before, and with as many
observations as there are steps. Not claimed: that a bound is tight. Algorithms that add noise themselves are not held
to bounds; those whose sums go through a noise stage are, to what the stage declares.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fedbandits.contract.messages import Message
from fedbandits.deploy.flower.book.contributions import Contribution
from fedbandits.deploy.flower.trust.inspection import Inspector, RejectedError
from fedbandits.deploy.flower.trust.meaning import Meaning
from fedbandits.deploy.flower.trust.past import Past
from fedbandits.testing.breach import Breach, require
from fedbandits.testing.subject import Subject

_TRIED = 300
"""How many replies are looked at."""
_HOW = (
    "declare bound=Bound(limit), limit(problem, asked) being the largest norm that one observation contributes, as "
    "those of fedbandits.models.limits, or counts=True for a number of observations"
)


def bounded(subject: Subject) -> None:
    """Every number that goes up has a finite bound that honest agents keep to."""
    algorithm = subject.algorithm
    if subject.topology != "star":
        return
    inspector = Inspector(algorithm, subject.problem, subject.wire)
    if not inspector.checks_bounds:
        return
    meaning = Meaning(algorithm, subject.problem)
    for utterance in algorithm.about.says:
        if utterance.direction == "up":
            for name, item in meaning.fields(utterance.kind, "up").items():
                known = item.bound is not None or item.counts or item.dtype == "b1"
                require(known, f"{name!r} of {utterance.kind!r} (up) has no bound", _HOW)
    contributed: dict[int, Contribution] = {}
    tried = 0
    for event in subject.events:
        asked: Message | None = None
        for direction, message in event.crossed:
            if direction == "down":
                asked = message
                continue
            assert asked is not None
            where = f"step {event.step}: the answer {message.kind!r} to {asked.kind!r}"
            for row, who in enumerate(map(int, message.who)):
                request = asked.of(np.flatnonzero(asked.who == who)[:1])
                _finite(f"{where} of agent {who}", subject, meaning, request, message.kind)
                content, letter = subject.wire.encode(message, row, "up"), subject.wire.encode(request, 0, "down")
                past = Past(subject.horizon, contributed.get(who, Contribution()))
                try:
                    inspector.read(content, letter, past)
                except RejectedError as error:
                    raise Breach(f"{where} of agent {who}: {error}", "correct what is declared of the field") from None
                contributed[who] = past.contribution.plus(inspector.handed(content))
                tried += 1
            if tried >= _TRIED:
                return


def _finite(where: str, subject: Subject, meaning: Meaning, request: Message, kind: str) -> None:
    problem = replace(meaning.problem, horizon=subject.horizon)
    asked = meaning.arrays(request, "down")
    for name, item in meaning.fields(kind, "up").items():
        limit = 0.0 if item.bound is None else item.bound.limit(problem, asked)
        require(math.isfinite(limit), f"{where}: the bound of {name!r} is {limit}", _HOW)
