"""The public suite passes what keeps the contract, and catches what breaks it, by the name of the promise."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, NamedTuple

import networkx as nx
import numpy as np
import pytest

import fedbandits as fb
from fedbandits.algorithms.linear.parameters import LinearParameters
from fedbandits.algorithms.linear.servers import PoolServer
from fedbandits.channel import Quantise, Through
from fedbandits.contract.arrays import check_arms, check_feedback, check_finite
from fedbandits.contract.catalogue import About
from fedbandits.contract.compiled import choose, learn, quiet, stands_for
from fedbandits.contract.messages import Message
from fedbandits.contract.parameters import parameters
from fedbandits.contract.population import Population
from fedbandits.contract.server import Server
from fedbandits.contract.wire import Bound, Ragged, Utterance, WireField, matrix, vector
from fedbandits.linalg.jit import jit_inside
from fedbandits.models import limits
from fedbandits.models.optimistic import OptimisticAgents
from fedbandits.models.sharing import COLLECT, POOL, POOLED_FRESH
from fedbandits.models.triggers import Trigger, both, observed
from fedbandits.testing import BrokenPromiseError, check_algorithm, checks_of

ENVIRONMENT = fb.environments.Linear(clients=5, dim=4, arms=6)
RING = fb.network.Given.of(nx.cycle_graph(6), ttl=2)


class Agents(OptimisticAgents):
    """What mutants change."""

    def __init__(self, algorithm, problem, n, rng, trigger):
        super().__init__(algorithm.models(problem, n), algorithm.widths(problem, problem.dim), trigger)
        self.rng = rng


@parameters
class Periodic(LinearParameters):
    """Somebody else's algorithm: everybody pools whenever somebody has made `every` observations."""

    every: int = 4

    about: ClassVar[About] = About(
        name="periodic",
        family="somebody's own",
        topology="star",
        talks="everybody, after every few observations",
        says=(COLLECT, POOLED_FRESH, POOL),
        guarantee="none",
        source="test",
        calls="scheduled",
    )
    kind: ClassVar[type[Agents]] = Agents

    def agents(self, problem, n, rng):
        return self.kind(self, problem, n, rng, Trigger(observed, self.every))

    def server(self, problem, n, rng):
        return PoolServer(self, n, problem.dim, collects="everybody", tells="everybody")


def mutant(kind: type[Agents] = Agents, **about) -> Periodic:
    """`Periodic` with other agents, or another entry in the catalogue."""

    class Mutant(Periodic):
        pass

    Mutant.kind = kind
    Mutant.about = replace(Periodic.about, **about)
    return Mutant()


def broken(algorithm, environment=ENVIRONMENT, **options) -> BrokenPromiseError:
    with pytest.raises(BrokenPromiseError) as caught:
        check_algorithm(algorithm, environment, **{"horizon": 16, **options})
    said = str(caught.value)
    assert f"algorithm {algorithm.about.name!r} breaks the promise {caught.value.check!r}" in said
    assert caught.value.promise in said
    assert caught.value.mend in said
    return caught.value


class TestWhatIsRight:
    def test_an_algorithm_of_somebody_else(self):
        check_algorithm(Periodic(), ENVIRONMENT)

    def test_in_words_and_as_a_class(self):
        check_algorithm("dislinucb:threshold=0.5", "linear:clients=5,dim=4,arms=6", horizon=25, seed=3)
        check_algorithm(Periodic, ENVIRONMENT, horizon=20)

    def test_on_a_graph(self):
        check_algorithm(fb.algorithms.FedUCB1(), fb.environments.BernoulliArms(clients=6, arms=5), network=RING)

    def test_through_a_stage(self):
        """Error feedback sends the rest of an increment later, and rounding differs with the order of draws."""
        late = "what was rounded away is sent with the next message"
        check_algorithm(
            Through(Periodic(), (Quantise(bits=12),)),
            ENVIRONMENT,
            excused=dict.fromkeys(("adds", "additive", "returned", "never asked"), late),
        )

    def test_checks_one_by_one(self):
        checks = list(checks_of(Periodic(), ENVIRONMENT, excused={"urgency": "to see that it is left out"}))
        assert [str(check) for check in checks][:3] == ["environment", "declarations", "fields"]
        assert "urgency" not in [check.name for check in checks]
        for check in checks[:3]:
            check()

    def test_an_excuse_for_what_there_is_not(self):
        with pytest.raises(fb.ConfigError, match="did you mean 'urgency'"):
            check_algorithm(Periodic(), ENVIRONMENT, excused={"urgencies": "a slip of the pen"})

    def test_a_network_is_missing(self):
        with pytest.raises(fb.ConfigError, match="give a network"):
            check_algorithm(fb.algorithms.FedUCB1(), fb.environments.BernoulliArms(clients=6, arms=5))


class Crowded(Agents):
    def learn(self, who, arms, picks, rewards):
        super().learn(who, arms, picks, rewards - (1e-12 * rewards.mean() if len(who) else 0.0))


def test_agents_that_depend_on_each_other():
    found = broken(mutant(Crowded))
    assert found.check == "two worlds"
    assert "step 0" in found.found
    assert "agent 0" in found.found


class Gamblers(Agents):
    def choose(self, who, arms):
        super().choose(who, arms)
        return np.random.randint(arms.shape[1], size=len(who))  # noqa: NPY002


def test_draws_from_numpys_global_generator():
    found = broken(mutant(Gamblers))
    assert found.check == "repeatable"
    assert "np.random" in found.found
    assert "Streams" in found.mend


_HIDDEN = np.random.default_rng(0)


class Dicers(Agents):
    def choose(self, who, arms):
        super().choose(who, arms)
        return _HIDDEN.integers(arms.shape[1], size=len(who))


def test_draws_from_a_generator_of_its_own():
    found = broken(mutant(Dicers))
    assert found.check == "repeatable"
    assert "two runs with seed 0 differ" in found.found


def answering(change):
    """Agents whose answers to `collect` are changed on the way."""

    class Changed(Agents):
        def answer(self, request):
            reply = super().answer(request)
            return reply if reply is None else Message(reply.kind, reply.who, change(self, dict(reply.arrays)))

    return mutant(Changed)


def test_an_undeclared_field():
    found = broken(answering(lambda agents, arrays: arrays | {"surplus": arrays["moment"]}))
    assert found.check == "fields"
    assert "surplus" in found.found


def test_a_field_of_another_type():
    found = broken(answering(lambda agents, arrays: arrays | {"moment": arrays["moment"].astype(np.float32)}))
    assert found.check == "fields"
    assert "float32" in found.found


def test_a_field_of_another_shape():
    found = broken(answering(lambda agents, arrays: arrays | {"moment": arrays["moment"][:, :-1]}))
    assert found.check == "fields"


def test_a_matrix_that_is_not_quite_symmetric():
    def tilt(agents, arrays):
        gram = arrays["gram"].copy()
        gram[:, 0, 1] *= 1 + 1e-15
        return arrays | {"gram": gram}

    found = broken(answering(tilt))
    assert found.check == "fields"
    assert "symmetric" in found.found


class Forgetful(Agents):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.turns = np.zeros(len(self), dtype=np.int64)

    def choose(self, who, arms):
        best = super().choose(who, arms)
        self.turns[who] += 1
        return np.where(self.turns[who] % 2 == 0, best, 0)


def test_what_is_lost_on_the_way_through_a_snapshot():
    found = broken(mutant(Forgetful))
    assert found.check == "resumable"
    assert "keeps" in found.mend


class RowReader(PoolServer):
    def converse(self, callers):
        conversation = super().converse(callers)
        request = next(conversation, None)
        while request is not None:
            reply = yield request
            if reply.arrays and len(reply.who):
                weights = 1.0 + np.arange(len(reply.who))
                moment = reply.arrays["moment"] * weights[:, None]
                reply = Message(reply.kind, reply.who, {**reply.arrays, "moment": moment})
            try:
                request = conversation.send(reply)
            except StopIteration:
                return


class Unpooled(Periodic):
    about = replace(Periodic.about, name="unpooled")

    def server(self, problem, n, rng):
        return RowReader(self, n, problem.dim, collects="everybody", tells="everybody")


def test_a_server_that_reads_the_rows_of_a_pooled_field():
    found = broken(Unpooled())
    assert found.check == "pooled"
    assert "pool.moment" in found.found
    assert "pooled" in found.promise


class ByData(Periodic):
    about = replace(Periodic.about, name="by-data")

    def agents(self, problem, n, rng):
        return Agents(self, problem, n, rng, Trigger(both, 0.5))


def test_calls_by_data_though_scheduled():
    found = broken(ByData())
    assert found.check == "calls"
    assert "scheduled" in found.found


class Hasty(Agents):
    keeps = (*Agents.keeps, "turns")

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.turns = np.zeros(len(self), dtype=np.int64)

    def learn(self, who, arms, picks, rewards):
        if np.ndim(who) == 1 and np.asarray(who).dtype.kind == "i" and len(who) and who.max(initial=0) < len(self):
            self.turns[who] += 1
        super().learn(who, arms, picks, rewards)


def test_bad_input_that_changes_something():
    found = broken(mutant(Hasty))
    assert found.check == "bad input"
    assert "turns" in found.found


class Careless(Agents):
    def choose(self, who, arms):
        return super().choose(who, np.nan_to_num(arms))


def test_bad_input_that_is_not_refused():
    found = broken(mutant(Careless))
    assert found.check == "bad input"
    assert "nothing is raised" in found.found


class Noisy(Agents):
    keeps = (*Agents.keeps, "rng")

    def learn(self, who, arms, picks, rewards):
        super().learn(who, arms, picks, rewards)
        self.rng.secret.normal(who)


def test_secret_draws_of_an_algorithm_that_is_not_private():
    assert broken(mutant(Noisy)).check == "secret draws"
    check_algorithm(mutant(Noisy, private=True), ENVIRONMENT, horizon=16)


def test_a_private_algorithm_that_draws_its_noise_elsewhere():
    found = broken(mutant(private=True))
    assert found.check == "secret draws"
    assert "operating system" in found.mend


class Repeating(Agents):
    def answer(self, request):
        if request.kind == COLLECT.kind:
            return Message(POOLED_FRESH.kind, request.who, self.models.fresh.rows(request.who, counted=False))
        return super().answer(request)


def test_increments_that_are_sent_again():
    found = broken(mutant(Repeating), excused={"meanwhile": "that finds it, too"})
    assert found.check == "adds"
    assert "gram" in found.found


class Counting(Agents):
    """Sends the mean of what is new, which does not add up."""

    def answer(self, request):
        count = np.maximum(self.models.fresh.count[request.who], 1.0)
        reply = super().answer(request)
        if reply is None:
            return None
        moment = reply.arrays["moment"] / count[:, None]
        return Message(reply.kind, reply.who, {**reply.arrays, "moment": moment})


def test_increments_that_do_not_add_up():
    found = broken(mutant(Counting))
    assert found.check == "additive"
    assert "moment" in found.found


def test_numbers_without_a_bound():
    """The promise tells what to write."""
    gram, moment, count = POOLED_FRESH.fields
    free = Utterance("fresh", "up", (gram, replace(moment, bound=None), count))
    found = broken(mutant(says=(COLLECT, free, POOL)))
    assert found.check == "bounds"
    assert found.found == "'moment' of 'fresh' (up) has no bound"
    assert "fedbandits.models.limits" in found.mend
    endless = Utterance("fresh", "up", (gram, replace(moment, bound=Bound(limits.none)), count))
    found = broken(mutant(says=(COLLECT, endless, POOL)))
    assert found.check == "bounds"
    assert "the bound of 'moment' is inf" in found.found


def test_numbers_that_are_beyond_their_bound():
    gram, moment, count = POOLED_FRESH.fields
    narrow = replace(gram, bound=Bound(lambda problem, asked: 1e-3))
    found = broken(mutant(says=(COLLECT, Utterance("fresh", "up", (narrow, moment, count)), POOL)))
    assert found.check == "bounds"
    assert "the trace of 'gram'" in found.found


class Losing(Agents):
    restore = Population.restore


def test_what_comes_back_is_not_taken():
    found = broken(mutant(Losing))
    assert found.check == "returned"
    assert "Losing cannot take back 'fresh'" in found.found
    assert "restore()" in found.mend


class Doubling(Agents):
    """Know what comes back twice: it is new, and it is still among what was settled."""

    def restore(self, sent, observed):
        self.models.fresh.merge(sent.who, sent.arrays["gram"], sent.arrays["moment"], observed)


def test_what_comes_back_is_known_twice():
    assert broken(mutant(Doubling)).check == "never asked"


class Unmoved(Agents):
    """Count what comes back as new, but not towards the next call."""

    def restore(self, sent, observed):
        super().restore(sent, np.zeros_like(observed))


def test_what_comes_back_does_not_count_towards_the_next_call():
    assert broken(mutant(Unmoved)).check == "never asked"


class Telling(Agents):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.last = np.zeros(len(self))

    def learn(self, who, arms, picks, rewards):
        super().learn(who, arms, picks, rewards)
        self.last[who] = rewards

    def answer(self, request):
        reply = super().answer(request)
        if reply is not None:
            reply = Message(reply.kind, reply.who, {**reply.arrays, "count": self.last[reply.who].copy()})
        return reply


def test_raw_observations_that_were_not_declared():
    found = broken(mutant(Telling))
    assert found.check == "raw"
    assert "count" in found.found


class Deaf(Agents):
    """Forgets what it has observed since it handed over."""

    def answer(self, request):
        if request.kind == POOL.kind:
            self.models.fresh.clear(request.who)
        return super().answer(request)


def test_what_is_observed_in_mid_conversation_is_lost():
    assert broken(mutant(Deaf)).check == "meanwhile"


class Silent(Agents):
    def urgency(self):
        return None


class Calm(Agents):
    def urgency(self):
        return super().urgency() / 2


@pytest.mark.parametrize("kind", [Silent, Calm])
def test_urgency_that_does_not_agree_with_calling(kind):
    assert broken(mutant(kind)).check == "urgency"


class Boastful(Agents):
    def scores(self, who, arms):
        return -super().scores(who, arms)


class Restless(Agents):
    keeps = (*Agents.keeps, "rng")

    def scores(self, who, arms):
        self.rng.uniform(who)
        return super().scores(who, arms)


class Gambling(Agents):
    """Draws its arm, and does not say so."""

    keeps = (*Agents.keeps, "rng")

    def choose(self, who, arms):
        super().choose(who, arms)  # refuses bad arms
        return (self.rng.uniform(who) * arms.shape[1]).astype(np.int64)

    def scores(self, who, arms):
        return None


class Biased(Gambling):
    """Says that the first arm is as good as certain."""

    def chances(self, who, arms):
        found = np.full(arms.shape[:2], 0.02)
        found[:, 0] = 1 - 0.02 * (arms.shape[1] - 1)
        return found


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Boastful, "the highest scores are of"),
        (Restless, "looking at scores"),
        (Gambling, "streams alone differ"),
        (Biased, "its chance is said to be"),
    ],
)
def test_choices_that_are_not_as_they_are_told(kind, named):
    found = broken(mutant(kind))
    assert found.check == "choices"
    assert named in found.found


class Hurried(Agents):
    def learn(self, who, arms, picks, rewards):
        super().learn(who, arms, picks, rewards / 2)

    def compiled(self):
        return self.optimists()


def test_compiled_functions_that_do_something_else():
    assert broken(mutant(Hurried)).check == "compiled"


@quiet
class Idle(NamedTuple):
    nothing: int


@stands_for(choose, Idle)
@jit_inside
def undecided(agents, i, arms, row, room):
    return -1


@stands_for(learn, Idle)
@jit_inside
def unmoved(agents, i, arms, row, pick, reward, room):
    return False


class Shirking(Agents):
    def compiled(self):
        return Idle(0)


def test_compiled_functions_that_are_never_seen_to_work():
    assert broken(mutant(Shirking)).check == "compiled"


class Polite(Agents):
    def answer(self, request):
        return super().answer(request) if request.kind in ("collect", "pool") else None


def test_messages_that_nobody_knows_are_taken():
    assert broken(mutant(Polite)).check == "unknown messages"


class Trusting(PoolServer):
    def converse(self, callers):
        if len(callers):
            fresh = yield Message(COLLECT.kind, self._everybody)
            self.pool.gram += sum(fresh.arrays["gram"][i] for i in self._everybody)
            rows = self.pool.rows(np.zeros(len(self._everybody), dtype=np.int64), counted=False)
            yield Message(POOL.kind, self._everybody, rows)


class Impatient(Periodic):
    about = replace(Periodic.about, name="impatient")

    def server(self, problem, n, rng):
        return Trusting(self, n, problem.dim, collects="everybody", tells="everybody")


def test_a_server_that_takes_everybody_to_be_there():
    found = broken(Impatient())
    assert found.check == "reach"
    assert "KeyError" in found.found


class Cliquish(Agents):
    """Draws what everybody should have in common on an occasion of its own."""

    def choose(self, who, arms):
        self.rng.common("tie", len(self)).random()
        return super().choose(who, arms)


def test_common_draws_that_depend_on_who_asks():
    found = broken(mutant(Cliquish))
    assert found.check == "common draws"
    assert "tie" in found.found


class Shared(Agents):
    def state(self):
        return self._arrays()


def test_a_snapshot_that_is_no_copy():
    assert broken(mutant(Shared)).check == "snapshots"


class Overconfident(Agents):
    def ellipsoids(self):
        centres, matrices, widths = super().ellipsoids()
        return centres, -matrices, widths


def test_ellipsoids_that_are_none():
    found = broken(mutant(Overconfident))
    assert found.check == "definite"
    assert "eigenvalue" in found.found


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({"topology": "tree"}, "about.topology is 'tree'"),
        ({"says": (COLLECT, COLLECT, POOLED_FRESH, POOL)}, "'collect' (down) twice"),
        ({"says": (COLLECT, POOL)}, "about.says goes down"),
        ({"topology": "alone", "says": (), "calls": "never"}, "server() returns PoolServer"),
        ({"calls": "never"}, 'about.calls is "never"'),
        ({"says": (COLLECT, POOLED_FRESH, Utterance("pool", "down", (vector("gram", pooled=True),)))}, "pooled"),
        ({"says": (COLLECT, POOLED_FRESH, Utterance("pool", "down", (matrix("m"), matrix("m"))))}, "declared twice"),
    ],
)
def test_declarations_that_make_no_sense(about, named):
    found = broken(mutant(**about))
    assert found.check == "declarations"
    assert named in found.found


def test_a_trial_in_which_nobody_talks_shows_nothing():
    found = broken(Periodic(every=1000))
    assert "horizon" in found.mend


class Moody(Population):
    """Tells its neighbours of good rewards alone, or more than was declared."""

    keeps = ("good",)

    def __init__(self, n, arms, kind):
        super().__init__(n)
        self.good = np.zeros(n)
        self._arms, self._kind = arms, kind

    def choose(self, who, arms):
        check_arms(who, arms, len(self), self._arms)
        check_finite("arms", who, arms)
        return np.zeros(len(who), dtype=np.int64)

    def learn(self, who, arms, picks, rewards):
        check_feedback(who, arms, picks, rewards, len(self), self._arms)
        self.good[who] = rewards

    def say(self, learned):
        glad = learned[self.good[learned] > 0.5]
        return [Message(self._kind, glad, {"reward": self.good[glad]})] if len(glad) else []

    def hear(self, inbox):
        pass


@parameters
class Gossip:
    """Moody agents on a graph."""

    word: str = "good"
    about: ClassVar[About] = About(
        name="moody",
        family="somebody's own",
        topology="graph",
        talks="after good rewards",
        says=(Utterance("good", "peer", (WireField("reward", raw=True),)),),
        guarantee="none",
        source="test",
    )

    def agents(self, problem, n, rng):
        return Moody(n, problem.dim, self.word)

    def server(self, problem, n, rng):
        return None


class Collectors(Population):
    """Hand over all rewards since they were last asked, of which each has another number."""

    keeps = ("held", "count", "mean")

    def __init__(self, n, dim, horizon):
        super().__init__(n)
        self.held, self.count, self.mean = np.zeros((n, horizon)), np.zeros(n, dtype=np.int64), np.zeros(n)
        self._arms = dim

    choose = Moody.choose

    def learn(self, who, arms, picks, rewards):
        check_feedback(who, arms, picks, rewards, len(self), self._arms)
        self.held[who, self.count[who]] = rewards
        self.count[who] += 1

    def calling(self):
        return self.count >= 3

    def urgency(self):
        return self.count / 3

    def answer(self, request):
        who = request.who
        if request.kind == "mean":
            self.mean[who] = request.arrays["mean"]
            return None
        if request.kind != "collect":
            return super().answer(request)
        lengths = self.count[who]
        longest = int(lengths.max(initial=0))
        kept = np.where(np.arange(longest) < lengths[:, None], self.held[who, :longest], 0.0)
        self.held[who], self.count[who] = 0.0, 0
        return Message("batch", who, {"rewards": kept}, {"m": lengths})

    def restore(self, sent, observed):
        for agent, rewards, length in zip(sent.who, sent.arrays["rewards"], sent.lengths["m"], strict=True):
            held = np.concatenate([rewards[:length], self.held[agent, : self.count[agent]]])
            self.count[agent] = len(held)
            self.held[agent, : len(held)] = held


class Averaging(Server):
    keeps = ("total", "seen")

    def __init__(self, n):
        self.total, self.seen = np.zeros(()), np.zeros(())
        self._n = n

    def converse(self, callers):
        if len(callers) == 0:
            return
        batch = yield Message("collect", callers)
        if len(batch.who) == 0:
            return
        for row, length in zip(batch.arrays["rewards"], batch.lengths["m"], strict=True):
            self.total += row[:length].sum()
            self.seen += length
        everybody = np.arange(self._n)
        yield Message("mean", everybody, {"mean": np.full(self._n, self.total / self.seen)})


@parameters
class Ragtime:
    """Agents whose messages are of different lengths."""

    about: ClassVar[About] = About(
        name="ragtime",
        family="somebody's own",
        topology="star",
        talks="after three rewards",
        says=(
            COLLECT,
            Utterance(
                "batch",
                "up",
                (WireField("rewards", (Ragged("m"),), raw=True, adds="increment", bound=Bound(limits.reward)),),
            ),
            Utterance("mean", "down", (WireField("mean"),)),
        ),
        guarantee="none",
        source="test",
        calls="scheduled",
    )

    def agents(self, problem, n, rng):
        return Collectors(n, problem.dim, problem.horizon)

    def server(self, problem, n, rng):
        return Averaging(n)


class Padded(Collectors):
    """Forget to say how long their messages are."""

    def answer(self, request):
        reply = super().answer(request)
        return reply if reply is None else Message(reply.kind, reply.who, reply.arrays)


class TestMessagesOfDifferentLengths:
    def test_lists_of_observations(self):
        check_algorithm(Ragtime(), ENVIRONMENT)

    def test_without_their_lengths(self):
        class Mutant(Ragtime):
            def agents(self, problem, n, rng):
                return Padded(n, problem.dim, problem.horizon)

        assert broken(Mutant()).check == "fields"


class Chatty(Population):
    """Say two things: what they have just got and, every third round, awake or not, how much they have heard."""

    keeps = ("heard", "last", "rounds")

    def __init__(self, n, arms):
        super().__init__(n)
        self.heard, self.last, self.rounds = np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64)
        self._arms = arms

    choose = Moody.choose

    def learn(self, who, arms, picks, rewards):
        check_feedback(who, arms, picks, rewards, len(self), self._arms)
        self.last[who] = rewards

    def say(self, learned):
        self.rounds += 1
        pulsing = np.flatnonzero(self.rounds % 3 == 0)
        return [
            Message("pulse", pulsing, {"sum": self.heard[pulsing], "round": self.rounds[pulsing]}),
            Message("got", learned, {"reward": self.last[learned]}),
        ]

    def hear(self, inbox):
        name = "reward" if inbox.said.kind == "got" else "sum"
        for to, number in zip(inbox.to, inbox.said.arrays[name][inbox.row], strict=True):
            self.heard[to] = 0.9 * self.heard[to] + number  # which depends on the order


class TwoKinds(Gossip):
    about = replace(
        Gossip.about,
        name="chatty",
        calls="scheduled",
        says=(
            Utterance("got", "peer", (WireField("reward", raw=True),)),
            Utterance("pulse", "peer", (WireField("sum"), WireField("round", dtype="i8"))),
        ),
    )

    def agents(self, problem, n, rng):
        return Chatty(n, problem.dim)


class TestOnAGraph:
    environment = fb.environments.BernoulliArms(clients=6, arms=5)

    def test_several_kinds_of_message_by_agents_that_may_have_learned_nothing(self):
        check_algorithm(TwoKinds(), self.environment, network=RING)

    def test_speaking_by_data_is_fine_where_it_is_declared(self):
        check_algorithm(Gossip(), self.environment, network=RING)

    def test_speaking_by_data_though_scheduled(self):
        class Scheduled(Gossip):
            about = replace(Gossip.about, calls="scheduled")

        found = broken(Scheduled(), self.environment, network=RING)
        assert found.check == "calls"
        assert "say 'good'" in found.found

    def test_a_kind_that_was_not_declared(self):
        found = broken(Gossip(word="better"), self.environment, network=RING)
        assert found.check == "fields"
        assert "better" in found.found
