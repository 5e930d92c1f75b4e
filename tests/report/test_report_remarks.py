"""A private run with less regret than the same agents without privacy is explained, and only then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedbandits as fb
from fedbandits.findings.results import Results
from fedbandits.graphs.topologies import NETWORKS
from fedbandits.privacy.mechanisms import IntervalMeans
from fedbandits.privacy.schedules import Releases
from fedbandits.report import page
from fedbandits.report.private_peers import PEERS, private_with_less_regret
from fedbandits.report.remarks import remarks
from fedbandits.studies.compare import comparison

ENVIRONMENT = fb.environments.BernoulliArms(clients=8, arms=3)
NETWORK = NETWORKS["complete"]()
ALGORITHMS = {
    "open": fb.algorithms.FedUCB1(),
    "private": fb.algorithms.PrivateFedUCB(schedule=1.0),
    "published": fb.algorithms.PrivateFedUCB(schedule=1.0, own="clean"),
}


@pytest.fixture(scope="module")
def results() -> Results:
    return comparison(ALGORITHMS, ENVIRONMENT, horizon=40, seeds=3, network=NETWORK, points=5)


def with_regret(results: Results, **factors: float) -> Results:
    scale = results.frame["algorithm"].map(factors).fillna(1.0)
    return replace(results, frame=results.frame.assign(regret=(1.0 + results.frame["seed"] * 0.01) * 100 * scale))


def test_less_regret_in_private_is_explained_beside_the_pictures(results: Results) -> None:
    less = with_regret(results, private=0.5)
    [remark] = remarks(less)
    assert remark.what.startswith("The private private has less regret than open, which protects nobody: 50.5 against")
    assert "difference -50.5 [" in remark.what
    assert remark.why == PEERS["private-fed-ucb"].why
    html = page(less)
    assert remark.what in html
    assert html.index('id="pictures"') < html.index(remark.what) < html.index("data-picture")


def test_more_regret_needs_no_explanation(results: Results) -> None:
    assert remarks(with_regret(results, private=2.0)) == []
    assert 'class="remark"' not in page(with_regret(results, private=2.0))


def test_nothing_is_said_of_what_was_not_measured(results: Results) -> None:
    """Neither of agents that act on clean rewards, nor where the peer explores by another constant."""
    assert remarks(with_regret(results, private=2.0, published=0.5)) == []
    settings = {**results.settings, "algorithms": {**results.settings["algorithms"]}}
    settings["algorithms"]["open"] = settings["algorithms"]["open"] | {"exploration": 0.5}
    assert remarks(replace(with_regret(results, private=0.5), settings=settings)) == []


def test_two_seeds_are_too_few_for_an_interval(results: Results) -> None:
    less = with_regret(results, private=0.5)
    [remark] = private_with_less_regret(replace(less, frame=less.frame[less.frame["seed"] < 2]))
    assert "too few seeds for an interval" in remark.what


def test_a_sweep_says_where(results: Results) -> None:
    frame = with_regret(results, private=0.5).frame
    private = frame["algorithm"] == "private"
    swept = frame.assign(epsilon_given=np.where(private, 1.0, np.nan))
    more = swept[private].assign(epsilon_given=0.1, regret=1000.0)
    at = [*results.frame.columns[:1], "epsilon_given", *results.frame.columns[1:]]
    both = replace(results, frame=pd.concat([swept, more], ignore_index=True)[at], sweep=["epsilon_given"])
    [remark] = private_with_less_regret(both)
    assert "at 1 of 2 points of the sweep, most clearly at epsilon_given=1.0: 50.5 against 101" in remark.what


@pytest.mark.parametrize(("private", "peer"), [(peer.name, name) for name, peer in PEERS.items()])
def test_without_noise_the_two_are_one_algorithm(monkeypatch: pytest.MonkeyPatch, private: str, peer: str) -> None:
    """What the explanations rest on: nothing but the noise tells private agents from their peers."""
    monkeypatch.setattr(Releases, "scales", property(lambda self: np.zeros(len(self.counts))))
    kinds = {"fed-ucb1": fb.algorithms.FedUCB1(), "ucb1": fb.algorithms.UCB1()}
    private_kinds = {
        "private-fed-ucb": fb.algorithms.PrivateFedUCB(schedule=1.0),
        "dp-ucb-int": fb.algorithms.DPUCBInt(schedule=1.0),
    }
    runs = [
        fb.simulate(
            algorithm,
            ENVIRONMENT,
            horizon=60,
            seed=1,
            network=NETWORK if algorithm.about.topology == "graph" else None,
        )
        for algorithm in (private_kinds[peer], kinds[private])
    ]
    np.testing.assert_allclose(runs[0].regret, runs[1].regret)


def test_released_means_of_poorer_arms_end_up_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise is kept where it is low: an arm that looks good is pulled again, and its noise drawn anew."""
    kept: list[IntervalMeans] = []
    original = IntervalMeans.__init__

    def remember(self: IntervalMeans, *args: object, **more: object) -> None:
        original(self, *args, **more)  # type: ignore[arg-type]
        kept.append(self)

    monkeypatch.setattr(IntervalMeans, "__init__", remember)
    errors = []
    for seed in range(8):
        fb.simulate(ALGORITHMS["private"], ENVIRONMENT, horizon=300, seed=seed, network=NETWORK)
        means = kept[-1]
        best = int(np.argmax(means.sums.sum(axis=0) / means.counts.sum(axis=0)))
        error = means.means - means.sums / means.counts
        errors.append([error[:, best].mean(), np.delete(error, best, axis=1).mean()])
    best_error, other_error = np.mean(errors, axis=0)
    assert other_error < -0.1 < best_error
