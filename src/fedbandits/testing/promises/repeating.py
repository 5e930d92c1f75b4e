"""Same seed, same run, however it is divided, stopped, saved, loaded and continued."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fedbandits.contract.arrays import Array, State
from fedbandits.simulation.loop import Simulation
from fedbandits.testing.breach import Breach, difference, require
from fedbandits.testing.subject import PIECE, Subject, play, run_in_pieces

_GLOBAL = "draw from the Streams that agents() and server() are given, and from nothing else"


def repeatable(subject: Subject) -> None:
    """Same seed, same run, however it is divided; and other seeds make other runs."""
    first = subject.simulation()
    require(not _draws_globally(first.run), "a run draws from numpy's global random numbers (np.random.*)", _GLOBAL)
    pieces = run_in_pieces(subject.simulation())
    found = difference(first.state(), pieces.state())
    if found:
        again = difference(first.state(), subject.finished.state())
        require(not again, f"two runs with seed {subject.seed} differ: {again}", _GLOBAL)
        raise Breach(f"a run in pieces of {PIECE} steps differs from one at a stretch: {found}")
    other = subject.finished_otherwise
    require(
        not (np.array_equal(first.regret, other.regret) and np.array_equal(first.reward, other.reward)),
        f"seeds {subject.seed} and {subject.seed + 1} make the same run",
        "let the environment's world follow from the seed it is given",
    )


def compiled(subject: Subject) -> None:
    """Compiled functions, where there are any, make the run that `choose`, `learn` and `calling` make."""
    played, by_hand = subject.played, subject.simulation()
    if played.played == 0:
        offered = by_hand.plays and by_hand.agents.compiled() is not None and by_hand.world.block(0) is not None
        require(not offered, "agents and world offer compiled functions, and these have not played a single turn")
        return
    by_hand.compiled = False
    by_hand.run()
    found = difference(by_hand.state(), played.state())
    require(not found, f"played by compiled functions a run differs from one step by step: {found}")


def _draws_globally(run: Callable[[], None]) -> bool:
    """Whether `run` moves numpy's global generator."""
    before = np.random.get_state(legacy=False)  # noqa: NPY002 (nobody should draw from it: that is what is looked at)
    run()
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    return _position(before) != _position(after)


def _position(state: object) -> tuple[bytes, int, int]:
    assert isinstance(state, dict)
    return state["state"]["key"].tobytes(), int(state["state"]["pos"]), int(state["has_gauss"])


def resumable(subject: Subject) -> None:
    """Stop after any step, save, load into agents and a server that were just made, and go on: same run."""
    straight, hopping = subject.side(), subject.side()
    worlds = [subject.world() for _ in range(2)]
    for step in range(subject.horizon):
        for side, world in zip((straight, hopping), worlds, strict=True):
            side.talk(play(side, world, step), step)
        found = difference(straight.state(), hopping.state())
        require(not found, f"step {step}, after a new start from a snapshot in every step: {found}")
        fresh = subject.side()
        fresh.load(hopping.state())
        found = difference(hopping.state(), fresh.state())
        require(not found, f"step {step}: state() after load() is not what was loaded: {found}")
        hopping = fresh


def snapshots(subject: Subject) -> None:
    """A snapshot of a whole run is a copy, and one that does not fit is refused before anything has changed."""
    run = subject.simulation()
    run.run(steps=max(1, subject.horizon // 4))
    saved = run.state()
    kept = {name: array.copy() for name, array in saved.items()}
    run.run()
    found = difference(run.state(), subject.finished.state())
    require(not found, f"two runs with seed {subject.seed} differ: {found}", _GLOBAL)
    found = difference(saved, kept)
    require(not found, f"a snapshot changed while the run went on: {found}", "copy arrays in state()")
    other = subject.simulation()
    other.load(saved)
    other.run()
    found = difference(saved, kept)
    require(not found, f"a snapshot changed after it was loaded: {found}", "copy arrays in load()")
    found = difference(run.state(), other.state())
    require(not found, f"a run that was loaded after {subject.horizon // 4} steps ends otherwise: {found}")
    _refusals(other, saved)


def _refusals(run: Simulation, good: State) -> None:
    before = run.state()
    for name, array in good.items():
        part = name.split(".")[-1]
        _refused(run, {other: held for other, held in good.items() if other != name}, before, f"without {name}", part)
        if name.startswith("relay."):
            continue  # letters under way come and go, in number and size
        for bad in (np.zeros((*array.shape, 2), array.dtype), array.astype(np.float32)):
            _refused(run, good | {name: bad}, before, f"whose {name} is {bad.dtype} of shape {bad.shape}", part)
    for extra in ("surplus", "agents.surplus", "server.surplus", "world.surplus", "ledger.surplus"):
        _refused(run, good | {extra: np.zeros(1)}, before, f"with an unknown {extra}", "surplus")


def _refused(run: Simulation, state: Mapping[str, Array], before: State, which: str, named: str) -> None:
    try:
        run.load(state)
    except ValueError as error:
        require(named in str(error), f"the refusal of a snapshot {which} does not name {named}: {error}")
    else:
        raise Breach(f"a snapshot {which} was taken", "let load() of Stateful check it")
    found = difference(before, run.state())
    require(not found, f"a snapshot {which} was refused and yet changed the run: {found}")
