"""The agents' end of a noise stage: it gathers what is new, releases it with noise when it is due, and reads what comes
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.channel.clipping import clipped, limits_of
from fedbandits.channel.field_arrays import FieldArrays
from fedbandits.channel.pace import Pace, unhurried
from fedbandits.channel.sensitivity import NoisyField, is_pooled, scattered
from fedbandits.channel.stage import SPOKEN_FOR, End, Observed
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray, State
from fedbandits.contract.compiled import untouched
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.contract.protection import Protection
from fedbandits.contract.streams import Streams
from fedbandits.contract.wire import Utterance
from fedbandits.models.noisy_sums import reading
from fedbandits.privacy.gaussian import gaussian_epsilon
from fedbandits.privacy.persons import PersonCounts
from fedbandits.privacy.prefix_sums import NoiseSteps

if TYPE_CHECKING:
    from fedbandits.channel.gaussian import Gaussian


@dataclass(frozen=True)
class Post:
    """What an end of a noise stage at the side of n agents is made of: the stage; what is said, and of that the
    `utterance` that hands sums over, with its noisy `fields`; and what `Stage.ends` is given.
    """

    stage: Gaussian
    says: tuple[Utterance, ...]
    utterance: Utterance
    fields: tuple[NoisyField, ...]
    n: int
    sizes: Mapping[str, int]
    rng: Streams
    problem: Problem


class Releasing(End):
    """For n agents: `held`, clean sums that are not yet released; `own`, clean sums handed over by the algorithm so
    far; `sent`, noisy sums that have left; `owed`, what has left and was not taken in, to be sent again as it is, which
    costs nothing; `heard` and `read`, noisy sums that the server told piece by piece, and what was made of them.
    """

    keeps: ClassVar[tuple[str, ...]] = (
        *("held", "own", "sent", "owed", "heard", "read", "steps", "observed", "passed", "owing", "counted"),
        *("persons", "rng"),
    )

    def __init__(self, post: Post) -> None:
        stage, utterance, fields, n, problem = post.stage, post.utterance, post.fields, post.n, post.problem
        self._stage = stage
        self._kind = utterance.kind
        self._fields = fields
        self._counts = next((item.name for item in utterance.fields if item.counts), None)
        self._told = {one.kind: _noisy(one, fields) for one in post.says if one.direction == "down"}
        self._problem = problem
        self._turns, self._allowed = stage.turns(problem)
        self._restless = self._turns is not None and bool((np.diff(self._turns, prepend=0) == 1).all())
        """Whether there is an upload after every turn, so that nothing happens between two of them."""
        self._deviation = stage.noise(problem, fields)
        self._epsilons = self._spending()
        matrix = next((field for field in fields if field.symmetric), None)
        self._matrix = None if matrix is None else matrix.name
        mended = not is_pooled(utterance)
        self._reading = None if matrix is None else reading(problem, matrix.shape[-1], mended=mended)
        self.blind = stage.own == "released"
        self._fused = stage.own == "fused"

        def zeros() -> FieldArrays:
            return FieldArrays({f"{self._kind}-{field.name}": (n, *field.shape) for field in fields})

        self.held, self.own, self.sent, self.owed = zeros(), zeros(), zeros(), zeros()
        self.heard, self.read = zeros(), zeros()
        self.steps = NoiseSteps(stage.sums(problem), n, sum(field.size for field in fields))
        self.observed = np.zeros(n, dtype=np.int64)
        """(n,) turns of each agent so far."""
        self.passed = np.zeros(n, dtype=np.int64)
        """(n,) of the turns after which agents upload, how many had passed at each one's last release."""
        self.owing = np.zeros(n, dtype=np.bool_)
        """(n,) who has something to send again."""
        self.counted = np.zeros((n, 2))
        """(n, 2) turns inside of what is held, and of what is owed."""
        self.persons = PersonCounts(n)
        self._attributed: dict[int, int] = {}
        self.rng = post.rng

    # what agents observe

    def attributed(self, who: IntArray, persons: IntArray) -> None:
        """See `End`."""
        self._attributed.update(zip(who.tolist(), persons.tolist(), strict=True))

    def observing(self, who: IntArray, arms: FloatArray, picks: IntArray, rewards: FloatArray) -> Observed:
        """The observation, cut down to its bounds; as nothing where a person has given enough."""
        admitted = self._admitted(who) if self._stage.unit == "person" else None
        self.observed[who] += 1
        return clipped(self._problem, arms, picks, rewards, admitted)

    def _admitted(self, who: IntArray) -> BoolArray:
        missing = [agent for agent in who.tolist() if agent not in self._attributed]
        if missing:
            raise ConfigError(
                "gaussian: unit='person' needs to be told whom each observation is about; give a person with every "
                "decision, or use unit='observation' or 'agent'"
            )
        persons = np.array([self._attributed.pop(agent) for agent in who.tolist()], dtype=np.int64)
        return self.persons.admit(who, persons, self._stage.most)

    # when they call

    def calling(self, would: BoolArray) -> BoolArray:
        """Who is due, or, where the algorithm says when, would call and may still release something; and who has
        something to send again.
        """
        due = self._due(np.arange(len(self.observed)))
        return (due if self._turns is not None else due & would) | self.owing

    def pace(self, n: int, dim: int) -> Pace | None:
        """See `End`: where it is single observations, or agents, that are protected, and not after every turn."""
        return self._paced(n, dim, self.passed, self.owing) if untouched(self, Releasing, *SPOKEN_FOR) else None

    def _paced(self, n: int, dim: int, place: IntArray, owing: BoolArray) -> Pace | None:
        """With so many scheduled turns done with, and those calling who are `owing`."""
        if self._stage.unit == "person" or self._restless:
            return None
        paced = unhurried(n, dim)._replace(observed=self.observed, limits=limits_of(self._problem), owing=owing)
        if self._turns is None:
            return paced._replace(made=self.steps.made, allowed=self._allowed)
        return paced._replace(scheduled=True, turns=self._turns, place=place)

    def urgency(self, would: FloatArray | None) -> FloatArray | None:
        """How far each agent has come from one upload to the next."""
        if self._turns is None:
            level = None if would is None else np.where(self.steps.made < self._allowed, would, 0.0)
        else:
            ahead = np.append(self._turns, np.iinfo(np.int64).max)[self.passed]
            behind = np.concatenate([[0], self._turns])[self.passed]
            level = np.asarray((self.observed - behind) / (ahead - behind))
        return None if level is None else np.where(self.owing, np.maximum(level, 1.0), level)

    def _due(self, who: IntArray) -> BoolArray:
        """(w,) whose next release may be made now."""
        if self._turns is None:
            return np.asarray(self.steps.made[who] < self._allowed)
        # several turns may have passed since an agent was last reached: they are one release, and not an empty one each
        return np.asarray(self._passing(who) > self.passed[who])

    def _passing(self, who: IntArray) -> IntArray:
        """(w,) how many of the turns after which agents upload have passed."""
        turns = np.zeros(0, dtype=np.int64) if self._turns is None else self._turns
        return np.searchsorted(turns, self.observed[who], side="right")

    # what they say

    def outgoing(self, message: Message) -> Message:
        """What is due, with noise; what is not is kept for later, and sums of nothing are sent in its place."""
        if message.kind != self._kind:
            return message
        who, arrays = message.who, dict(message.arrays)
        due = np.flatnonzero(self._due(who))
        speakers = who[due]
        for field in self._fields:
            for kept in (self.held, self.own):
                self._of(kept, field)[who] += arrays[field.name]
        if self._counts in arrays:
            self.counted[who, 0] += arrays[self._counts]
        fresh = {field.name: self._of(self.held, field)[speakers] for field in self._fields}
        share = self._weighed(fresh)
        noise = self._noise(speakers)
        self.passed[speakers] = self._passing(speakers)
        self.owing[who] = False
        for field in self._fields:
            owed, held = self._of(self.owed, field), self._of(self.held, field)
            released = fresh[field.name] * share.reshape(-1, *[1] * len(field.shape)) + noise[field.name]
            said = owed[who]
            said[due] += released
            owed[who] = 0.0
            held[speakers] = 0.0
            self._of(self.sent, field)[who] += said
            arrays[field.name] = said
        if self._counts in arrays:
            said = self.counted[who, 1]
            said[due] += self.counted[speakers, 0]
            self.counted[who, 1] = 0.0
            self.counted[speakers, 0] = 0.0
            arrays[self._counts] = said
        return replace(message, arrays=arrays)

    def returned(self, message: Message) -> Message | None:
        """Kept, and sent again with the next upload: it is released, and noise is never drawn anew for the same."""
        if message.kind != self._kind:
            return message
        for field in self._fields:
            self._of(self.owed, field)[message.who] += message.arrays[field.name]
            self._of(self.sent, field)[message.who] -= message.arrays[field.name]
        self.owing[message.who] = True
        if self._counts is not None and self._counts in message.arrays:
            self.counted[message.who, 1] += message.arrays[self._counts]
        return None

    def _weighed(self, fresh: Mapping[str, FloatArray]) -> FloatArray:
        """(w,) the share of each upload that is released: all of it, unless agents are protected as a whole."""
        rows = len(next(iter(fresh.values())))
        if self._stage.unit != "agent":
            return np.ones(rows)
        squares = np.sum([field.weight(fresh[field.name]) for field in self._fields], axis=0)
        return np.asarray(np.minimum(1.0, self._stage.heaviest(self._fields) / np.sqrt(np.maximum(squares, 1e-300))))

    def _noise(self, who: IntArray) -> dict[str, FloatArray]:
        """By field (w, ...) the noise of a release, less that of the one before."""
        size = sum(field.size for field in self._fields)
        normals = self._deviation * self.rng.secret.normal(who, size) if len(who) else np.zeros((0, size))
        return scattered(self._fields, self.steps.step(who, normals))

    # what they are told

    def incoming(self, message: Message) -> Message:
        """Noisy sums, read as statistics (`models.noisy_sums`)."""
        told = self._told.get(message.kind, {})
        if self._matrix not in told or self._reading is None:
            return message
        who, arrays = message.who, dict(message.arrays)
        noisy = {name: self._total(who, name, adds, arrays[name]) for name, adds in told.items()}
        vector = next((name for name in told if name != self._matrix), None)
        gram, moment = self._reading.read(noisy[self._matrix], None if vector is None else noisy[vector])
        for name, value in ((self._matrix, gram), (vector, moment)):
            if name is not None and value is not None:
                arrays[name] = self._handed_on(who, name, told[name], value)
        return replace(message, arrays=arrays)

    def _total(self, who: IntArray, name: str, adds: str, value: FloatArray) -> FloatArray:
        """(w, ...) the noisy sum over everybody, or, where own data are used as they are, over everybody else."""
        sent = self.sent.of(self._kind, name)
        assert sent is not None
        if adds == "total":
            return value - sent[who] if self._fused else value
        heard = self.heard.of(self._kind, name)
        assert heard is not None
        heard[who] += value
        # what is told piece by piece leaves out what the agent said itself
        return heard[who] if self._fused else heard[who] + sent[who]

    def _handed_on(self, who: IntArray, name: str, adds: str, value: FloatArray) -> FloatArray:
        own, read = self.own.of(self._kind, name), self.read.of(self._kind, name)
        assert own is not None
        assert read is not None
        if adds == "total":
            return value + own[who] if self._fused else value
        step = value - read[who]
        read[who] = value
        return step

    # what it costs

    def protection(self) -> Protection:
        """See `End`."""
        stage, made = self._stage, self.steps.made
        leaks = stage.leaky and self._turns is None
        return stage.protection(made, self._allowed, self._epsilons[made], stage.weight(self._fields), leaks=leaks)

    def _spending(self) -> FloatArray:
        """(m+1,) epsilon once k releases were made."""
        stage = self._stage
        reach = stage.sensitivities(self._problem, self._fields)
        mus = reach / self._deviation if self._deviation else np.full(len(reach), np.inf)
        return np.array([0.0, *(gaussian_epsilon(float(mu), stage.delta) for mu in mus)])

    def portrait(self) -> State:
        """Releases made, and epsilon spent on them."""
        found = self.protection()
        return {"releases": found.releases, "epsilon": found.spent}

    def _of(self, kept: FieldArrays, field: NoisyField) -> FloatArray:
        found = kept.of(self._kind, field.name)
        assert found is not None
        return found


def _noisy(utterance: Utterance, fields: tuple[NoisyField, ...]) -> dict[str, str]:
    """The fields of what a server tells that are made of noisy sums, and whether they are totals or increments."""
    names = {field.name for field in fields}
    return {
        item.name: item.adds for item in utterance.fields if item.name in names and item.adds in ("total", "increment")
    }
