"""Tasks that have a world in common share what it draws, and nothing comes out differently."""

from __future__ import annotations

import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.contract.streams import seeds_of
from fedbandits.environments.arms import FreshArms, PoolArms
from fedbandits.environments.linear import LinearWorld
from fedbandits.studies.engines import worlds
from fedbandits.studies.engines.worlds import Recalled, Worlds
from fedbandits.studies.tasks import Task

ALGORITHMS = ["dislinucb:threshold=1", "independent-linucb", "random"]
SIZES = "clients=200,dim=10,arms=10"


def frame(environment, **options):
    found = fb.compare(ALGORITHMS, environment, 40, 2, points=None, **options)
    return found.drop(columns=["seconds", "decisions_per_second"], errors="ignore")


@pytest.mark.parametrize(
    ("environment", "kind"),
    [(f"linear:{SIZES}", FreshArms), (f"linear:{SIZES},pool=50,stragglers=0.5", PoolArms)],
)
@pytest.mark.parametrize(("room", "draws"), [(0, 3 * 4), (3 * 10**6, 4 + 2 * 3), (2**28, 4)])
def test_arms_are_drawn_once_for_all_algorithms_of_a_seed(environment, kind, room, draws, monkeypatch):
    """Four blocks of thirteen steps, of which the first one, or all of them, are kept."""
    alone = pd.concat(
        [fb.compare([name], environment, 40, 2, points=None) for name in ALGORITHMS], ignore_index=True
    ).drop(columns=["seconds", "decisions_per_second"], errors="ignore")
    drawn = []
    draw = kind.draw
    monkeypatch.setattr(kind, "draw", lambda self, *rest: drawn.append(1) or draw(self, *rest))
    monkeypatch.setattr(worlds, "room_for_worlds", lambda: room)
    together = frame(environment)
    order = ["algorithm", "seed", "step"]
    pd.testing.assert_frame_equal(
        together.sort_values(order).reset_index(drop=True), alone.sort_values(order).reset_index(drop=True)
    )
    assert len(drawn) == 2 * draws


def test_what_is_kept_fits_into_the_room():
    world = fb.environments.Linear(clients=100, dim=10, arms=10).world(200, seeds_of(0).world)
    assert isinstance(world, LinearWorld)
    world.remember(5 * 10**6)
    first = world.turn(0).arms.copy()
    for step in range(200):
        world.turn(step)
    held = sum(array.nbytes for drawn in world._kept.values() for array in drawn if array is not None)
    assert 0 < held <= 5 * 10**6
    assert (world.turn(0).arms == first).all()
    world.remember(0)
    assert not world._kept


def test_worlds_are_made_anew_for_another_seed_and_where_they_move():
    recalled = Recalled(fb.environments.Linear(clients=3))
    seeds = [seeds_of(seed).world for seed in (0, 0, 1)]
    one, again, other = (recalled.world(10, seed) for seed in seeds)
    assert one is again
    assert other is not one
    assert recalled.clients == 3
    moving = Recalled(fb.environments.ENVIRONMENTS["linear-mdp"]())
    assert moving.world(10, seeds[0]) is not moving.world(10, seeds[0])


def test_nothing_is_remembered_for_a_task_that_is_alone():
    environment, algorithm = fb.environments.Linear(clients=3), fb.algorithms.DisLinUCB()
    tasks = [Task("dis", algorithm, environment, 10, seed) for seed in range(3)]
    chosen = Worlds(tasks)
    assert all(chosen.environment(task) is environment for task in tasks)
    both = Worlds([*tasks, *tasks])
    assert isinstance(both.environment(tasks[0]), Recalled)
