"""Learning curves: what each episode brought."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

import fedbandits as fb
from fedbandits.findings.results import Results
from fedbandits.report.learning import by_episode, learning_curves
from fedbandits.report.page import page
from fedbandits.report.plots import Series
from fedbandits.studies.compare import comparison
from fedbandits.studies.study import Case, Study, run_study

ENV = fb.environments.RiverSwim(clients=2, length=5, states=4)


def run(env: object = ENV, points: int | None = None, horizon: int = 60) -> Results:
    return comparison({"random": fb.algorithms.Random()}, env, horizon, 2, points=points)  # type: ignore[arg-type]


def test_of_agents_in_step_it_is_the_mean_of_what_they_earned() -> None:
    results = run()
    curve, every = by_episode(results.frame, "finished_reward")
    assert every == 1
    for seed, own in curve.groupby("seed"):
        reward = fb.simulate("random", ENV, 60, int(str(seed))).reward
        np.testing.assert_allclose(own["finished_reward"], np.diff(reward[4::5], prepend=0.0) / 2)
        assert own["episode"].tolist() == list(range(1, 13))


def test_a_thinned_run_has_means_over_several_episodes() -> None:
    whole, _ = by_episode(run().frame, "finished_regret")
    thin, every = by_episode(run(points=6).frame, "finished_regret")
    assert every == 2
    first, few = whole[whole["seed"] == 0], thin[thin["seed"] == 0]
    np.testing.assert_allclose(few["finished_regret"], first["finished_regret"].to_numpy().reshape(-1, 2).mean(axis=1))


def test_episodes_that_end_early_are_all_there() -> None:
    class Ending(fb.environments.RandomMDP):
        def _limits(self, states: int) -> Any:
            return np.full(states, 1 / states), np.arange(states) == states - 1

    frame = run(Ending(clients=3, length=6, states=4, arms=2), horizon=200).frame
    curve, every = by_episode(frame, "finished_reward")
    own, rows = curve[curve["seed"] == 1], frame[frame["seed"] == 1]
    reached = own["episode"].iloc[-1]
    passed, total = rows["episodes"] / 3, rows["finished_reward"] / 3
    np.testing.assert_allclose(every * own["finished_reward"].sum(), np.interp(reached, passed, total))


def test_the_page_has_returns_and_value_regret_where_it_is_known() -> None:
    html = page(run())
    assert "Return of each episode" in html
    assert "Value regret of each episode" in html
    grid = page(run("grid-explore:size=3,clients=2,length=4"))
    assert "Return of each episode" in grid
    assert "Value regret" not in re.sub(r'<section[^>]*id="units".*', "", grid, flags=re.DOTALL)
    bandit = page(run("linear:clients=2,dim=2,arms=3", horizon=10))
    assert "Return of each episode" not in bandit


def test_a_sweep_has_curves_for_a_few_of_its_points() -> None:
    cases = [
        Case("random", fb.algorithms.Random(), fb.environments.RiverSwim(clients=n, length=5), 20, {"clients": n})
        for n in range(1, 9)
    ]
    swept = run_study(Study(title="Sweep", cases=cases, points=None, identity={}, sweep=["clients"]), seeds=1)
    drawn = list(learning_curves(swept, Series(swept.algorithms), "One seed."))
    assert len(drawn) == 12
    assert len({picture.key for picture in drawn}) == 12
    assert drawn[0].title.endswith("clients=1")
    assert drawn[-1].title.endswith("clients=8")
    assert "6 of 8 points" in drawn[0].caption


def test_nothing_finished_is_nothing_to_draw() -> None:
    assert list(learning_curves(run(horizon=4), Series(["random"]), "")) == []
    frame = pd.DataFrame({"algorithm": ["a"], "seed": [0], "clients": [1], "episodes": [0.0], "finished_reward": [0.0]})
    assert by_episode(frame, "finished_reward")[0].empty
