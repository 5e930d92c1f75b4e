"""Every pair of an algorithm and a stage that is admitted keeps the promises of the contract; others are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from conformance.subjects import NAMES, STAR, about, subject
from fedbandits.channel import STAGES, Gaussian, through
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.streams import Streams
from fedbandits.models.sharing import COLLECT
from fedbandits.privacy import audit
from fedbandits.testing.suite import PROMISES, Check

SETTINGS = {"gaussian": {"rewards": 1.0}}
"""By stage, parameters without which it does not serve everybody at home."""
SUMS = {
    "async-linucb",
    "central-linucb",
    "club",
    "dis-kernel-features",
    "dislinucb",
    "dyclu",
    "fclub-dc",
    "fedlinucb-async",
}
"""Those that send sums and nothing else, which noise can serve."""
ASKED = {"fedglb-newton", "fedglb-ucb", "fedglb-ucb-1", "fedglb-ucb-2", "one-ucb-glm", "fedlsvi-rare"}
"""Those whose agents are asked besides, over all their data; see tests/channel (answering, planning)."""
RAW = ("rclb", "dis-kernel-ucb", "approx-dis-kernel-ucb", "central-lsvi", "fedlsvi-dense", "fedlsvi-heterogeneous")
"""Those that send no sums at all, or points whose sums depend on what was sent before."""
SERVED = {
    "gaussian": SUMS | ASKED,
    "quantise": {name for name in STAR if name not in RAW},
    "robust": {"central-linucb", "dis-kernel-features", "dislinucb", "fedlinucb-async"},
}
"""By stage, the algorithms that it can serve."""
PAIRS = [(name, stage) for name in STAR for stage in STAGES if name in SERVED[stage]]
OFTEN = ("two worlds", "resumable", "compiled")
"""What is tried of every pair, of those that stand for others by `make test-thorough`."""
ALSO = {"gaussian": ("calls", "bad input", "returned")}
"""By stage, what is tried besides: who is private may not call when data say so, nor release anything anew."""
EXCUSED = {
    "gaussian": {
        "environment": "tried once for each environment",
        "additive": "every release has noise of its own",
        "never asked": "what is released stays so, and is sent again as it is; see tests/channel",
    },
    "quantise": {
        "environment": "tried once for each environment",
        "adds": "what was rounded away is sent with the next increment",
        "additive": "as above",
        "raw": "whole numbers and their scales are told from no observation",
        "meanwhile": "rounding depends on what was handed over before",
        "returned": "what is given back is rounded anew; see tests/channel",
        "never asked": "as above",
    },
    "robust": {"environment": "tried once for each environment"},
}

TYPICAL = ("dislinucb", "async-linucb", "hetofedbandit-e", "dyclu", "fedglb-ucb", "fedlsvi-rare")
"""One for each way of sharing: the others are tried in the slow part of the suite."""
SHORT = 20
"""Steps of these trials."""


def excused(name: str, stage: str) -> set[str]:
    """What a pair does not promise."""
    asked = {"adds"} if stage == "gaussian" and name in ASKED else set()  # every answer costs, asked again or not
    return {*EXCUSED[stage], *asked}


def staged(name: str, stage: str, horizon: int | None = None):
    one = subject(name)
    return dataclasses.replace(one, algorithm=through(one.algorithm, [made(stage)]), horizon=horizon or one.horizon)


def made(stage: str):
    return STAGES[stage](**SETTINGS.get(stage, {}))


@pytest.mark.parametrize(
    ("name", "stage"),
    [pytest.param(*pair, marks=pytest.mark.thorough if pair[0] in TYPICAL else pytest.mark.slow) for pair in PAIRS],
)
def test_pairs_keep_the_promises(name, stage):
    one = staged(name, stage, SHORT)
    for check in (*OFTEN, *ALSO.get(stage, ())):
        Check(check, one)()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "stage"), PAIRS)
def test_pairs_keep_all_promises(name, stage):
    for check in PROMISES:
        if check not in excused(name, stage) and check not in (*OFTEN, *ALSO.get(stage, ())):
            Check(check, staged(name, stage))()


@pytest.mark.parametrize(
    ("name", "stage"), [(name, stage) for stage in STAGES for name in NAMES if name not in SERVED[stage]]
)
def test_who_cannot_be_served_is_refused(name, stage):
    with pytest.raises(ConfigError, match=about(name).name):
        staged(name, stage)


@pytest.mark.parametrize("name", sorted(SERVED["quantise"]))
def test_callers_by_schedule_are_so_through_a_stage(name):
    """A stage changes what is said, never who calls by a schedule."""
    plain, changed = subject(name), staged(name, "quantise")
    assert changed.algorithm.about.calls == plain.algorithm.about.calls
    if about(name).calls == "scheduled":
        syncs = [one.finished.trace().syncs for one in (plain, changed)]
        np.testing.assert_array_equal(*syncs)


class Noiseless(Gaussian):
    """The noise stage as it is, but for the noise, which is 0: what an infinite budget would be."""

    def noise(self, problem, fields=None):
        return 0.0


@pytest.mark.parametrize("name", sorted(SUMS))
def test_noise_of_strength_zero_changes_no_bit(name):
    """Agents act on pools and clean data of their own, and upload when the algorithm says so."""
    plain = subject(name)
    stage = Noiseless(
        arms=100.0, rewards=1e6, own="recent", when="algorithm", leaky=True, uploads=plain.horizon, unit="observation"
    )
    silent = dataclasses.replace(plain, algorithm=through(plain.algorithm, [stage]))
    mine, other = plain.finished, silent.finished
    np.testing.assert_array_equal(mine.trace().regret, other.trace().regret)
    for held, inner in ((mine.agents, other.agents), (mine.server, other.server)):
        state = inner.state()
        for key, array in held.state().items():
            np.testing.assert_array_equal(state[f"inner.{key}"], array, key)
    assert np.isinf(other.agents.spent()).all()


RUNS = 4000
"""Agents of one population, whose noises are independent: so many runs of one of them."""
FLIPPED = Gaussian(rewards=1.0, delta=0.05, every=2, uploads=1, adjacency="replace")
"""One upload after two turns, and histories that differ in a reward."""


def answers(name: str, rewards: float, seed: int):
    """(`RUNS`, ...) what agents send who see the same, and the same with the first reward as given; and the agents."""
    one = dataclasses.replace(
        subject(name),
        algorithm=through(subject(name).algorithm, [FLIPPED]),
    )
    agents = one.algorithm.agents(one.problem, RUNS, Streams(np.random.SeedSequence(seed), RUNS))
    everybody, d = np.arange(RUNS), one.problem.dim
    arms = np.zeros((RUNS, 2, d))
    arms[:, :, 0] = 1.0
    for paid in (rewards, 0.5):
        agents.learn(everybody, arms, np.zeros(RUNS, dtype=np.int64), np.full(RUNS, paid))
    return agents.answer(Message(COLLECT.kind, everybody)).arrays, agents


@pytest.mark.parametrize("name", sorted(SUMS))
def test_the_audit_stays_below_what_is_spent(name):
    """The moment in the one direction that all observations have tells a flipped reward better than all else does."""
    (first, agents), (second, _) = answers(name, 1.0, 1), answers(name, -1.0, 2)
    direction = np.eye(1, subject(name).problem.dim)[None]
    if hasattr(agents.inner, "features"):
        direction = agents.inner.features.of(np.arange(1), direction)
    found = audit(first["moment"] @ direction[0].T, second["moment"] @ direction[0].T, delta=0.05).epsilon
    assert 0.2 < found < agents.spent()[0] <= 1.0


@pytest.mark.parametrize("name", sorted(SUMS))
def test_agents_with_equal_settings_draw_different_noise(name):
    sent, _ = answers(name, 0.5, 3)
    for field in ("gram", "moment"):
        assert len(np.unique(sent[field].reshape(RUNS, -1)[:, 0])) == RUNS
    assert (sent.get("count", np.array(2.0)) == 2.0).all()  # turns are nobody's secret
