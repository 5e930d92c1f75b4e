"""Rewards that everybody has heard of, arm by arm and letter by letter, each for all whom it reaches.

Where hundreds of letters reach every agent in every round, taking them in for one agent after the other takes most of
the time: an addition has to wait for the one before. So each reward is added to the sums of all whom it reaches
(`Post.reached`) before the next one is, and no addition waits for another; for every agent and arm these are the
same additions in the same order, hence the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedbandits.algorithms.armed.estimators.compiled import Known, lightest, put_sum, sum_at, take_in, weigh
from fedbandits.contract.arrays import FloatArray, IntArray
from fedbandits.contract.post import Post
from fedbandits.linalg.jit import jit_inside


class ByArm(NamedTuple):
    """The letters of one round in the order of arms, and within an arm as everybody takes them in, the newest first."""

    starts: IntArray
    """(K + 1,) those of arm k are from `starts[k]` to `starts[k + 1]`."""
    rows: IntArray
    """Whom they reach: rows of `Post.reached_from`."""
    rewards: FloatArray
    weights: FloatArray
    heaviest: FloatArray
    """(K,) the largest weight of each arm."""


@jit_inside
def add_up(known: Known, arms: int, post: Post, newest: int) -> None:
    """All agents take in the rewards in all letters of `post`, which begin with the arm and the reward and end with its
    weight.

    The letters of one arm, that with most of them, are not counted: they are those that are of no other.
    """
    letters = _sorted(known, arms, post, newest)
    uncounted = _most_spoken_of(known, letters, post)
    rest = post.starts[1:] - post.starts[:-1]
    totals, samples = np.empty(len(rest)), np.empty(len(rest), dtype=np.int64)
    for k in range(arms):
        if k == uncounted:
            continue
        if _all_light(known, k, letters, len(rest)):
            samples[:] = 0
            _begin(known, k, totals)
            for e in range(letters.starts[k], letters.starts[k + 1]):
                _add_counting(post, letters.rows[e], letters.rewards[e], totals, samples)
            _end(known, k, totals, samples)
            rest -= samples
        else:
            for e in range(letters.starts[k], letters.starts[k + 1]):
                _take_in(known, k, post, letters.rows[e], letters.rewards[e], letters.weights[e], rest)
    if uncounted >= 0:
        _begin(known, uncounted, totals)
        for e in range(letters.starts[uncounted], letters.starts[uncounted + 1]):
            _add(post, letters.rows[e], letters.rewards[e], totals)
        _end(known, uncounted, totals, rest)


@jit_inside
def _sorted(known: Known, arms: int, post: Post, newest: int) -> ByArm:
    n, rows = len(post.starts) - 1, len(post.born)
    last = post.said.shape[1] - 1
    starts = np.zeros(arms + 1, dtype=np.int64)
    for r in range(rows):
        starts[int(post.said[r, 0]) + 1] += 1
    for k in range(arms):
        starts[k + 1] += starts[k]
    places, heaviest = starts.copy(), np.zeros(arms)
    order, rewards, weights = np.empty(rows, dtype=np.int64), np.empty(rows), np.empty(rows)
    for age in range(rows // n):
        begin = newest - age * n
        begin = begin + rows if begin < 0 else begin
        for u in range(n):
            k, reward, weight = int(post.said[begin + u, 0]), post.said[begin + u, 1], post.said[begin + u, last]
            if np.isnan(weight):  # said before there was a post: nobody has weighed it
                weight = weigh(known, reward)
            order[places[k]], rewards[places[k]], weights[places[k]] = age * n + u, reward, weight
            heaviest[k] = max(heaviest[k], weight)
            places[k] += 1
    return ByArm(starts, order, rewards, weights, heaviest)


@jit_inside
def _most_spoken_of(known: Known, letters: ByArm, post: Post) -> int:
    """Of the arms whose letters are all light; -1 where there is none."""
    found, most = -1, 0
    for k in range(len(letters.heaviest)):
        size = letters.starts[k + 1] - letters.starts[k]
        if size > most and _all_light(known, k, letters, len(post.starts) - 1):
            found, most = k, size
    return found


@jit_inside
def _all_light(known: Known, k: int, letters: ByArm, n: int) -> bool:
    light = True
    for i in range(n):
        light &= letters.heaviest[k] <= lightest(known, i, k)
    return light


@jit_inside
def _begin(known: Known, k: int, totals: FloatArray) -> None:
    for i in range(len(totals)):
        totals[i] = sum_at(known, i, k)


@jit_inside
def _end(known: Known, k: int, totals: FloatArray, samples: IntArray) -> None:
    for i in range(len(totals)):
        put_sum(known, i, k, totals[i], samples[i])


@jit_inside
def _add(post: Post, row: int, reward: float, totals: FloatArray) -> None:
    for r in range(post.reached_from[row], post.reached_from[row + 1]):
        totals[np.uint64(post.reached[np.uint64(r)])] += reward


@jit_inside
def _add_counting(post: Post, row: int, reward: float, totals: FloatArray, samples: IntArray) -> None:
    for r in range(post.reached_from[row], post.reached_from[row + 1]):
        i = np.uint64(post.reached[np.uint64(r)])
        totals[i] += reward
        samples[i] += 1


@jit_inside
def _take_in(known: Known, k: int, post: Post, row: int, reward: float, weight: float, rest: IntArray) -> None:
    for r in range(post.reached_from[row], post.reached_from[row + 1]):
        i = np.uint64(post.reached[np.uint64(r)])
        take_in(known, i, np.uint64(k), reward, weight)
        rest[i] -= 1
