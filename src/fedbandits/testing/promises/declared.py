"""What crosses the wire is what the catalogue declares, and raw observations only where it says so.

Not claimed: that nothing can be inferred. Statistics of a single observation are x x^T and y x, of rank one, from
which x follows up to its sign and |y| from the length of y x; hiding that is the task of the private algorithms.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fedbandits.contract.arrays import Array
from fedbandits.contract.messages import Message
from fedbandits.contract.wire import Direction, Free, Ragged, Utterance, WireError, WireField
from fedbandits.testing.breach import Breach, difference, require
from fedbandits.testing.recording import Event
from fedbandits.testing.subject import Subject

_DIRECTIONS: dict[str, set[str]] = {"alone": set(), "star": {"up", "down"}, "graph": {"peer"}}
_LONGER = "a longer horizon, or parameters under which it talks often"


def declarations(subject: Subject) -> None:
    """Kinds are unique for each direction, fields for each kind; who talks to nobody declares nothing."""
    about = subject.algorithm.about
    require(
        about.topology in _DIRECTIONS,
        f"about.topology is {about.topology!r}",
        f"write one of {', '.join(map(repr, _DIRECTIONS))}",
    )
    spoken = [(item.kind, item.direction) for item in about.says]
    for kind in spoken:
        require(spoken.count(kind) == 1, f"about.says declares {kind[0]!r} ({kind[1]}) twice", "declare it once")
    for utterance in about.says:
        _sound(utterance)
    directions = {item.direction for item in about.says}
    require(
        directions == _DIRECTIONS[about.topology],
        f"about.topology is {about.topology!r}, and about.says goes {', '.join(sorted(directions)) or 'nowhere'}",
        "agents in a star speak up and are spoken to (down), peers on a graph speak to peers, others declare nothing",
    )
    server = subject.side().server
    require(
        (server is not None) == (about.topology == "star"),
        f"about.topology is {about.topology!r}, and server() returns {type(server).__name__}",
        "return a server where agents talk in a star, None elsewhere",
    )
    require(
        about.calls != "never" or not about.says,
        'about.calls is "never", and about.says declares messages',
        'say "scheduled" if the moments of speaking follow from turns alone, else "data"',
    )


def _sound(utterance: Utterance) -> None:
    where = f"{utterance.kind!r} ({utterance.direction})"
    names = [item.name for item in utterance.fields]
    for item in utterance.fields:
        name = f"field {item.name!r} of {where}"
        require(names.count(item.name) == 1, f"{name} is declared twice", "declare it once")
        require(not item.semidefinite or item.symmetric, f"{name} is semidefinite, yet not symmetric", "declare both")
        require(
            not item.pooled or utterance.direction == "up",
            f"{name} is pooled and goes {utterance.direction}",
            "only what agents send up to a server is pooled there",
        )
        within = None if item.bound is None else item.bound.within
        require(
            within is None or within in names, f"the bound of {name} lies within {within!r}", "name a field beside it"
        )


def talks(subject: Subject) -> None:
    """Several conversations, or rounds in which somebody spoke: or else most checks would hold for no reason."""
    if not subject.algorithm.about.says:
        return
    syncs = sum(bool(event.crossed) for event in subject.events)
    require(
        syncs >= min(3, subject.horizon),
        f"it talks in {syncs} of {subject.horizon} steps, which shows nothing",
        f"this says nothing of the algorithm: give {_LONGER}",
    )


def fields(subject: Subject) -> None:
    """Kinds, fields, types and shapes; what is declared symmetric is so to the last bit."""
    declared = {(item.kind, item.direction): item for item in subject.algorithm.about.says}
    sent: set[Direction] = set()
    for event, direction, message in _crossed(subject):
        where = f"step {event.step}: message {message.kind!r} ({direction})"
        utterance = declared.get((message.kind, direction))
        if utterance is None:
            raise Breach(f"{where} was never declared", "add an Utterance of this kind and direction to about.says")
        sent.add(direction)
        items = {item.name: item for item in utterance.fields}
        needed = {item.name for item in utterance.fields if not item.optional}
        for name in sorted(needed - message.arrays.keys()):
            raise Breach(f"{where} lacks {name!r}", "send it, or declare it optional=True")
        for name, array in message.arrays.items():
            require(name in items, f"{where} carries {name!r}", "declare a WireField of this name")
            _fits(subject, f"{where}: {name!r}", items[name], array, message)
    wanted = _DIRECTIONS[subject.topology]
    require(
        sent == wanted or subject.topology == "graph",
        f"messages went {', '.join(sorted(sent)) or 'nowhere'} in {subject.horizon} steps, declared are both ways",
        f"if that is right, give {_LONGER}",
    )


def _fits(subject: Subject, what: str, item: WireField, array: Array, message: Message) -> None:
    require(
        array.dtype == np.dtype(item.dtype),
        f"{what} is of type {array.dtype}, declared is {np.dtype(item.dtype)}",
        f"send {np.dtype(item.dtype)}, or declare dtype={array.dtype.str[1:]!r}",
    )
    sizes = subject.wire.sizes
    expected = [sizes.get(size) if isinstance(size, str) else size for size in item.shape]
    require(None not in expected, f"{what} has a size that nobody knows: {item.shape}", "say it in sizes(problem)")
    fitting = array.ndim == 1 + len(expected) and all(
        isinstance(size, Free | Ragged) or size == held for size, held in zip(expected, array.shape[1:], strict=True)
    )
    shown = ", ".join(map(str, expected))
    require(fitting, f"{what} has shape {array.shape[1:]} per agent, declared is ({shown})", "send what was declared")
    for _, size in item.ragged:
        require(
            size in message.lengths, f"{what} has no lengths {size!r}", f"give Message(..., lengths={{{size!r}: ...}})"
        )
    if item.symmetric:
        require(
            np.array_equal(array, array.swapaxes(1, 2)),
            f"{what} is not symmetric to the last bit",
            "make it so, as in (a + a.swapaxes(1, 2)) / 2, or do not declare it symmetric",
        )
    if item.semidefinite and array.size:
        lowest = float(np.linalg.eigvalsh(array).min())
        slack = 1e-8 * max(1.0, float(np.abs(array).max()))
        require(lowest >= -slack, f"{what} has the eigenvalue {lowest:.3g}", "do not declare it semidefinite")


def raw(subject: Subject) -> None:
    """No number that goes to or from a server is a reward, or an arm's coordinate, unless its field is declared raw.

    Where arms are made of whole numbers, like unit vectors, a sum over one observation is the observation, and nothing
    can be told.
    """
    if subject.topology != "star":
        return
    chosen = np.concatenate([event.arms[np.arange(len(event.who)), event.picks].ravel() for event in subject.events])
    if (chosen == np.round(chosen)).all():
        return
    observed = np.concatenate([chosen, *(event.rewards for event in subject.events)])
    telling = observed[observed != np.round(observed)]  # whole numbers tell nothing: they are everywhere
    for event, direction, message in _crossed(subject):
        for name, array in message.arrays.items():
            item = subject.wire.declared(message.kind, direction)[name]
            found = array.ravel()[np.isin(array.ravel(), telling)]
            require(
                item.raw or array.dtype.kind != "f" or len(found) == 0,
                f"step {event.step}: {name!r} of message {message.kind!r} ({direction}) carries {found[:1]}, which an "
                "agent has observed",
            )


def unknown_messages(subject: Subject) -> None:
    """Agents refuse a message of a kind that was never declared, and stay as they are."""
    agents = subject.population()
    before = agents.state()
    try:
        agents.answer(Message("nonsense", np.arange(len(agents))))
    except WireError as error:
        require("nonsense" in str(error), f"the error does not name the kind: {error}")
    except Exception as error:
        raise Breach(f"answer() to an unknown kind raises {type(error).__name__}: {error}") from error
    else:
        raise Breach("answer() to the unknown kind 'nonsense' raises nothing")
    changed = difference(before, agents.state())
    require(not changed, f"answer() to an unknown kind changed the agents: {changed}")


def _crossed(subject: Subject) -> Iterator[tuple[Event, Direction, Message]]:
    for event in subject.events:
        for direction, message in event.crossed:
            yield event, direction, message
