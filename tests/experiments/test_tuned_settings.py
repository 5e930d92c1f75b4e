"""Experiments whose settings a tuning file has chosen have those that did best there, by what is on record."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedbandits.experiments import load_experiment
from fedbandits.findings.recorded import Recorded

RECORDS = Path(__file__).parents[2] / "docs" / "verdicts"
TUNED = {
    "go-box-proposed-cosine8": "go-tuning-box-cosine8",
    "go-box-refined-cosine8": "go-tuning-box-cosine8",
    "go-box-proposed-hartmann6": "go-tuning-box-hartmann6",
    "go-box-refined-hartmann6": "go-tuning-box-hartmann6",
    "go-groups-magic": "go-tuning-groups",
    "go-groups-shuttle": "go-tuning-groups",
    "go-parametric": "go-tuning-parametric",
    "go-parametric-square": "go-tuning-square",
}


@pytest.mark.parametrize("name", TUNED)
def test_settings_are_the_best_that_were_tried_on_other_seeds(name):
    experiment, tuning = load_experiment(name), load_experiment(TUNED[name])
    assert tuning.run.first_seed + tuning.run.seeds <= experiment.run.first_seed
    best = Recorded.read(RECORDS / f"{TUNED[name]}.json").best("regret")
    where = experiment.environment.parameters
    rows = [row for row in best.to_dict("records") if all(row[key] == where[key] for key in row if key in where)]
    assert {row["algorithm"] for row in rows} == experiment.algorithms.keys() - {"random"}
    for row in rows:
        held = experiment.algorithms[row["algorithm"]].parameters
        assert {key: held[key] for key in row["setting"]} == row["setting"]
        fixed = tuning.algorithms[row["algorithm"]].parameters
        assert {key: value for key, value in held.items() if key not in row["setting"]} == fixed
    assert len({row["tried"] for row in rows}) == 1
