"""Gaussian noise on sums: what leaves an agent keeps a budget of differential privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedbandits.channel import planning, training
from fedbandits.channel.answering import Answering, answers, asks, budget, check_asking, of_one_answer, with_answers
from fedbandits.channel.framed import Framed, check_framing
from fedbandits.channel.releasing import Post, Releasing
from fedbandits.channel.repairing import Passing, Repairing
from fedbandits.channel.sensitivity import NoisyField, is_pooled, is_summed, noisy_fields, one_observation
from fedbandits.channel.stage import End, check_star
from fedbandits.contract.arrays import Array, FloatArray, IntArray
from fedbandits.contract.catalogue import About, AboutStage
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Answers, Embedding, Norms, Perturbation, Questions, Range, Trained
from fedbandits.contract.parameters import parameters
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Adjacency, Protection, Unit
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Bound, Direction, Utterance, WireField, hand_overs
from fedbandits.models.limits import longest
from fedbandits.privacy.gaussian import gaussian_event, gaussian_mu
from fedbandits.privacy.prefix_sums import MechanismName, PrefixSums, prefix_sums
from fedbandits.privacy.spectrum import printed_deviation, printed_spectrum

if TYPE_CHECKING:
    from dp_accounting import DpEvent

_FEW = 8
"""Uploads, unless said otherwise."""
_BEYOND = 12.0
"""Standard deviations that noise never reaches."""
_STRETCHED = 100.0
"""By how much more where bounds are learned: noise then follows a metric that noisy releases tell. In 108 runs at
epsilon 0.05 it reached 14 times what it is for declared bounds at most, twice as much in the median."""

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@parameters
class Gaussian:
    """Sums with Gaussian noise: an agent's uploads together are (`epsilon`, `delta`)-differentially private.

    Every observation is cut down to the norms that the problem declares, ||x|| <= L and |y| <= B (`arms` and `rewards`
    say other ones; where nobody does, this is an error). What an agent hands over in its k-th upload is what is new
    plus the difference of two consecutive noises of a mechanism for prefix sums (`mechanism`, see
    `privacy.prefix_sums`), so that a server that adds up has each agent's noisy sum. Noise is symmetric, sigma L^2 on
    the matrix and sigma L B on the vector, sigma following from the budget exactly (`privacy.gaussian`): all `uploads`
    together are one Gaussian mechanism.

    When: an agent uploads after `uploads` of its own turns, from number `first`, or earlier where the horizon is short,
    to the share `last` of the horizon and geometrically between them, or after `every` so many; or, with
    ``when="algorithm"``, whenever the algorithm asks. A trigger that depends on data tells them, whatever is said: it
    is refused there, unless `leaky`, and then `spent` is infinite. After the last upload nothing is handed over any
    more, and agents go on with what they know. What a server did not take in is sent again as it is.

    `unit` is what is protected: one ``"observation"``; an ``"agent"``, all it ever contributes, each upload being cut
    down to the weight of `most` observations; a ``"person"``, of whom `most` observations are used at each agent, later
    ones counting for nothing; or, where agents plan, a whole ``"episode"``. `adjacency` says how histories differ: the
    unit is there or counts for nothing (``"add-remove"``), or is another one (``"replace"``).

    `own` is what agents act on. ``"released"``: on what the server tells alone, and at random before. Then everything
    that leaves an agent, its choices too, follows from its releases, and the whole transcript is private.
    ``"fused"``: noisy sums of the others and clean data of their own; ``"recent"``, as in the thesis: noisy sums of
    everybody, and clean own data since the last of them. Choices then rest on data that were not released,
    and shape what is uploaded next: flipping one reward moves later uploads by far more than noise is made for. The
    budget holds for fixed histories alone, which is the thesis' definition, and `spent`, which is strict, is infinite.

    Sums are read as observations of the parameter with known covariance (`models.noisy_sums`), and widths know it.
    ``constants="thesis"`` uses the printed ones instead: tree, sigma_N, and a regulariser of 2 Lambda for each agent.

    ``clip="learned"``: observations are cut down to what earlier releases show them to be, in place of the norms that
    are declared, and noise shrinks with them (`models.frames`). It needs fresh noise for each upload (`mechanism`), and
    pays where arms have a mean, rewards vary little, or a few directions outweigh the others. Privacy is the same.
    It is for agents that act in step: whoever comes at random takes what it is told for more than it is, and declared
    norms are better. Confidence sets are those of the declared norms, of which nothing is proved then; in step they
    were not found too small, at random they were.

    Algorithms that ask, for gradients of everybody's loss as `fedglb-ucb` does, are served as well
    (`channel.answering`): an agent answers `queries` questions in all, two for each upload unless said otherwise, with
    fresh noise each, for which the `share` of the budget (of mu^2) is put aside; then it declines, and the server goes
    on with what it has.

    Agents who plan (`fedlsvi-rare`) hand over a matrix for each stage of an episode, and are asked once in each update
    for the targets of each (`channel.planning`); an observation is a transition there, uploads wait for the end of an
    episode, and the `share` of the budget is for targets.

    Networks that everybody trains (`neural-linear` with its `cut`) hand nothing over and answer all the more: there
    `queries` are slopes, the `share` is theirs, and the rest goes to statistics of the last layer
    (`channel.training`).

    Not protected: how many turns an agent has had, and when; what people can tell from the choices they are shown
    themselves; and the last bits of noise, which is drawn as doubles.
    """

    epsilon: _Positive = 1.0
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    uploads: Annotated[int, Field(ge=1)] | None = None
    mechanism: MechanismName = "toeplitz"
    unit: Unit = "observation"
    adjacency: Adjacency = "add-remove"
    own: Literal["released", "fused", "recent"] = "released"
    when: Literal["geometric", "algorithm"] = "geometric"
    first: Annotated[int, Field(ge=1)] = 40
    last: Annotated[float, Field(gt=0, le=1)] = 1 / 3
    every: Annotated[int, Field(ge=1)] | None = None
    most: Annotated[int, Field(ge=1)] = 10
    queries: Annotated[int, Field(ge=1)] | None = None
    share: Annotated[float, Field(gt=0, lt=1)] = 0.9
    arms: _Positive | None = None
    rewards: _Positive | None = None
    clip: Literal["declared", "learned"] = "declared"
    constants: Literal["exact", "thesis"] = "exact"
    leaky: bool = False

    about: ClassVar[AboutStage] = AboutStage(
        name="gaussian",
        summary="sums with Gaussian noise: uploads that keep a budget of differential privacy",
        source="Dubey (2022), thesis, chapter 6; square-root factorisation as in Fichtenberger et al. (ICML 2023)",
    )

    def declares(self, about: About) -> About:
        """See `Stage`."""
        check_star(
            "gaussian",
            about,
            "algorithms that send sums to a server, such as dislinucb; private on their own are private-linucb and, on "
            "networks, fedlinucb-network",
        )
        if about.private:
            raise ConfigError(f"gaussian: what {about.name} sends is protected by noise already; leave one of them out")
        for utterance in about.says:
            if utterance.direction == "up":
                _check_sums(about.name, utterance)
        check_asking(self, about.name, about.says)
        check_framing(self, about.name, about.says)
        if training.only_asks(about.says):
            training.check(self, about.name)
        elif len(hand_overs(about.says)) != 1:
            raise ConfigError(f"gaussian: {about.name} hands over sums in several kinds of messages, or in none")
        if self.when == "algorithm" and about.calls == "data" and not self.leaky:
            raise ConfigError(
                f"gaussian: when {about.name} uploads depends on data, and the moment tells of them, whatever noise; "
                "leave when='algorithm' out, give the algorithm a schedule, or say leaky=true: then nothing is claimed"
            )
        self._check_itself()
        return replace(
            about,
            name=f"{about.name}|gaussian",
            says=tuple(self._declared(utterance) for utterance in about.says),
            calls=about.calls if self.when == "algorithm" and self.every is None else "scheduled",
            private=True,
            guarantee=self._guarantee(about),
        )

    def poses(self, problem: Problem) -> Problem:
        """See `Stage`: bounds that observations are cut down to."""
        norms, known = problem.get(Norms), problem.get(Range)
        if self.arms is None and norms is None and problem.get(Embedding) is None:
            raise ConfigError(
                "gaussian: arms of any length have no sensitivity; tell the fact norms, or the norm that arms are cut "
                "down to: gaussian:arms=1"
            )
        if self.rewards is None and known is None:
            raise ConfigError(
                "gaussian: rewards of any size have no sensitivity; tell the fact range, or the size that rewards are "
                "cut down to: gaussian:rewards=1"
            )
        norms = norms or Norms()
        bounded = problem.knowing(Norms(norms.parameter, norms.arms if self.arms is None else self.arms))
        if self.rewards is not None:
            bounded = bounded.knowing(Range(-self.rewards, self.rewards))
        trained = bounded.get(Trained)
        if trained is not None:
            return bounded.knowing(*training.told(self, bounded, trained))
        planning.check(self, bounded)
        if bounded.get(Questions) is not None:
            bounded = bounded.knowing(answers(self, bounded))
        return bounded.knowing(self.perturbation(bounded))

    def ends(
        self,
        says: tuple[Utterance, ...],
        away: Direction,
        n: int,
        sizes: Mapping[str, int],
        rng: Streams,
        problem: Problem,
    ) -> End:
        """See `Stage`."""
        if training.only_asks(says):
            return Passing() if away == "down" else training.Training(self, says, n, rng, problem, sizes)
        (kind,) = hand_overs(says)
        (utterance,) = (one for one in says if one.kind == kind and one.direction == "up")
        fields = noisy_fields(utterance, "increment", problem, sizes)
        if planning.stages(problem):
            fields = planning.stacked(fields)
        if away == "down":
            return Passing() if is_pooled(utterance) else Repairing(kind, fields, n)
        post = Post(self, says, utterance, fields, n, sizes, rng, problem)
        if planning.stages(problem):
            return planning.Planning(post)
        if asks(says):
            return Answering(post)
        return Framed(post) if self.clip == "learned" else Releasing(post)

    # what follows from the budget

    def sums(self, problem: Problem) -> PrefixSums:
        """The mechanism, for as many uploads as there are."""
        return prefix_sums(self.mechanism, self.turns(problem)[1])

    def turns(self, problem: Problem) -> tuple[IntArray | None, int]:
        """The turns after which an agent uploads, None where the algorithm says when, and how often it may."""
        horizon = problem.horizon
        if self.every is not None:
            regular = planning.whole(np.arange(self.every, horizon + 1, self.every), problem)
            if len(regular) == 0:
                raise ConfigError(f"gaussian: every={self.every} allows no upload within {horizon} turns; lower it")
            turns = regular[: self.uploads]
            return turns, len(turns)
        if self.when == "algorithm":
            if self.uploads is None:
                raise ConfigError(
                    "gaussian: how often the algorithm asks is not known beforehand; say how often an agent may "
                    "upload, as in gaussian:uploads=32"
                )
            return None, self.uploads
        uploads = _FEW if self.uploads is None else self.uploads
        last = max(1.0, self.last * horizon)
        first = min(float(self.first), max(1.0, last / uploads))
        turns = planning.whole(np.round(np.geomspace(first, last, uploads)).astype(np.int64), problem)
        return turns, len(turns)

    def weight(self, fields: tuple[NoisyField, ...]) -> float:
        """By how much one unit moves one upload, in units of the noise's standard deviation."""
        if self.unit == "agent":  # of two uploads that are cut down, one may be the other's opposite
            return self.heaviest(fields) * (2.0 if self.adjacency == "replace" else 1.0)
        one = one_observation(fields, self.adjacency)
        if self.unit == "episode":  # of the stages' matrices each moves, and squares add up
            return one * math.sqrt(fields[0].stack)
        return one if self.unit == "observation" else self.most * one

    def heaviest(self, fields: tuple[NoisyField, ...]) -> float:
        """What an upload is cut down to where agents are protected: the weight of `most` observations."""
        return self.most * one_observation(fields, "add-remove")

    def sensitivities(self, problem: Problem, fields: tuple[NoisyField, ...]) -> FloatArray:
        """(m,) by how much one unit moves the first k releases, in those units: what mu is over sigma."""
        sums = self.sums(problem)
        reach = sums.joint_sensitivities if self.unit == "agent" else sums.sensitivities
        return np.asarray(self.weight(fields) * reach)

    def noise(self, problem: Problem, fields: tuple[NoisyField, ...] | None = None) -> float:
        """sigma: the standard deviation of the z that the mechanism is made of, in units of one observation's bound."""
        pair = _handed_over(problem) if fields is None else fields
        needed = float(self.sensitivities(problem, pair)[-1]) / budget(self, problem)[0]
        if self.constants == "exact":
            return needed
        squared = longest(problem) ** 2
        size = (squared + _size(problem) ** 2) / squared
        # as printed it is too little for epsilon of some hundreds, or delta near 1
        return max(needed, printed_deviation(self.epsilon, self.delta, self.turns(problem)[1]) * size)

    def event(self, problem: Problem, releases: int | None = None) -> DpEvent:
        """The first so many `releases` of an agent, or all of them, as a `dp_accounting` event for any accountant: the
        whole sequence is one Gaussian mechanism. Where agents are asked, all answers come with it. `problem` is as the
        stage poses it. Needs the extra `privacy`.
        """
        if problem.get(Trained) is not None:
            return training.event(self, problem)
        reach = np.concatenate([[0.0], self.sensitivities(problem, _handed_over(problem))])
        found = gaussian_event(float(reach[-1 if releases is None else releases]) / self.noise(problem))
        return found if problem.get(Questions) is None else with_answers(self, problem, found)

    def protection(
        self, made: IntArray, allowed: int, spent: FloatArray, sensitivity: float, *, leaks: bool
    ) -> Protection:
        """What agents that have `made` (n,) releases, of `allowed`, have `spent` (n,); `leaks`: whether the moments of
        releases depend on data.
        """
        nothing = np.where(made > 0, np.inf, 0.0)
        return Protection(
            unit=self.unit,
            adjacency=self.adjacency,
            definition="transcript" if self.own == "released" else "fixed histories",
            epsilon=self.epsilon,
            delta=self.delta,
            mechanism=self.mechanism,
            releases=made.copy(),
            allowed=allowed,
            spent=nothing if leaks else spent,
            strictly=nothing if leaks or self.own != "released" else spent,
            sensitivity=sensitivity,
        )

    def perturbation(self, problem: Problem) -> Perturbation:
        """What is told of the noise in sums over everybody."""
        sums, reach, n = self.sums(problem), longest(problem), problem.agents
        others = n - 1 if self.own == "fused" and n > 1 else n
        deviation = self.noise(problem) * math.sqrt(others * float(sums.variances.max()))
        printed = 0.0
        if self.constants == "thesis":
            size = reach**2 + _size(problem) ** 2
            printed = printed_spectrum(self.epsilon, self.delta, sums.uploads) * size
        told = problem.get(Answers)
        return Perturbation(
            matrix=deviation * reach**2,
            vector=deviation * reach * _size(problem) if told is None else told.slope,
            agents=others,
            releases=sums.uploads,
            printed=printed,
        )

    def _check_itself(self) -> None:
        try:
            gaussian_mu(self.epsilon, self.delta)
        except ValueError as error:
            raise ConfigError(f"gaussian: {error}; raise epsilon or delta") from None
        if self.when == "algorithm" and self.every is not None:
            raise ConfigError(
                f"gaussian: every={self.every} and when='algorithm' both say when agents upload; leave one of them out"
            )
        if self.constants == "thesis" and (self.mechanism != "tree" or self.unit != "observation"):
            raise ConfigError(
                "gaussian: the thesis' constants are for its tree and for single observations; say mechanism=tree and "
                "unit=observation, or leave constants='thesis' out"
            )

    def _declared(self, utterance: Utterance) -> Utterance:
        """Noisy sums are no longer semidefinite, and bounded by what noise may add."""
        fields = []
        for item in utterance.fields:
            if item.adds is not None and not item.counts:
                noisy = utterance.direction == "up" and item.bound is not None
                bound = Bound(_Loosened(self, item), per_observation=False) if noisy else None
                fields.append(replace(item, semidefinite=False, bound=bound))
            else:
                fields.append(item)
        return replace(utterance, fields=tuple(fields))

    def _guarantee(self, about: About) -> str:
        if self.leaky and self.when == "algorithm":
            return "no privacy is claimed: when agents call may depend on data"
        what = "the whole transcript" if self.own == "released" else "uploads, for fixed histories,"
        return (
            f"{what} ({self.epsilon:g}, {self.delta:g})-differentially private in one {self.unit} ({self.adjacency}); "
            f"of regret, none proved. Without noise: {about.guarantee}"
        )


_PAIR = (NoisyField("gram", (1, 1), True, 1.0), NoisyField("moment", (1,), False, 1.0))
"""What most algorithms send: a matrix, and a vector within it."""


def _handed_over(problem: Problem) -> tuple[NoisyField, ...]:
    """What is handed over: a matrix, and, unless it is asked for, a vector within it; or a matrix for every stage."""
    if planning.stages(problem):
        return (NoisyField("gram", (planning.stages(problem), 1, 1), True, 1.0),)
    return _PAIR if problem.get(Questions) is None else _PAIR[:1]


@dataclass(frozen=True)
class _Loosened:
    """What a noisy field keeps to: that of the clean one, and what noise may add to it in all."""

    stage: Gaussian
    item: WireField

    def __call__(self, problem: Problem, asked: Mapping[str, Array]) -> float:
        bound = self.item.bound
        assert bound is not None
        clean = bound.limit(problem, asked) * (longest(problem) if bound.within is not None else 1.0)
        trained = problem.get(Trained)
        if trained is not None:
            size = bound.limit(problem, asked) * (trained.cut if bound.within is not None else 1.0)
            return size * (problem.horizon + _BEYOND * training.reach(self.stage, problem, trained, self.item))
        seen = problem.get(Embedding)
        entries = (problem.dim if seen is None else seen.dim) ** min(len(self.item.shape), 2)
        if len(self.item.shape) > 2:
            entries *= planning.stages(problem)
        # what was told of the noise when the budget was set: whoever asks may have more observations in mind
        told = problem.get(Perturbation) or self.stage.perturbation(problem)
        spread = math.sqrt(2 / told.agents) * told.matrix / longest(problem) ** 2
        if self.item.adds == "query":
            spread = of_one_answer(self.stage, problem)
        beyond = _BEYOND * (_STRETCHED if self.stage.clip == "learned" else 1.0)
        return clean * (problem.horizon + beyond * spread * math.sqrt(entries))


def _size(problem: Problem) -> float:
    known = problem.get(Range)
    return 1.0 if known is None else known.largest


def _check_sums(name: str, utterance: Utterance) -> None:
    """Raise unless everything in an utterance of agents is a sum whose sensitivity is known, or counts turns."""
    for item in utterance.fields:
        if item.counts or (item.dtype == "f8" and (is_summed(item, "increment") or is_summed(item, "query"))):
            continue
        if item.dtype != "f8" and item.adds in ("increment", "query"):
            raise ConfigError(
                f"gaussian: {item.name!r} of {name} is rounded before there is noise, so that one observation moves it "
                "by more than it is made for; noise comes first, and costs nothing to round: as in "
                "dislinucb|gaussian|quantise"
            )
        if item.adds == "total":
            raise ConfigError(
                f"gaussian: {item.name!r} of {name} is a total, told anew each time; noise serves sums that are handed "
                "over once, or asked for so many times. Use dislinucb, fedlinucb-async or async-linucb, or have "
                "networks cut down what they send: neural-linear:cut=2"
            )
        raise ConfigError(
            f"gaussian: {item.name!r} of {name} is no sum to which every observation adds a known amount, so that "
            "nobody can say how much noise it needs; use dislinucb, fedlinucb-async or async-linucb"
        )
