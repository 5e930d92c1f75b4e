"""The conformance suite: named checks that hold anybody's algorithm to the contract, without any test framework."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fedbandits.contract.errors import ConfigError, hint
from fedbandits.contract.wire import WireError
from fedbandits.simulation.arguments import (
    AlgorithmLike,
    EnvironmentLike,
    NetworkLike,
    algorithm_of,
    check_network,
    environment_of,
    network_of,
)
from fedbandits.testing.breach import Breach, BrokenPromiseError
from fedbandits.testing.environment import keeps_to_the_contract
from fedbandits.testing.promises import (
    adding,
    agreeing,
    believing,
    bounded,
    calling,
    choosing,
    declared,
    drawing,
    input,
    repeating,
    returning,
)
from fedbandits.testing.subject import Subject


@dataclass(frozen=True, slots=True)
class Promise:
    """One thing that every algorithm owes: what is promised, how it is usually mended, and how it is tried."""

    text: str
    mend: str
    trial: Callable[[Subject], None]


PROMISES: dict[str, Promise] = {
    "environment": Promise(
        "the environment that the algorithm is tried in is itself as the contract has it",
        "see fedbandits.testing.check_environment",
        lambda subject: keeps_to_the_contract(subject.environment, subject.horizon, subject.seed),
    ),
    "declarations": Promise(
        "about says what the algorithm is, and all that may cross the wire",
        "correct about",
        declared.declarations,
    ),
    "fields": Promise(
        "nothing crosses but declared messages, whose fields have the declared types and shapes",
        "declare what is sent in about.says, or send what is declared",
        declared.fields,
    ),
    "talks": Promise(
        "an algorithm that talks does so in the trial",
        "give a longer horizon, or parameters under which it talks often",
        declared.talks,
    ),
    "raw": Promise(
        "raw observations stay with the agent, unless their field is declared raw",
        "send statistics, or declare the field raw=True",
        declared.raw,
    ),
    "unknown messages": Promise(
        "agents refuse a message that nobody declared with a WireError that names it, and stay as they are",
        "end answer() with: return super().answer(request)",
        declared.unknown_messages,
    ),
    "compiled": Promise(
        "a run whose turns are played by compiled functions is the run that goes step by step through Python",
        "let compiled() return None, or let choose, learn and calling do what the compiled functions do, bit by bit",
        repeating.compiled,
    ),
    "repeatable": Promise(
        "same seed, same run, however it is divided",
        "draw from rng alone, and keep nothing in globals, class attributes or mutable defaults",
        repeating.repeatable,
    ),
    "reach": Promise(
        "conversations touch those alone who were reached, and end where nobody was",
        "go by `who` of the replies, which may be fewer than were asked, or none",
        calling.reach,
    ),
    "two worlds": Promise(
        "what an agent does depends on nobody else in its population, to the last bit: one population of n, and n "
        "populations of one that are reached by bytes alone, agree",
        "compute row by row: no sums, means or matrix products over the axis of agents, no draws but from one's own "
        "stream, and nothing that is told without a message",
        agreeing.two_worlds,
    ),
    "two worlds in trouble": Promise(
        "the same on a graph whose links fail, delay and change messages",
        "rest on what was heard alone, in whatever order it comes",
        agreeing.two_worlds_in_trouble,
    ),
    "resumable": Promise(
        "a run that was stopped after any step, saved, and loaded into objects that were just made, goes on as if "
        "nothing had been",
        "name in keeps every array that outlives a step, the Streams included",
        repeating.resumable,
    ),
    "snapshots": Promise(
        "a snapshot is a copy, and one that does not fit is refused before anything has changed",
        "leave state() and load() to Stateful, and name what may change its length in resizes",
        repeating.snapshots,
    ),
    "metering": Promise(
        "the ledger's bytes are the bytes of the serialised messages",
        "let carriers count: nothing crosses but what answer(), say() and converse() hand over",
        agreeing.metering,
    ),
    "bad input": Promise(
        "what cannot be is refused with a ValueError that names it, before anything has changed",
        "check arguments first, with the functions in contract.arrays",
        input.bad_input,
    ),
    "choices": Promise(
        "choose takes the first highest of scores(), draws with the probabilities of chances(), and follows from what "
        "is known where there are none; telling changes nothing",
        "say in scores() what choose() compares, and in chances() how it draws",
        choosing.told,
    ),
    "calls": Promise(
        'about.calls says whether the moments of speaking depend on data: "scheduled" follows from turns alone',
        'make the trigger depend on the number of observations alone, or declare calls="data"',
        calling.calls,
    ),
    "urgency": Promise(
        "urgency() says how close an agent is to calling: 1 where it does",
        "return (n,) levels divided by their thresholds, as models.triggers does",
        calling.urgency,
    ),
    "meanwhile": Promise(
        "what an agent observes in mid-conversation, after it has handed over, counts as observed after it",
        "keep what was handed over apart from what is new, and what is new on top of what is told",
        calling.meanwhile,
    ),
    "definite": Promise(
        "confidence ellipsoids and inverses are symmetric and positive definite",
        "use models.ridge, which computes inverses anew now and then",
        believing.definite,
    ),
    "pooled": Promise(
        "of a field that is declared pooled the server uses nothing but the sum over those who sent it",
        "use the sum alone, or do not declare pooled=True",
        adding.pooled,
    ),
    "adds": Promise(
        "an increment is what is new since the last such message, a total is everything, a query changes nothing",
        "correct adds=, or what is sent",
        adding.adds,
    ),
    "additive": Promise(
        "increments of consecutive messages add up to what would have been sent at once",
        'do not declare adds="increment", or send sums over what was observed since the last such message',
        adding.additive,
    ),
    "bounds": Promise(
        "every number that agents send up has a finite bound, which honest ones keep to",
        "declare bound=, from what one observation contributes at most",
        bounded.bounded,
    ),
    "returned": Promise(
        "increments that were not taken in, and are given back by restore(), are sent when they are asked for again",
        "say in restore() that what was sent is new again",
        returning.returned,
    ),
    "never asked": Promise(
        "agents that were given back what they handed over go on as if nobody had asked for it",
        "undo in restore() what answer() did to the agent",
        returning.never_asked,
    ),
    "common draws": Promise(
        "rng.common is asked for the same occasions by an agent alone and in a population",
        "let an occasion depend on what everybody knows, never on who asks",
        drawing.common,
    ),
    "secret draws": Promise(
        "noise that protects people comes from rng.secret, and only private algorithms draw from it",
        "declare private=True, or draw from rng",
        drawing.secret,
    ),
}
"""By name, in the order in which they are tried: what later checks rest on comes first."""


@dataclass(frozen=True, slots=True)
class Check:
    """One named check; call it to run it. It returns, or raises `BrokenPromiseError`."""

    name: str
    subject: Subject

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    def __call__(self) -> None:
        """Run it."""
        promise = PROMISES[self.name]
        who = f"algorithm {self.subject.name!r}"
        try:
            promise.trial(self.subject)
        except Breach as breach:
            mend = breach.mend or promise.mend
            raise BrokenPromiseError(who, self.name, promise.text, breach.found, mend) from breach.__cause__
        except WireError as error:
            fields = PROMISES["fields"]
            raise BrokenPromiseError(who, "fields", fields.text, str(error), fields.mend) from error
        except BrokenPromiseError:
            raise
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
            raise BrokenPromiseError(who, self.name, promise.text, found, promise.mend) from error


def checks_of(
    algorithm: AlgorithmLike,
    environment: EnvironmentLike,
    *,
    network: NetworkLike | None = None,
    horizon: int = 40,
    seed: int = 0,
    excused: Mapping[str, str] | None = None,
) -> Iterator[Check]:
    """The checks of `check_algorithm` one by one, for those whose test framework likes to run them by itself.

    >>> import fedbandits as fb
    >>> checks = checks_of(fb.algorithms.Random(), fb.environments.Linear(clients=4, dim=3, arms=5))
    >>> print(next(checks))
    environment
    """
    subject = subject_of(algorithm, environment, network=network, horizon=horizon, seed=seed)
    for name in excused or {}:
        if name not in PROMISES:
            raise ConfigError(f"excused: there is no check {name!r}; {hint(name, list(PROMISES))}")
    for name in PROMISES:
        if name not in (excused or {}):
            yield Check(name, subject)


def check_algorithm(
    algorithm: AlgorithmLike,
    environment: EnvironmentLike,
    *,
    network: NetworkLike | None = None,
    horizon: int = 40,
    seed: int = 0,
    excused: Mapping[str, str] | None = None,
) -> None:
    """Hold `algorithm` to everything that the contract asks of one, in a small `environment` it is at home in.

    Raises `BrokenPromiseError` at the first promise that is not kept: which one, in which step, and how to mend it.
    Choose parameters under which the algorithm talks several times in `horizon` steps, an environment with at least
    three agents, and a `network` on which not everybody reaches everybody. `excused` are checks that are left out, by
    name, each with the reason.

    >>> import fedbandits as fb
    >>> from fedbandits.testing import check_algorithm
    >>> check_algorithm(fb.algorithms.DisLinUCB(threshold=0.5), fb.environments.Linear(clients=4, dim=3, arms=5))
    """
    for check in checks_of(algorithm, environment, network=network, horizon=horizon, seed=seed, excused=excused):
        check()


def subject_of(
    algorithm: AlgorithmLike,
    environment: EnvironmentLike,
    *,
    network: NetworkLike | None = None,
    horizon: int = 40,
    seed: int = 0,
) -> Subject:
    """What the arguments of `check_algorithm` stand for."""
    chosen, place = algorithm_of(algorithm), network_of(network)
    check_network({chosen.about.name: chosen}, place)
    if horizon < 1:
        raise ConfigError(f"horizon: must be at least 1 (got {horizon})")
    return Subject(chosen, environment_of(environment), place, horizon, seed)
