from __future__ import annotations

import pytest

import fedbandits as fb
from fedbandits.contract.description import describe
from fedbandits.findings.results import Results
from fedbandits.studies.compare import comparison
from fedbandits.studies.study import Case, Study, run_study

ENVIRONMENT = fb.environments.Linear(clients=4, dim=3, arms=5)


@pytest.fixture(scope="session")
def results() -> Results:
    algorithms = {
        "alone": fb.algorithms.IndependentLinUCB(),
        "dis": fb.algorithms.DisLinUCB(threshold=0.5),
        "central": fb.algorithms.CentralLinUCB(),
    }
    return comparison(algorithms, ENVIRONMENT, horizon=60, seeds=3, points=20)


@pytest.fixture(scope="session")
def swept() -> Results:
    cases = [
        Case(
            "dis",
            fb.algorithms.DisLinUCB(threshold=1.0),
            fb.environments.Linear(clients=n, dim=3, arms=5),
            40,
            {"clients": n},
        )
        for n in (1, 2, 4)
    ]
    claims = [
        {"kind": "growth", "text": "it grows", "metric": "regret", "of": "dis", "against": "clients", "below": 2.0},
        {"kind": "growth", "text": "it shrinks", "metric": "regret", "of": "dis", "against": "clients", "below": -9.0},
    ]
    study = Study(
        title="A sweep",
        cases=cases,
        points=10,
        identity={"environment": describe(ENVIRONMENT)},
        sweep=["clients"],
        claims=claims,
    )
    return run_study(study, seeds=3)
