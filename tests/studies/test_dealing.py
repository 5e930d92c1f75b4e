"""Tasks are dealt so that those of one world reach one worker, and nobody is idle while something is left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from fedbandits.algorithms import Random
from fedbandits.studies.engines.dealing import Deal
from fedbandits.studies.engines.worlds import HandedOver, Recalled
from fedbandits.studies.tasks import Task

ENV = fb.environments.Linear(clients=2, dim=3, arms=4)


def tasks_of(seeds):
    """Tasks under `seeds`, known by tens."""
    return {10 * place: Task("random", Random(), ENV, 10, seed) for place, seed in enumerate(seeds)}


def test_a_worker_goes_on_in_its_world():
    deal = Deal(tasks_of([0, 0, 0, 1, 1, 2]))
    first, second = [deal.next(0), deal.next(0)], [deal.next(1), deal.next(1)]
    assert [dealt.key for dealt in first] == [0, 10]
    assert [dealt.key for dealt in second] == [30, 40]
    assert [dealt.again for dealt in (*first, *second)] == [True, True, True, False]
    assert [dealt.slot for dealt in second] == [3, 4]
    assert deal.next(1).key == 50
    assert deal.next(1).key == 20, "nothing else is left, so it helps"
    assert deal.next(0) is deal.next(1) is None


def test_whoever_is_idle_helps_where_most_is_left():
    deal = Deal(tasks_of([0] * 3 + [1] * 6))
    assert deal.next(0).world != deal.next(1).world
    helped = deal.next(2)
    assert helped.key == 40, "the second of the six: the first of them is being run"
    assert deal.next(2).world == helped.world, "in which it now has a world of its own"


@given(st.lists(st.integers(0, 5), max_size=30), st.lists(st.integers(0, 4), max_size=60))
def test_every_task_is_dealt_once_whoever_asks_when(seeds, asking):
    tasks = tasks_of(seeds)
    deal, dealt = Deal(tasks), []
    for worker in [*asking, *range(len(seeds) + 1)]:
        one = deal.next(worker)
        assert (one is None) == (len(dealt) == len(tasks)), "nobody is idle while something is left"
        if one is not None:
            dealt.append(one)
            left = {key for key in tasks if key not in {other.key for other in dealt}}
            assert one.again == any(tasks[key].seed == tasks[one.key].seed for key in left)
    assert sorted(one.key for one in dealt) == sorted(tasks)
    assert sorted(one.slot for one in dealt) == list(range(len(tasks)))
    assert len({(one.world, tasks[one.key].seed) for one in dealt}) == len(set(seeds))


def test_what_a_worker_is_given_is_kept_until_another_world_comes():
    handed = HandedOver(2)
    [task] = tasks_of([0]).values()
    first = handed.environment(task, 0, again=True)
    assert isinstance(first, Recalled)
    assert handed.environment(task, 0, again=False) is first
    assert handed.environment(task, 1, again=False) is ENV, "nobody else will ask for it"
    assert handed.environment(task, 0, again=True) is not first


def test_workers_have_their_share_of_the_room(monkeypatch):
    from fedbandits.contract.streams import seeds_of
    from fedbandits.environments.linear import LinearWorld
    from fedbandits.studies.engines import worlds

    told = []
    monkeypatch.setattr(worlds, "room_for_worlds", lambda: 1200)
    monkeypatch.setattr(LinearWorld, "remember", lambda self, size: told.append(size))
    [task] = tasks_of([0]).values()
    for sharers in (1, 4):
        HandedOver(sharers).environment(task, 0, again=True).world(10, seeds_of(0).world)
    assert told == [1200, 300]
