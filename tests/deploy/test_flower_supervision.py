"""The supervisor starts what has ended, stops what is stuck, takes over what is there, and says so in status."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra fedbandits[deploy]")

import httpx

from fedbandits.deploy.flower.book.book import Book
from fedbandits.deploy.flower.book.names import BOOK
from fedbandits.deploy.flower.conversation.turnstile import alone
from fedbandits.deploy.flower.machine.runs import Run
from fedbandits.deploy.flower.operating import operate
from fedbandits.deploy.flower.operating.supervision import Supervisor, Watchfulness

HOW = Watchfulness(look=1.0, first=2.0, longest=16.0, settled=10.0, silence=20.0)


class SuperLink:
    """Runs as a SuperLink keeps them, in memory."""

    def __init__(self):
        self.runs: dict[int, Run] = {}
        self.away = False

    def start(self, config):
        self._reach()
        number = len(self.runs) + 1
        self.runs[number] = Run(number, over=False, end="")
        return number

    def find(self, number):
        self._reach()
        return self.runs.get(number)

    def alive(self, directory: Path):
        self._reach()
        return sorted((number for number, run in self.runs.items() if not run.over), reverse=True)

    def stop(self, number):
        self._reach()
        self.end(number, "stopped")

    def end(self, number, how="failed: killed"):
        self.runs[number] = Run(number, over=True, end=how)

    def _reach(self):
        if self.away:
            raise httpx.ConnectError("connection refused")


class World:
    def __init__(self, where):
        self.where = where
        self.superlink = SuperLink()
        self.now = 1_000_000.0
        self.supervisor = self.another()

    def another(self):
        return Supervisor(self.where, self.superlink, {"directory": "here"}, HOW, clock=lambda: self.now)

    def look(self):
        wait = self.supervisor.look()
        self.now += wait
        return wait

    @property
    def alive(self):
        return self.superlink.alive(self.where)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_run_that_ends_is_started_again_after_waits_that_grow(world):
    waits = []
    for number in range(1, 7):
        world.look()
        assert world.alive == [number]
        world.superlink.end(number)
        waits.append(world.look())
        assert world.alive == []
    assert waits == [2.0, 4.0, 8.0, 16.0, 16.0, 16.0]


def test_a_run_that_lasted_makes_the_waits_short_again(world):
    for number in range(1, 4):
        world.look()
        world.superlink.end(number)
        world.look()
    world.look()
    for _ in range(12):
        with Book(world.where / BOOK) as book:
            book.note(alive_at=world.now)
        world.look()
    world.superlink.end(4)
    assert world.look() == 2.0


def test_what_it_does_is_in_status(world):
    world.look()
    world.superlink.end(1, "failed: no room\\n")
    world.look()
    told = operate.status(world.where)
    assert told["restarts"] == 1
    assert told["last_end"] == "failed: no room\\n"
    assert told["supervised"] is False, "by the clock of this test, nobody has looked for years"


def test_a_superlink_that_has_forgotten_the_run_gets_another(world):
    world.look()
    world.superlink.runs.clear()
    world.look()
    world.look()
    assert world.alive == [1]


def test_a_superlink_that_cannot_be_reached_is_waited_for_and_said_once(world, caplog):
    world.look()
    world.superlink.away = True
    looked = []

    def wait(seconds):
        looked.append(seconds)
        world.superlink.away = len(looked) < 20
        return len(looked) == 30

    world.supervisor.stopping.wait = wait
    world.supervisor.stopping.is_set = lambda: len(looked) >= 30
    with caplog.at_level(logging.INFO, logger="fedbandits"):
        world.supervisor.run()
    assert caplog.text.count("cannot be reached") == 1
    assert world.alive == [], "it has stopped its run at the end"
    assert len(world.superlink.runs) == 1


def test_a_killed_process_is_noticed_before_flower_does(world):
    world.look()
    with alone(world.where):
        with Book(world.where / BOOK) as book:
            book.note(run="1", alive_at=world.now)
        world.look()
        assert world.alive == [1]
    world.look()
    assert world.alive == []
    world.look()
    assert world.alive == [2]
    world.look()
    assert world.alive == [2], "the new one has not begun to serve: nothing is known of it yet"


def test_a_server_without_a_sign_of_life_is_stopped(world):
    with ExitStack() as within:
        within.enter_context(alone(world.where))
        world.look()
        for _ in range(30):
            world.look()
        assert world.superlink.runs[1].over
        assert "no sign of life" in operate.status(world.where)["last_end"]


def test_a_run_that_is_there_already_is_taken_over_and_others_are_stopped(world):
    for _ in range(3):
        world.superlink.start({})
    world.look()
    assert world.alive == [3]
    world.supervisor = world.another()
    world.look()
    assert world.alive == [3]
    assert len(world.superlink.runs) == 3


def test_it_lives_without_a_book(world):
    (world.where / BOOK).write_bytes(b"this is no database at all" * 100)
    world.look()
    world.superlink.end(1)
    world.look()
    world.look()
    assert world.alive == [2]
    with sqlite3.connect(world.where / BOOK) as db, pytest.raises(sqlite3.DatabaseError):
        db.execute("SELECT 1 FROM facts")
