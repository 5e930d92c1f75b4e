"""The agents' end of a noise stage for agents who plan: a matrix for every stage of an episode, and targets of each.

An update hands over what is new of sum phi phi^T for all H stages, and asks, stage by stage, for sum phi (r + V) over
all that an agent has done, V being what was just solved for the stage after. V follows from what was released before,
and is cut off, so that |r + V(x')| <= (H - h) R in stage h = 0, ..., H - 1. In the units of the noise, sigma_i L^2 on
matrices and sigma_q L (H - h) R on targets, one transition adds Delta_i to one matrix and Delta_q to the targets of one
stage; Delta_i = 1/sqrt(2), Delta_q = 1 where it is there or not, 1 and 2 where it is another one. With U updates, all
that leaves an agent is one Gaussian mechanism, however questions depend on earlier answers, with

    mu^2 = mu_i^2 + U (Delta_q / sigma_q)^2            for a transition, and
    mu^2 = H mu_i^2 + H U (Delta_q / sigma_q)^2        for an episode,

mu_i being that of the matrices of one stage (`privacy.prefix_sums`): a transition is in one stage, an episode has up to
one in each of them, and all of those are handed over in the same update, once it is finished.

What was pooled is read as `models.noisy_sums` reads it, stage by stage, in units of the largest value that there can
be: targets are as noisy as numbers between 0 and 1 may be, 1/2, and weights, of which each is such a number, have a
norm of at most sqrt(d). Noise grows with the largest value of a stage as well, so that all stages are read alike.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedbandits.channel.answering import Answering
from fedbandits.channel.releasing import Post
from fedbandits.channel.sensitivity import NoisyField
from fedbandits.contract.arrays import BoolArray, FloatArray, IntArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.facts import Perturbation, Questions
from fedbandits.contract.messages import Message
from fedbandits.contract.problem import Problem
from fedbandits.models.limits import longest
from fedbandits.models.noisy_sums import Discounted

if TYPE_CHECKING:
    from fedbandits.channel.gaussian import Gaussian

_SPREAD = 0.5
"""The standard deviation of a target, in units of the largest value: that of a number in [0, 1], at most."""


def stages(problem: Problem) -> int:
    """H, where agents plan; 0 elsewhere."""
    told = problem.get(Questions)
    return told.stages if told is not None and told.wanted == "targets" else 0


def check(stage: Gaussian, problem: Problem) -> None:
    """Raise `ConfigError` where `stage` protects what agents of `problem` do not have."""
    if not stages(problem):
        if stage.unit == "episode":
            raise ConfigError(
                "gaussian: unit='episode' is for agents who plan, such as fedlsvi-rare; use unit='observation'"
            )
        return
    if stage.unit not in ("observation", "episode"):
        raise ConfigError(
            f"gaussian: unit={stage.unit!r} makes nothing of some observations, and what is nothing is the end of an "
            "episode to agents who plan; they can protect an 'observation', which is a transition, or an 'episode'"
        )
    if stage.queries is not None:
        raise ConfigError(
            f"gaussian: agents who plan are asked once for each stage in every update, so that queries="
            f"{stage.queries} have no use; leave them out, and say how many uploads there are"
        )
    if stage.clip == "learned":
        raise ConfigError("gaussian: clip='learned' serves no agents who plan; leave it out")


def whole(turns: IntArray, problem: Problem) -> IntArray:
    """Each of `turns` once; where agents plan, put off to the end of an episode: what is running is not handed over."""
    length = stages(problem)
    if not length:
        return np.unique(turns)
    later = np.unique(-(-turns // length) * length)
    return later[later <= problem.horizon] if (later <= problem.horizon).any() else np.unique(turns)


def stacked(fields: tuple[NoisyField, ...]) -> tuple[NoisyField, ...]:
    """`fields` that hold a matrix for every stage, each of which is symmetric."""
    return tuple(replace(field, symmetric=True) for field in fields)


class Planning(Answering):
    """As `Answering`; `answered` (n, H) counts answers by stage, `part` (n,) says who has a part in the running update,
    and `pool` (n, H, d, d) are the noisy matrices that each agent was told last.

    An agent that may not hand over what is new, or not answer for every stage, has no part in an update: it stands for
    what it said before, so that matrices and targets are over the same transitions.
    """

    keeps: ClassVar[tuple[str, ...]] = (*Answering.keeps, "part", "pool")

    def __init__(self, post: Post) -> None:
        super().__init__(post)
        (field,) = post.fields
        self._length, self._dim = field.shape[0], field.shape[-1]
        told = post.problem.get(Perturbation)
        assert told is not None
        most = post.problem.agents * post.problem.horizon * longest(post.problem) ** 2
        self._reading = Discounted(self._dim, told, _SPREAD, math.sqrt(self._dim), most)
        self.answered = np.zeros((post.n, self._length), dtype=np.int64)
        self.part = np.zeros(post.n, dtype=np.bool_)
        self.pool = np.zeros((post.n, *field.shape))
        self._at = 0
        """The stage that is being asked about."""

    # what they say

    def outgoing(self, message: Message) -> Message:
        """See `Answering`; an update begins with what is handed over."""
        if message.kind == self._kind:
            who = message.who
            nothing_new = self._passing(who) == self.passed[who]
            able = (self.answered[who] < self._allowed).all(axis=1)
            self.part[who] = able & (nothing_new | (self.steps.made[who] < self._allowed))
        return super().outgoing(message)

    def _due(self, who: IntArray) -> BoolArray:
        """See `Answering`: and has answers left for every stage."""
        return np.asarray(super()._due(who) & (self.answered[who] < self._allowed).all(axis=1))

    def _answering(self, who: IntArray) -> BoolArray:
        return np.asarray(self.part[who] & (self.answered[who, self._at] < self._allowed))

    def _answers(self, who: IntArray) -> None:
        self.answered[who, self._at] += 1

    # what they are told

    def incoming(self, message: Message) -> Message:
        """Noisy matrices, and noisy targets, read as statistics."""
        who, arrays = message.who, message.arrays
        if "stage" in arrays:
            self._at = int(arrays["stage"][0])
            self._factor = (self._length - self._at) / self._length
        if "gram" in arrays:
            gram = arrays["gram"]
            shared = len(gram) > 1 and gram.strides[0] == 0
            noisy = gram[:1] if shared else gram
            self.pool[who] = noisy
            read = self._read(noisy.reshape(-1, self._dim, self._dim), None)[0].reshape(noisy.shape)
            return replace(message, arrays={**arrays, "gram": np.broadcast_to(read, gram.shape)})
        if "moment" in arrays:
            moment = self._read(self.pool[who, self._at], arrays["moment"])[1]
            assert moment is not None
            return replace(message, arrays={**arrays, "moment": moment})
        return message

    def _read(self, gram: FloatArray, moment: FloatArray | None) -> tuple[FloatArray, FloatArray | None]:
        assert self._reading is not None
        return self._reading.read(gram, moment)

    # what it costs

    def _given(self) -> IntArray:
        return np.asarray(self.answered.sum(axis=1))

    def _moved(self) -> IntArray:
        one_stage = self._stage.unit != "episode"
        return np.asarray(self.answered.max(axis=1) if one_stage else self.answered.sum(axis=1))
