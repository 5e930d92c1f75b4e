"""Two ridge regressions for each agent, of two blocks of its parameter, each on what the other leaves unexplained.

With x = [x_g; x_l] and theta = [theta_g; theta_l], an agent alternates, beginning with an estimate of theta_g, between

    theta_l <- V_l^-1 (sum x_l y - (sum x_l x_g^T) theta_g)        over its own observations,
    theta_g <- V_g^-1 (b_g + sum x_g y - (sum x_g x_l^T) theta_l)  over those it has not handed over,

b_g being what it rests on. Its index of an arm adds both blocks' estimates and both widths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.compiled import calls, choose, learn, stands_for
from fedbandits.linalg import kernels
from fedbandits.linalg.borrowing import borrowed
from fedbandits.linalg.jit import jit, jit_inside, jit_part
from fedbandits.linalg.simd import Address, address, load, store, target
from fedbandits.models.ridge import REFRESH_EVERY, RidgeArrays
from fedbandits.models.triggers import Watch, fires
from fedbandits.models.width import Radius, width_at


class TwoBlocks(NamedTuple):
    """The regressions of n agents, g and l coordinates, and the moments that connect them."""

    common: RidgeArrays
    local: RidgeArrays
    settled: FloatArray
    """(n, g) the moment b_g that the common block rests on."""
    crossed: FloatArray
    """(n, g, l) sum x_g x_l^T over what was not handed over."""
    crossed_all: FloatArray
    """(n, g, l) over all own observations."""
    alternations: int
    spare: FloatArray
    """(2, max(g, l)) room for what is written in between."""


class TwoBlockOptimists(NamedTuple):
    """Agents that act by both blocks, for compiled loops."""

    blocks: TwoBlocks
    widths: tuple[Radius, Radius]
    watch: Watch


@stands_for(choose, TwoBlockOptimists)
@jit_inside
def _choose(agents: TwoBlockOptimists, i: int, arms: FloatArray, row: int, room: FloatArray) -> int:
    common, local = agents.blocks.common, agents.blocks.local
    _, d, count = arms.shape
    g = common.theta.shape[1]
    lanes = address(arms, row * d * count)
    scores = target(room, 6 * d + 4)
    others = target(room, 6 * d + 4 + max(count, 4))
    _score_block(common, agents.widths[0], i, lanes, count, room, scores)
    _score_block(local, agents.widths[1], i, address(lanes, g * count), count, room, others)
    for k in range(count):
        store(scores, k, load(0.0, scores, k) + load(0.0, others, k))
    return kernels.first_best(scores, count)


@jit_part
def _score_block(
    block: RidgeArrays,
    rule: Radius,
    i: int,
    lanes: Address,
    count: int,
    room: FloatArray,
    scores: Address,
) -> None:
    """Indices of one block of the arms."""
    block = borrowed(block)
    d = block.theta.shape[1]
    width = width_at(rule, block.logdet[i], block.settled[i] + block.seen[i])
    inverse, theta = address(block.inverse, i * d * d), address(block.theta, i * d)
    kernels.score_one(inverse, theta, width, lanes, d, count, target(room, 0), scores)


@stands_for(learn, TwoBlockOptimists)
@jit_inside
def _learn(
    agents: TwoBlockOptimists, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    return _learn_one(agents.blocks, i, arms, row, pick, reward, room)


@stands_for(calls, TwoBlockOptimists)
@jit_inside
def _calls(agents: TwoBlockOptimists, i: int) -> bool:
    return fires(agents.watch, agents.blocks.common.seen[i], agents.blocks.common.growth[i])


@jit_part
def _learn_one(
    blocks: TwoBlocks, i: int, arms: FloatArray, row: int, pick: int, reward: float, room: FloatArray
) -> bool:
    """Agent i takes in the arm `pick` of `arms[row]` (d, K) and alternates, from the estimate it had of the common
    block: not from that block's own regression on all of y. Whether it is time to compute inverses anew.
    """
    blocks, arms, room = borrowed(blocks), borrowed(arms), borrowed(room)
    common, local = blocks.common, blocks.local
    _, d, count = arms.shape
    g, left = common.theta.shape[1], local.theta.shape[1]
    x, scratch, before = target(room, 4 * d), target(room, 5 * d), target(room, room.shape[0] - d)
    kernels.gather(address(arms, row * d * count), d, count, pick, x)
    for j in range(g):
        store(before, j, common.theta[i, j])
    worn = _observe(common, i, x, reward, scratch)
    worn |= _observe(local, i, address(x, g), reward, scratch)
    for j in range(g):
        at = (i * g + j) * left
        kernels.axpy(load(0.0, x, j), address(x, g), target(blocks.crossed, at), left)
        kernels.axpy(load(0.0, x, j), address(x, g), target(blocks.crossed_all, at), left)
        common.theta[i, j] = load(0.0, before, j)
    _alternate_one(blocks, i)
    return worn


@jit_part
def _observe(block: RidgeArrays, i: int, x: Address, y: float, scratch: Address) -> bool:
    block = borrowed(block)
    gain = kernels.observe_at(
        block.inverse,
        block.theta,
        block.logdet,
        block.gram,
        block.moment,
        block.seen,
        i,
        x,
        y,
        block.theta.shape[1],
        scratch,
    )
    block.growth[i] += gain
    block.updates[i] += 1
    return bool(block.updates[i] >= REFRESH_EVERY)


@jit_part
def _alternate_one(blocks: TwoBlocks, i: int) -> None:
    """Let agent i alternate, from its present estimate of the common block."""
    blocks = borrowed(blocks)
    common, local = blocks.common, blocks.local
    g, left = common.theta.shape[1], local.theta.shape[1]
    shared, own = target(common.theta, i * g), target(local.theta, i * left)
    explained, rest = target(blocks.spare, 0), target(blocks.spare, blocks.spare.shape[1])
    for _ in range(blocks.alternations):
        kernels.weighted(shared, address(blocks.crossed_all, i * g * left), left, g, left, explained)
        for j in range(left):
            store(rest, j, local.moment[i, j] - load(0.0, explained, j))
        kernels.product(address(local.inverse, i * left * left), rest, left, own)
        for j in range(g):
            told = blocks.settled[i, j] + common.moment[i, j]
            store(rest, j, told - kernels.dot(address(blocks.crossed, (i * g + j) * left), own, left))
        kernels.product(address(common.inverse, i * g * g), rest, g, shared)


@jit
def alternate(blocks: TwoBlocks, who: IntArray) -> None:
    """Let each of `who` alternate, from its present estimate of the common block."""
    kernels.check_who(len(blocks.settled), who)
    for i in who:
        _alternate_one(blocks, i)


@jit
def learn_all(blocks: TwoBlocks, who: IntArray, lanes: FloatArray, picks: IntArray, rewards: FloatArray) -> bool:
    """Let each of `who` take in the arm `picks[a]` of `lanes[a]` (d, K) and alternate; whether it is time to compute
    inverses anew.
    """
    kernels.check_who(len(blocks.settled), who)
    room = np.zeros(kernels.room_for(lanes.shape[1], lanes.shape[2]))
    worn = False
    for a in range(len(who)):
        worn |= _learn_one(blocks, who[a], lanes, a, picks[a], rewards[a], room)
    return worn
