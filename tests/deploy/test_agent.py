"""The agent as its owner sees it: decisions, rewards, letters, settings, and refusals that change nothing."""

from __future__ import annotations

import dataclasses
import math
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedbandits as fb
from conformance.typical import typical_first
from fedbandits.algorithms import ALGORITHMS
from fedbandits.contract.arrays import State
from fedbandits.contract.ledger import Ledger
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Wire
from fedbandits.deploy import (
    Agent,
    AgentError,
    CannotForgetError,
    ClosedError,
    ConflictError,
    Decision,
    ExpiredError,
    InputError,
    LetterError,
    SettingsError,
    UnknownDecisionError,
    Verdict,
)
from fedbandits.facts import RKHS, AgentFeatures, Candidates, Episodes, Game, Link, Noise, Norms, Range, Shared, Truth
from fedbandits.transport.carriers import Carrier, hold

ALONE = np.zeros(1, dtype=np.int64)
DIM = 4
LINUCB = fb.algorithms.DisLinUCB(threshold=2.0)
TIMES = [datetime(2024, 5, day, tzinfo=UTC) for day in range(1, 10)]


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = TIMES[0].timestamp()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(tmp_path):
    """Opens agents in one directory, without waiting for the disk, and closes them in the end."""
    agents: list[Agent] = []

    def open_(name: str = "agent.db", algorithm: Any = LINUCB, dim: int | None = DIM, **settings: Any) -> Agent:
        agents.append(Agent.open(tmp_path / name, algorithm, dim, **({"durable": False} | settings)))
        return agents[-1]

    yield open_
    for agent in agents:
        agent.close()


def arms_of(number: int, count: int = 5, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng(number).normal(size=(count, dim)) / math.sqrt(dim)


def same(left: State, right: State) -> bool:
    return left.keys() == right.keys() and all(left[name].tobytes() == right[name].tobytes() for name in left)


def letter(agent: Agent, kind: str, **arrays: np.ndarray) -> bytes:
    return agent.settings.wire.encode(Message(kind, ALONE, {k: v[None] for k, v in arrays.items()}), 0, "down")


def pool(agent: Agent, scale: float = 1.0) -> bytes:
    return letter(agent, "pool", gram=scale * np.eye(DIM), moment=scale * np.ones(DIM))


# decisions and rewards


def test_names_of_arms_and_indices(opened):
    agent = opened()
    named = agent.decide({"b": [0.0, 0, 0, 0.1], "a": [0.0, 0, 0, 0.9]})
    assert (named.arm, named.index) == ("a", 1)
    plain = agent.decide([[0.0, 0, 0, 0.1], [0.0, 0, 0, 0.9], [0.0, 0.0, 0, 0]])
    assert (plain.arm, plain.index) == (1, 1)
    assert named.id != plain.id


def test_each_reward_counts_once(opened):
    agent = opened()
    first, second = (agent.decide(arms_of(i)) for i in range(2))
    assert agent.reward(second.id, 0.5) is True
    state = agent.state()
    assert agent.reward(second.id, 0.5) is False
    assert same(agent.state(), state)
    with pytest.raises(ConflictError, match=r"0\.5 before, now with 0\.6"):
        agent.reward(second.id, 0.6)
    assert same(agent.state(), state)
    assert agent.reward(first.id, 0.25) is True
    status = agent.status()
    assert (status.decisions, status.rewards, status.awaiting) == (2, 2, 0)


def test_rewards_in_a_batch_are_all_taken_or_none(opened):
    agent, twin = opened(), opened("twin.db")
    ids = [agent.decide(arms_of(i)).id for i in range(4)]
    for i in range(4):
        twin.decide(arms_of(i))
    before = agent.state()
    with pytest.raises(UnknownDecisionError):
        agent.rewards([(ids[0], 1.0), ("7-0123456789abcdef", 1.0)])
    with pytest.raises(ConflictError):
        agent.rewards([(ids[0], 1.0), (ids[1], 1.0), (ids[0], 2.0)])
    assert same(agent.state(), before)
    assert agent.status().rewards == 0
    assert agent.rewards([(ids[2], 1.0), (ids[0], 0.5), (ids[2], 1.0)]) == 2
    assert agent.rewards({ids[2]: 1.0, ids[1]: 0.0}) == 1
    population = twin.settings.population()
    shown = [arms_of(i)[None] for i in range(4)]
    picks = [population.choose(ALONE, arms) for arms in shown]
    for i, value in ((2, 1.0), (0, 0.5), (1, 0.0)):
        population.learn(ALONE, shown[i], picks[i], np.array([value]))
    assert same(agent.state(), population.state())


def test_rewards_told_apart_are_those_told_one_by_one(opened, clock):
    """Known and unknown, expired, twice, of another value, of no number: in one call and in many."""
    agents = opened(expire_after=5.0, clock=clock), opened("twin.db", expire_after=5.0, clock=clock)
    early = [agent.decide(arms_of(0)).id for agent in agents]
    clock.now += 6
    ids = [[agent.decide(arms_of(i)).id for i in range(3)] for agent in agents]
    told = [
        [
            (second, 1.0),
            (late, 1.0),
            ("7-0123456789abcdef", 1.0),
            (second, 1.0),
            (second, 2.0),
            (first, math.nan),
            ("nonsense", 1.0),
            (third, 0.5),
            (first, 1.0),
        ]
        for late, (first, second, third) in zip(early, ids, strict=True)
    ]
    outcomes = agents[0].rewards_apart(told[0])
    for outcome, (decision, value) in zip(outcomes, told[1], strict=True):
        if isinstance(outcome, AgentError):
            with pytest.raises(type(outcome)):
                agents[1].reward(decision, value)
        else:
            assert agents[1].reward(decision, value) is outcome
    assert [outcome for outcome in outcomes if isinstance(outcome, bool)] == [True, False, True, True]
    assert same(agents[0].state(), agents[1].state())
    assert agents[0].status() == agents[1].status()
    assert agents[0].status().late == 1


def test_ids_of_other_agents_are_unknown(opened):
    agent, other = opened(), opened("other.db")
    agent.decide(arms_of(0))
    foreign = other.decide(arms_of(0)).id
    for name in (foreign, "", "1", "x-y", "1-0000000000000000", "9" * 30 + "-0123456789abcdef", None, 17):
        with pytest.raises(UnknownDecisionError):
            agent.reward(name, 1.0)
    assert agent.status().rewards == 0


@pytest.mark.parametrize(
    ("arms", "complaint"),
    [
        ([[1.0, math.nan, 0, 0]], r"arms \[0\] are not finite"),
        ({"good": [1.0, 0, 0, 0], "bad": [1.0, math.inf, 0, 0]}, r"\['bad'\] are not finite"),
        ([[1.0, 0.0, 0.0]], r"\(K, 4\).*got \(1, 3\)"),
        ([], r"\(K, 4\)"),
        ({}, r"\(K, 4\)"),
        ([1.0, 0, 0, 0], r"\(K, 4\)"),
        ([[1.0, 0, 0, 0], [1.0]], "rows of 4 numbers"),
        ([["a", "b", "c", "d"]], "rows of 4 numbers"),
        ({1: [1.0, 0, 0, 0]}, "string"),
        ({"\ud800": [1.0, 0, 0, 0]}, "string"),
    ],
)
def test_bad_arms_change_nothing(opened, arms, complaint):
    agent = opened(algorithm=fb.algorithms.Random())
    agent.decide(arms_of(0))
    before = agent.state()
    with pytest.raises(InputError, match=complaint):
        agent.decide(arms)
    assert same(agent.state(), before)
    assert agent.status().decisions == 1


def test_numbers_that_would_drown_all_others_are_refused(opened):
    """Once learned, they would leave nothing but rounding errors; the agent stays as it was and usable."""
    agent = opened()
    before = agent.state()
    with pytest.raises(InputError, match=r"arms \[1\] are beyond 1e\+07; scale"):
        agent.decide([[1.0, 0, 0, 0], [0, -1.1e7, 0, 0]])
    with pytest.raises(InputError, match="not finite"):
        agent.decide([[1e200, 0, 0, 0], [math.inf, 0, 0, 0]])
    assert same(agent.state(), before)
    decision = agent.decide([[1e7, 0, 0, 0]])
    with pytest.raises(InputError, match="must not exceed"):
        agent.reward(decision.id, -1.1e7)
    assert agent.reward(decision.id, 1e7)
    for _ in range(20):
        assert agent.reward(agent.decide(np.eye(4)).id, 1.0)


@pytest.mark.parametrize("value", ["1", "1.0", b"1", True, False, np.True_, None, [1.0], np.ones(1), 1j, Decimal(1)])
def test_rewards_are_numbers_and_nothing_that_looks_like_one(opened, value):
    agent = opened()
    decision = agent.decide(arms_of(0))
    before = agent.state()
    with pytest.raises(InputError, match="a reward must be a number, got"):
        agent.reward(decision.id, value)
    (outcome,) = agent.rewards_apart([(decision.id, value)])
    assert isinstance(outcome, InputError)
    assert same(agent.state(), before)
    assert agent.status().rewards == 0


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), np.float32(1), np.int64(1), np.uint8(1), Fraction(1)])
def test_numbers_of_python_and_numpy_are_rewards(opened, value):
    agent = opened()
    decision = agent.decide(arms_of(0))
    assert agent.reward(decision.id, value)
    assert agent.reward(decision.id, 1.0) is False


def test_number_of_arms_and_range_of_rewards_where_they_are_fixed(opened):
    agent = opened(arms=5, facts=[Range(0.0, 1.0)])
    decision = agent.decide(arms_of(0))
    with pytest.raises(InputError, match="among 5 arms, got 3"):
        agent.decide(arms_of(0, count=3))
    for value in (1.5, math.nan, math.inf, "much"):
        with pytest.raises(InputError):
            agent.reward(decision.id, value)
    assert agent.reward(decision.id, 1.0)


def test_the_number_of_arms_may_vary(opened):
    agent = opened(snapshot_every=3)
    population = agent.settings.population()
    for i, count in enumerate((1, 7, 3, 30, 2)):
        decision = agent.decide(arms_of(i, count))
        picks = population.choose(ALONE, arms_of(i, count)[None])
        assert decision.index == picks[0]
        agent.reward(decision.id, i / 5)
        population.learn(ALONE, arms_of(i, count)[None], picks, np.array([i / 5]))
    assert same(agent.state(), population.state())


@given(
    calls=st.lists(
        st.one_of(
            st.tuples(st.just("decide"), st.integers(1, 6)),
            st.tuples(st.just("reward"), st.integers(0, 30)),
            st.tuples(st.just("letter"), st.sampled_from(["collect", "pool"])),
            st.tuples(st.just("reopen"), st.booleans()),
        ),
        max_size=30,
    ),
    every=st.integers(1, 12),
)
def test_any_life_leads_to_the_state_of_a_bare_population(tmp_path_factory, calls, every):
    """Late rewards in any order, letters, closing, and dropping the process's memory without closing."""
    path = tmp_path_factory.mktemp("life") / "agent.db"
    algorithm = fb.algorithms.IndependentLinTS()
    talks = [kind for kind, _ in calls].count("letter") > 0
    algorithm = LINUCB if talks else algorithm
    agent = Agent.open(path, algorithm, DIM, durable=False, snapshot_every=every)
    population = agent.settings.population()
    decisions: list[tuple[Decision, np.ndarray, np.ndarray]] = []
    rewarded: set[int] = set()
    for number, (kind, argument) in enumerate(calls):
        if kind == "decide":
            arms = arms_of(number, argument)
            picks = population.choose(ALONE, arms[None])
            decisions.append((agent.decide(arms), arms, picks))
            assert decisions[-1][0].index == picks[0]
        elif kind == "reward" and decisions:
            chosen = argument % len(decisions)
            decision, arms, picks = decisions[chosen]
            assert agent.reward(decision.id, chosen / 10) == (chosen not in rewarded)
            if chosen not in rewarded:
                population.learn(ALONE, arms[None], picks, np.array([chosen / 10]))
            rewarded.add(chosen)
        elif kind == "letter":
            text = pool(agent) if argument == "pool" else letter(agent, "collect")
            kind_, arrays = Wire.decode(text)
            reply = population.answer(Message(kind_, ALONE, {k: v[None] for k, v in arrays.items()}))
            expected = None if reply is None else agent.settings.wire.encode(reply, 0, "up")
            for _ in range(2):
                assert agent.answer(text, "c", number) == expected
        elif kind == "reopen":
            if argument:
                agent.close()
            agent = Agent.open(path, durable=False, snapshot_every=every)
    assert same(agent.state(), population.state())
    status = agent.status()
    assert (status.decisions, status.rewards) == (len(decisions), len(rewarded))
    assert status.awaiting == len(decisions) - len(rewarded)
    agent.close()


# the same algorithm as in the simulator


class Post(Carrier):
    """Carries letters to deployed agents, each of them twice, as a network that loses replies would."""

    def __init__(self, agents: list[Agent], wire: Wire) -> None:
        super().__init__(Ledger(), wire)
        self.agents = agents
        self.conversation = ""
        self._turn = 0

    def begin(self, name: str) -> None:
        self.conversation, self._turn = name, 0

    def _deliver(self, request: Message) -> Message | None:
        self._turn += 1
        replies = {}
        for row, who in enumerate(request.who):
            text = self.wire.encode(request, row, "down")
            first, again = (self.agents[who].answer(text, self.conversation, self._turn) for _ in range(2))
            assert first == again
            if first is not None:
                replies[int(who)] = Wire.decode(first)
        if not replies:
            return None
        kinds, contents = zip(*replies.values(), strict=True)
        arrays = {name: np.stack([content[name] for content in contents]) for name in contents[0]}
        return Message(kinds[0], np.array(list(replies)), arrays)


TALKATIVE = {
    "random": {},
    "independent-lints": {},
    "dislinucb": {"threshold": 0.5},
    "async-linucb-am": {"gamma_up": 1.3, "gamma_down": 1.3},
    "fedlinucb-async": {},
    "hetofedbandit": {"threshold": 0.5, "explore": 4},
    "fclub-dc": {},
    "fedglb-ucb": {"threshold": 0.5, "scale": 0.1},
    "n-ucb-glm": {},
}
HOMES = {
    "linear": {"clients": 3, "dim": DIM, "arms": 5},
    "linear-shared": {"clients": 3, "dim": DIM, "arms": 5, "shared": 2},
    "clustered-linear": {"clients": 3, "dim": DIM, "arms": 5, "pool": 40, "clusters": 1},
    "logistic": {"clients": 3, "dim": DIM, "arms": 5},
}


@pytest.mark.parametrize("name", typical_first(TALKATIVE))
def test_a_federation_of_deployed_agents_is_the_simulation(opened, name):
    """Bit for bit, though every letter comes twice, every reward too, and agents are reopened in the middle."""
    algorithm = ALGORITHMS[name](**TALKATIVE[name])
    home = ALGORITHMS[name].about.environment
    environment = fb.environments.ENVIRONMENTS[home](**HOMES[home])
    horizon, seed = 24, 3
    run = fb.Simulation(algorithm, environment, horizon, seed)
    run.run()

    world = environment.world(horizon, np.random.SeedSequence(seed).spawn(4)[0])
    known = {key: getattr(world.problem, key) for key in ("agents", "arms", "horizon", "facts")}
    known |= {"seed": seed, "common": seed}
    n = world.problem.agents
    agents = [opened(f"{i}.db", algorithm, identity=i, snapshot_every=9, **known) for i in range(n)]
    server = algorithm.server(world.problem, n, agents[0].settings.server_streams())
    carrier = Post(agents, agents[0].settings.wire)
    for step in range(horizon):
        turn = world.turn(step)
        taken = [agents[who].decide(turn.arms[row]) for row, who in enumerate(turn.who)]
        paid = world.pay(step, np.array([decision.index for decision in taken])).rewards
        for who, decision, value in zip(turn.who, taken, paid, strict=True):
            assert [agents[who].reward(decision.id, value) for _ in range(2)] == [True, False]
        if server is not None:
            carrier.begin(f"after step {step}")
            hold(server, np.flatnonzero([agent.calling() for agent in agents]), carrier)
        if step == horizon // 2:
            agents[0].close()
            agents[:2] = [opened("0.db", None, None), opened("1.db", None, None)]
    assert carrier.ledger.syncs == run.ledger.syncs
    assert (carrier.ledger.counts == run.ledger.counts).all()
    assert run.ledger.syncs > 0 or server is None
    for i, agent in enumerate(agents):
        alone = agent.settings.population()
        alone.load(agent.state())
        assert same(alone.share(0), run.agents.share(i)), i


@pytest.mark.parametrize(
    "name", typical_first(name for name in ALGORITHMS if ALGORITHMS[name].about.topology != "graph")
)
def test_every_algorithm_without_peers_can_be_deployed(opened, name):
    if (extra := ALGORITHMS[name].about.extra) is not None:
        pytest.importorskip(extra, reason=f"{name} needs the extra {extra}")
    known = [Range(0.0, 1.0), Norms(), Shared(2), RKHS(1.0), Episodes(1), AgentFeatures(((1.0,),))]
    known += [Candidates.of(np.eye(DIM)), Game(1)]
    agent = opened(algorithm=ALGORITHMS[name](), facts=known)
    plans = ALGORITHMS[name].about.family == "planning"
    decision = agent.decide(np.eye(DIM), episode="one" if plans else None)
    assert agent.reward(decision.id, 1.0)
    again = opened(algorithm=None, dim=None)
    assert again.algorithm == agent.algorithm
    assert same(again.state(), agent.state())


# settings


def test_settings_are_stored_and_must_agree(opened, tmp_path):
    opened(facts=[Noise(0.5)], seed=4).close()
    again = opened(algorithm=None, dim=None)
    assert again.algorithm == LINUCB
    assert (again.problem.dim, again.problem.get(Noise), again.settings.seed) == (DIM, Noise(0.5), 4)
    assert opened(facts=[Noise(0.5)]).problem == again.problem
    for changed, complaint in (
        ({"dim": 5}, r"dim: 4 there, 5 now"),
        ({"facts": [Noise(0.1)]}, r"noise\.sigma: 0\.5 there, 0\.1 now"),
        ({"facts": [Range(0, 1)]}, r"range\.low: null there, 0\.0 now"),
        ({"algorithm": fb.algorithms.DisLinUCB(threshold=3.0)}, r"algorithm\.threshold: 2\.0 there, 3\.0 now\)"),
        ({"algorithm": fb.algorithms.Random()}, r'\(algorithm\.name: "dislinucb" there, "random" now\)'),
        ({"expire_after": timedelta(days=1)}, r"expire_after: null there, 86400\.0 now"),
    ):
        with pytest.raises(SettingsError, match=complaint):
            opened(**changed)
    assert again.decide(arms_of(0)).index >= 0


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"algorithm": None}, "there is no agent in .*agent.db; a new one needs algorithm= and dim="),
        ({"dim": None}, "needs algorithm= and dim="),
        ({"dim": 0}, "dim: must be greater than or equal to 1"),
        ({"algorithm": fb.algorithms.DisLinUCB}, "algorithm must be one of"),
        ({"algorithm": "dislinucb"}, "algorithm must be one of"),
        ({"agents": 3, "identity": 3}, r"identity must be one of 0\.\.2"),
        ({"facts": [Truth((0, 1))]}, "truth cannot be told to a deployed agent"),
        ({"algorithm": fb.algorithms.AsyncLinUCBAM()}, "shared"),
        ({"expire_after": -1}, "expire_after"),
        ({"snapshot_every": 0}, "snapshot_every"),
    ],
)
def test_an_agent_that_cannot_be_made_leaves_no_file(opened, tmp_path, given, complaint):
    with pytest.raises(SettingsError, match=complaint):
        opened(**given)
    assert list(tmp_path.iterdir()) == []


@dataclasses.dataclass(frozen=True)
class Gossip:
    """Peers on a graph, which are simulated only."""

    about = dataclasses.replace(LINUCB.about, name="gossip", topology="graph")


@dataclasses.dataclass(frozen=True)
class Homemade:
    """An algorithm that is in no catalogue."""

    ridge: float = 1.0
    about = dataclasses.replace(LINUCB.about, name="homemade")

    def agents(self, problem: Problem, n: int, rng: Streams) -> Any:
        return fb.algorithms.DisLinUCB(ridge=self.ridge).agents(problem, n, rng)

    def server(self, problem: Problem, n: int, rng: Streams) -> None:
        return None


def test_peers_on_a_graph_are_refused(opened, tmp_path):
    with pytest.raises(SettingsError, match="gossip talks among peers on a graph"):
        opened(algorithm=Gossip())
    assert list(tmp_path.iterdir()) == []


def test_an_algorithm_of_ones_own_is_found_by_its_address(opened):
    opened(algorithm=Homemade(ridge=2.0)).close()
    again = opened(algorithm=None, dim=None)
    assert again.algorithm == Homemade(ridge=2.0)
    with pytest.raises(SettingsError, match=r"ridge: 2\.0 there, 3\.0 now"):
        opened(algorithm=Homemade(ridge=3.0))
    assert opened(algorithm=Homemade(ridge=2.0)).decide(arms_of(0)).index >= 0


def test_an_algorithm_that_nobody_else_can_find_has_to_be_given_again(opened):
    @dataclasses.dataclass(frozen=True)
    class Hidden(Homemade):
        """In a function, where no other program can look."""

    opened(algorithm=Hidden(ridge=2.0)).close()
    with pytest.raises(SettingsError, match=r"Hidden.*give the algorithm that the agent was made with"):
        opened(algorithm=None, dim=None)
    with pytest.raises(SettingsError, match=r"ridge: 2\.0 there, 3\.0 now"):
        opened(algorithm=Hidden(ridge=3.0))
    assert opened(algorithm=Hidden(ridge=2.0)).decide(arms_of(0)).index >= 0


def test_identities_draw_differently_and_seeds_too(opened):
    picks = {}
    for identity, seed in ((0, 0), (1, 0), (0, 1)):
        agent = opened(f"{identity}{seed}.db", fb.algorithms.Random(), agents=2, identity=identity, seed=seed)
        picks[identity, seed] = tuple(agent.decide(np.eye(DIM)).index for _ in range(30))
    assert len(set(picks.values())) == 3


# letters


def test_a_turn_is_answered_once(opened):
    agent = opened()
    agent.reward(agent.decide(arms_of(0)).id, 1.0)
    collect = letter(agent, "collect")
    reply = agent.answer(collect, "monday", 0)
    state = agent.state()
    assert reply is not None
    assert Wire.decode(reply)[1]["moment"].any()
    assert agent.answer(collect, "monday", 0) == reply
    assert same(agent.state(), state)
    with pytest.raises(ConflictError, match="turn 0 of conversation 'monday'"):
        agent.answer(pool(agent), "monday", 0)
    assert not Wire.decode(agent.answer(collect, "tuesday", 0) or b"")[1]["moment"].any()
    assert agent.answer(pool(agent), "monday", 1) is None
    assert agent.answer(pool(agent), "monday", 1) is None
    assert agent.status().letters == 3


def test_replies_outlive_snapshots(opened):
    agent = opened(snapshot_every=1)
    agent.reward(agent.decide(arms_of(0)).id, 1.0)
    collect = letter(agent, "collect")
    reply = agent.answer(collect, "c", 0)
    agent.close()
    again = opened(algorithm=None, dim=None)
    assert again.answer(collect, "c", 0) == reply
    with pytest.raises(ConflictError):
        again.answer(pool(again), "c", 0)


def test_letters_that_cannot_be_taken_in_change_nothing(opened):
    agent = opened()
    agent.reward(agent.decide(arms_of(0)).id, 1.0)
    before = agent.state()
    eye, ones = np.eye(DIM), np.ones(DIM)
    unsent = [
        b"",
        b"noise",
        letter(agent, "collect")[:-1],
        Wire().encode(Message("fresh", ALONE, {"gram": eye[None], "moment": ones[None]}), 0, "down"),
        Wire().encode(Message("pool", ALONE, {"gram": np.eye(3)[None], "moment": np.ones((1, 3))}), 0, "down"),
        Wire().encode(Message("pool", ALONE, {"gram": eye[None]}), 0, "down"),
        letter(agent, "pool", gram=eye * math.nan, moment=ones),
        letter(agent, "pool", gram=eye, moment=ones * math.inf),
        letter(agent, "pool", gram=-100 * eye, moment=ones),
    ]
    for number, text in enumerate(unsent):
        with pytest.raises(LetterError):
            agent.answer(text, "c", number)
        assert same(agent.state(), before)
    for conversation, turn in (("c", -1), ("c", 2**64), (None, 0)):
        with pytest.raises(InputError):
            agent.answer(letter(agent, "collect"), conversation, turn)
    assert agent.status().letters == 0
    assert agent.answer(pool(agent), "c", 0) is None


def test_packed_replies_carry_triangles(opened):
    plain, packed = opened(), opened("packed.db", packed=True)
    replies = []
    for agent in (plain, packed):
        agent.reward(agent.decide(arms_of(0)).id, 1.0)
        replies.append(agent.answer(letter(agent, "collect"), "c", 0))
    assert len(replies[0]) - len(replies[1]) == 8 * DIM * (DIM - 1) // 2
    whole, triangle = (Wire.decode(reply)[1] for reply in replies)
    assert same(whole, triangle)


def test_calling_and_synchronised_at(opened, clock):
    agent = opened(algorithm=fb.algorithms.DisLinUCB(threshold=0.0), clock=clock)
    assert agent.calling() is False
    assert agent.synchronised_at is None
    agent.reward(agent.decide(arms_of(0)).id, 1.0)
    assert agent.calling() is agent.status().calling is True
    clock.now = TIMES[3].timestamp()
    agent.answer(letter(agent, "collect"), "c", 0)
    clock.now = TIMES[5].timestamp()
    assert agent.calling() is False
    assert agent.synchronised_at == agent.status().synchronised_at == TIMES[3]


def test_status_tells_how_far_the_trigger_has_come(opened):
    assert opened("alone.db", fb.algorithms.IndependentLinUCB()).status().level is None
    assert opened("glm.db", ALGORITHMS["n-ons-glm"](), facts=[Link("logistic")]).status().level is None
    agent = opened("triggered.db", fb.algorithms.DisLinUCB(threshold=5.0))
    assert agent.status().level == 0
    levels = []
    while not agent.calling():
        agent.reward(agent.decide(arms_of(len(levels))).id, 1.0)
        levels.append(agent.status().level)
    assert levels == sorted(levels)
    assert levels[-1] > 1 >= levels[-2]
    agent.answer(letter(agent, "collect"), "c", 0)
    assert agent.status().level == 0


def test_status_tells_what_privacy_was_spent(opened):
    agent = opened(algorithm=ALGORITHMS["dp-ucb-int"](epsilon=1.0), arms=DIM, facts=[Range(0.0, 1.0)])
    assert agent.status().spent == 0.0
    for _ in range(300):
        agent.reward(agent.decide(np.eye(DIM)).id, 1.0)
    population = agent.settings.population()
    population.load(agent.state())
    assert agent.status().spent == population.spent()[0]
    assert 0.0 < agent.status().spent <= 1.0


# rewards that never come


def test_expired_decisions_take_no_reward(opened, clock):
    agent = opened(expire_after=timedelta(days=2), clock=clock, snapshot_every=4)
    early = agent.decide(arms_of(0))
    clock.now = TIMES[1].timestamp()
    later = agent.decide(arms_of(1))
    clock.now = TIMES[2].timestamp()
    assert (agent.status().awaiting, agent.status().expired) == (2, 0)
    clock.now += 1
    assert (agent.status().awaiting, agent.status().expired) == (1, 1)
    before = agent.state()
    with pytest.raises(ExpiredError, match=early.id):
        agent.reward(early.id, 1.0)
    with pytest.raises(ExpiredError):
        agent.rewards([(later.id, 1.0), (early.id, 1.0)])
    assert same(agent.state(), before)
    assert agent.reward(later.id, 1.0)
    for i in range(8):  # snapshots on the way
        agent.decide(arms_of(i))
    with pytest.raises(ExpiredError):
        agent.reward(early.id, 1.0)
    assert agent.reward(later.id, 1.0) is False
    status = agent.status()
    assert (status.decisions, status.rewards, status.awaiting, status.expired, status.late) == (10, 1, 8, 1, 3)
    clock.now = TIMES[8].timestamp()
    assert (agent.status().awaiting, agent.status().expired) == (0, 9)


@pytest.mark.parametrize("every", [1, 1000])
def test_what_has_its_reward_does_not_expire(opened, clock, every):
    agent = opened(expire_after=10.0, clock=clock, snapshot_every=every)
    ids = [agent.decide(arms_of(i)).id for i in range(3)]
    agent.rewards([(ids[0], 1.0), (ids[2], 1.0)])
    clock.now += 11
    for _ in range(2):
        status = agent.status()
        assert (status.awaiting, status.expired) == (0, 1)
        agent.close()
        agent = opened(algorithm=None, dim=None, clock=clock)


def test_by_default_decisions_wait_forever(opened, clock):
    agent = opened(clock=clock, snapshot_every=1)
    decision = agent.decide(arms_of(0))
    clock.now += 1e9
    assert agent.reward(decision.id, 1.0)


# forgetting


def bytes_of(agent: Agent) -> bytes:
    return b"".join(path.read_bytes() for path in agent.path.parent.iterdir() if path.name.startswith(agent.path.name))


def big_endian(value: float) -> bytes:
    return np.array(value, ">f8").tobytes()


def test_forgotten_observations_are_in_no_byte_of_the_files(opened, clock):
    agent = opened(clock=clock, snapshot_every=7)
    rng = np.random.default_rng(5)
    # several features of a row, since a gram matrix of one observation may hold a single one
    rows, values, ids = [], [], []
    for i in range(20):
        clock.now = TIMES[i // 4].timestamp() + i
        arms, value = arms_of(i), rng.normal()
        decision = agent.decide(arms)
        ids.append(decision.id)
        rows.append(arms[decision.index, :2].astype("<f8").tobytes())
        values.append(big_endian(value))
        if i % 4:  # one in four never gets its reward
            agent.reward(decision.id, value)
    clock.now = TIMES[2].timestamp()
    reply = agent.answer(letter(agent, "collect"), "c", 0)
    secret = Wire.decode(reply)[1]["moment"].astype("<f8").tobytes()
    agent.answer(letter(agent, "collect"), "d", 0, [Verdict("c", 0, True)])
    recent = agent.answer(letter(agent, "collect"), "e", 0)  # from here on, nobody asks for "c" again
    clock.now = TIMES[8].timestamp()
    content = bytes_of(agent)
    assert all(row in content for row in rows)
    assert all(value in content for i, value in enumerate(values) if i % 4)
    assert secret in content

    before, told = agent.state(), agent.status()
    assert agent.forget(TIMES[3]) == 12
    content = bytes_of(agent)
    assert not any(row in content for row in rows[:12])
    assert not any(value in content for value in values[:12])
    assert reply not in content
    assert recent in content, "a server may still ask for it again"
    assert all(row in content for row in rows[12:])
    assert all(value in content for i, value in enumerate(values) if i >= 12 and i % 4)
    assert same(agent.state(), before)

    status = agent.status()
    assert (status.decisions, status.rewards) == (told.decisions, told.rewards) == (20, 15)
    assert (told.awaiting, status.awaiting) == (5, 2)
    for i in (0, 1):  # one that awaited its reward, and one that had it
        with pytest.raises(UnknownDecisionError, match="forgotten"):
            agent.reward(ids[i], 1.0)
    assert agent.reward(ids[12], 1.0)
    agent.close()
    again = opened(algorithm=None, dim=None)
    again.decide(arms_of(99))
    assert again.status().decisions == 21


def test_arms_that_were_not_chosen_are_gone_after_the_reward(opened):
    agent = opened(snapshot_every=1000)
    others = []
    for i in range(40):
        arms = arms_of(i, count=20)
        decision = agent.decide(arms)
        others += [row.tobytes() for place, row in enumerate(arms) if place != decision.index]
        agent.reward(decision.id, 1.0)
    content = bytes_of(agent)
    assert all(row in content for row in others)
    agent.close()
    content = bytes_of(agent)
    assert not any(row in content for row in others)


def test_forgetting_makes_the_file_smaller(opened, clock):
    agent = opened(clock=clock)
    for i in range(60):
        agent.decide(arms_of(i, count=50))
    agent.close()
    agent = opened(algorithm=None, dim=None, clock=clock)
    size = agent.path.stat().st_size
    agent.forget(clock.now + 1)
    assert agent.path.stat().st_size < size / 2


def test_forgetting_everything_and_nothing(opened, clock):
    agent = opened(clock=clock)
    assert agent.forget(clock.now + 1) == 0
    ids = [agent.decide(arms_of(i)).id for i in range(3)]
    agent.reward(ids[0], 1.0)
    state = agent.state()
    assert agent.forget(clock.now) == 0
    assert agent.forget(clock.now + 1) == 3
    assert same(agent.state(), state)
    assert agent.status().awaiting == 0
    assert same(opened(algorithm=None, dim=None).state(), state)
    with pytest.raises(InputError, match="time zone"):
        agent.forget(datetime(2024, 5, 1))
    with pytest.raises(InputError):
        agent.forget(math.nan)


def test_what_learns_by_keeping_observations_says_so(opened, clock):
    agent = opened(algorithm=fb.algorithms.NUCBGLM(), clock=clock)
    decision = agent.decide(arms_of(0))
    agent.decide(arms_of(1), who="nobody")
    assert agent.reward(decision.id, 1.0)
    with pytest.raises(CannotForgetError, match="n-ucb-glm keeps its observations"):
        agent.forget(clock.now + 1)
    assert agent.forget(who="nobody") == 1, "nothing was learned from it"


# the life of an object


def test_threads_share_an_agent(opened):
    agent = opened(snapshot_every=10)
    failures: list[BaseException] = []
    told: list[tuple[str, float]] = []

    def work(number: int) -> None:
        try:
            for i in range(25):
                decision = agent.decide(arms_of(100 * number + i))
                told.append((decision.id, float(number)))
                assert agent.reward(decision.id, float(number))
                agent.status()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert agent.rewards(told) == 0
    assert (agent.status().decisions, agent.status().rewards) == (100, 100)
    assert len({name for name, _ in told}) == 100


def test_a_closed_agent_says_so(opened):
    agent = opened()
    agent.close()
    agent.close()
    for call in (lambda: agent.decide(arms_of(0)), agent.status, agent.calling, lambda: agent.forget(0.0)):
        with pytest.raises(ClosedError):
            call()


def test_errors_are_agent_errors_and_keep_their_kind():
    assert issubclass(SettingsError, AgentError)
    assert issubclass(SettingsError, fb.ConfigError)
    assert issubclass(InputError, ValueError)
    assert issubclass(LetterError, ValueError)


def test_replies_of_conversations_long_ago_are_dropped_and_their_letters_refused(opened):
    """The file does not grow with the number of conversations; what a server may repeat is there."""
    agent = opened(snapshot_every=1)
    collect, told = letter(agent, "collect"), pool(agent)
    replies = {}
    for number in range(5):
        agent.reward(agent.decide(arms_of(number)).id, 1.0)
        replies[number] = agent.answer(collect, f"c{number}", 0)
        assert agent.answer(told, f"c{number}", 1) is None
    before, status = agent.state(), agent.status()
    for number in (3, 4):
        assert agent.answer(collect, f"c{number}", 0) == replies[number]
        assert agent.answer(told, f"c{number}", 1) is None
    for number in (0, 1, 2):
        with pytest.raises(ConflictError, match=f"turn 0 of conversation 'c{number}' was answered long ago"):
            agent.answer(collect, f"c{number}", 0)
        assert agent.answer(told, f"c{number}", 1) is None, "nothing was answered, so there is nothing to keep"
    assert same(agent.state(), before)
    assert agent.status() == status
    agent.close()
    again = opened()
    assert same(again.state(), before)
    assert again.answer(collect, "c4", 0) == replies[4]
