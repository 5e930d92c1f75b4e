"""Whoever waits for the compiler is told why, once, and nobody is told when there is nothing to wait for."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numba
import pytest

from fedbandits.linalg import compiling


def kernel(module: str) -> Callable[[float], float]:
    def double(x: float) -> float:
        return 2.0 * x

    double.__module__ = module
    return numba.njit(double)  # type: ignore[no-any-return]


def test_each_kernel_is_told_of_when_it_begins_and_when_it_is_done():
    told: list[tuple[int, float]] = []
    with compiling.telling(lambda kernels, seconds: told.append((kernels, seconds))):
        assert kernel("fedbandits.some")(2.0) == 4.0
    (before, began), (after, ended) = told
    assert after == before + 1
    assert ended > began


def test_what_is_compiled_already_is_not_told_of():
    ready = kernel("fedbandits.some")
    ready(1.0)
    with compiling.telling(lambda *_: pytest.fail("nothing is compiled here")):
        ready(2.0)


def test_kernels_of_others_are_their_own_business():
    with compiling.telling(lambda *_: pytest.fail("not ours")):
        kernel("somebody.else")(2.0)


def test_it_is_said_once_and_only_if_it_takes_a_while():
    said: list[str] = []
    told = compiling.once(said.append)
    told(1, compiling.PATIENCE_SECONDS / 2)
    assert not said
    told(1, compiling.PATIENCE_SECONDS * 2)
    told(2, compiling.PATIENCE_SECONDS * 3)
    assert said == [compiling.NOTE]


@pytest.mark.parametrize("interactive", [True, False])
def test_a_library_speaks_to_its_logger_and_to_people_at_a_prompt(interactive, monkeypatch, capsys, caplog):
    if interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with caplog.at_level(logging.INFO, logger="fedbandits"):
        compiling._say(compiling.NOTE)
    assert compiling.NOTE in caplog.text
    assert (compiling.NOTE in capsys.readouterr().err) == interactive


@pytest.mark.slow
def test_the_command_line_says_so_on_a_machine_s_first_run_and_not_again(tmp_path: Path):
    command = ["compare", "-a", "random", "-e", "bernoulli:clients=2", "--seeds", "1", "--horizon", "10", "--jobs", "1"]

    def complaints() -> str:
        done = subprocess.run(
            [sys.executable, "-m", "fedbandits", *command],
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stderr

    assert complaints().count(compiling.NOTE) == 1
    assert compiling.NOTE not in complaints()
