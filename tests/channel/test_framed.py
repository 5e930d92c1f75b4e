"""Learned bounds: a frame changes only when nothing is held, the budget is kept in every frame, and it pays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from noisy_agents import ARM, REWARD, Noiseless, agents_of, observe, problem_of, tell

import fedbandits as fb
from fedbandits.algorithms import FedLinUCBPrivate
from fedbandits.channel import Gaussian, through
from fedbandits.channel.framed import Framed
from fedbandits.contract.messages import Message
from fedbandits.models.frames import Frames
from fedbandits.models.sharing import COLLECT
from fedbandits.privacy import audit, gaussian_ratio

DELTA = 0.05
LEARNED = Gaussian(epsilon=1.0, delta=DELTA, every=2, mechanism="fresh", clip="learned")
PROBLEM = problem_of(dim=2, horizon=4, agents=20_000)
GRAM, MOMENT = 40_000 * np.array([[0.5, 0.1], [0.1, 0.2]]), 40_000 * np.array([0.3, 0.05])
"""What a server tells: of so many observations that noise hardly matters."""
LONG = np.array([ARM, 0.0])


def end_of(agents) -> Framed:
    found = agents.ends.stage0
    assert isinstance(found, Framed)
    return found


def collect(agents):
    """What everybody hands over."""
    reply = agents.answer(Message(COLLECT.kind, np.arange(len(agents))))
    assert reply is not None
    return reply.arrays


def framed(stage, runs, seed):
    """Agents that have made one release, and were told a pool right after it."""
    agents = agents_of(stage, runs, seed, PROBLEM)
    for _ in range(2):
        observe(agents, np.array([0.5, -0.4]), 0.3)
    collect(agents)
    tell(agents, GRAM, MOMENT)
    return agents


class TestWhenFramesChange:
    def test_after_an_upload_and_before_the_next_observation(self):
        agents = framed(LEARNED, 3, 0)
        frames = end_of(agents).frames
        assert (frames.radius < ARM).all()
        assert (frames.residual < REWARD).all()
        assert (np.abs(frames.reference).sum(axis=1) > 0).all()

    def test_not_while_something_is_held(self):
        """The first observations are cut down to declared bounds, and so noise has to be."""
        agents = agents_of(LEARNED, 2, 0, PROBLEM)
        observe(agents, LONG, REWARD)
        before = end_of(agents).frames.state()
        tell(agents, GRAM, MOMENT)
        after = end_of(agents).frames.state()
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array)

    def test_not_where_the_answer_comes_too_late(self):
        agents = agents_of(LEARNED, 2, 0, PROBLEM)
        for _ in range(2):
            observe(agents, LONG, REWARD)
        collect(agents)
        observe(agents, LONG, REWARD)
        tell(agents, GRAM, MOMENT)
        assert (end_of(agents).frames.radius == ARM).all()
        observe(agents, LONG, REWARD)
        collect(agents)
        tell(agents, GRAM, MOMENT)
        assert (end_of(agents).frames.radius < ARM).all()


class Uncut(Frames):
    """Noise in the frame's shape, on observations that were not cut down to it."""

    def cut(self, who, chosen, rewards):
        return chosen, rewards


def in_frame(frames, arrays):
    """(w, 5) what an upload tells, in the coordinates in which noise is drawn, each with the same deviation."""
    gram, moment = arrays["gram"], arrays["moment"]
    seen = frames.metric @ gram @ frames.metric / (frames.radius**2)[:, None, None]
    left = np.einsum("wij,wj->wi", frames.metric, moment - np.einsum("wij,wj->wi", gram, frames.reference))
    left /= (frames.radius * frames.residual)[:, None]
    rows, columns = np.tril_indices(2)
    return np.concatenate([seen[:, rows, columns] / np.where(rows == columns, np.sqrt(2), 1.0), left], axis=1)


def second_upload(stage, first, runs, seed):
    """What the second upload tells, of observations in a learned frame of which the first is `first` (x, y)."""
    agents = framed(stage, runs, seed)
    for x, y in (first, ((0.5, -0.4), 0.3)):
        observe(agents, np.array(x), y)
    frames = end_of(agents).frames
    return in_frame(frames, collect(agents)), agents


def found_by_audit(runs=6000, **changes):
    """What tells best whether somebody with the longest arm and the largest reward was there."""
    stage = dataclasses.replace(LEARNED, **changes)
    other = (-LONG, REWARD) if stage.adjacency == "replace" else (np.zeros(2), 0.0)
    histories = [(LONG, -REWARD if stage.adjacency == "replace" else REWARD), other]
    if stage.adjacency == "replace":
        histories[1] = (LONG, REWARD)
    silent = Noiseless(**dataclasses.asdict(stage))
    means = [second_upload(silent, history, 1, 0)[0] for history in histories]
    sigma, ratios = np.array(stage.noise(stage.poses(PROBLEM))), []
    for place, history in enumerate(histories):
        outputs, agents = second_upload(stage, history, runs, 7 + place)
        ratios.append(gaussian_ratio(outputs, *means, sigma)[:, None])
    return audit(*ratios, delta=DELTA).epsilon, float(agents.spent()[0])


class TestTheBudget:
    @pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
    def test_is_kept_in_a_learned_frame(self, adjacency):
        found, spent = found_by_audit(adjacency=adjacency)
        assert spent == pytest.approx(1.0)
        assert 0.25 < found <= spent

    def test_would_be_exceeded_if_observations_were_not_cut_down(self, monkeypatch):
        monkeypatch.setattr("fedbandits.channel.framed.Frames", Uncut)
        found, _ = found_by_audit()
        assert found > 1.5


class TestRefusals:
    @pytest.mark.parametrize(
        ("parameters", "reason"),
        [
            ({"mechanism": "toeplitz"}, "mechanism=fresh"),
            ({"mechanism": "fresh", "unit": "agent"}, "unit='person'"),
            ({"mechanism": "fresh", "constants": "thesis"}, "leave clip='learned' out|mechanism=tree"),
        ],
    )
    def test_what_does_not_go_together(self, parameters, reason):
        with pytest.raises(fb.ConfigError, match=reason):
            through(fb.algorithms.DisLinUCB(), [Gaussian(clip="learned", **parameters)])

    @pytest.mark.parametrize("name", ["async-linucb", "fedglb-ucb"])
    def test_servers_that_look_at_more_than_sums(self, name):
        with pytest.raises(fb.ConfigError, match="needs sums over everybody"):
            through(fb.algorithms.ALGORITHMS[name](), [LEARNED])

    def test_features(self):
        smooth = through(fb.algorithms.FedGPUCB(epsilon=None).composed.algorithm, [LEARNED])
        with pytest.raises(fb.ConfigError, match="arms as they are"):
            fb.simulate(smooth, fb.environments.RKHSMixture(clients=2), 20)


def test_it_is_named_as_a_parameter():
    algorithm = FedLinUCBPrivate(clip="learned")
    (stage,) = algorithm.composed.stages
    assert (stage.clip, stage.mechanism) == ("learned", "fresh")
    with pytest.raises(fb.ConfigError, match="mechanism=fresh"):
        FedLinUCBPrivate(clip="learned", mechanism="tree")


@pytest.mark.parametrize("own", ["released", "fused", "recent"])
def test_sets_cover(own):
    """Not proved, and so found: with few agents and with many observations."""
    world = fb.environments.Gap2(clients=20)
    algorithm = FedLinUCBPrivate(clip="learned", own=own, epsilon=3.0)
    runs = [fb.simulate(algorithm, world, 200, seed=seed, coverage=True) for seed in range(2)]
    assert min(float(np.nanmin(run.coverage)) for run in runs) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "world", "factor"),
    [
        ("released", "gap2", 0.75),
        ("released", "linear-bounded", 0.75),
        ("fused", "gap2", 0.75),
        ("fused", "linear-bounded", 0.9),
    ],
)
def test_learned_bounds_pay(own, world, factor):
    """With 200 agents, at the same budget and schedule: less than so many times the regret of declared bounds."""
    bounded = {"noise": 0.1} if world == "linear-bounded" else {}
    env = fb.environments.ENVIRONMENTS[world](clients=200, dim=10, arms=20, **bounded)
    shared = {"own": own, "width": 0.0, "first": 20, "uploads": 4, "last": 1.0, "ridge": 1.0}
    learned, declared = (
        np.mean([fb.simulate(FedLinUCBPrivate(clip=clip, **shared), env, 500, seed=s).regret[-1] for s in range(3)])
        for clip in ("learned", "declared")
    )
    assert learned < factor * declared
