"""What the publication says its algorithm costs: closed forms, valid but loose.

Lemma 3.3 of Dubey (2022), thesis, bounds the composition of the releases of one arm. Two warnings. First, it is a bound
on the released means alone: agents of the printed algorithm act on their clean rewards, and their counts, which
they also send, tell of them (see `PrivateFedUCB`). Second, it is loose. After 1000 pulls of one arm:

    delta  rate  schedule   lemma   Renyi      composed
    0.1    1.1   1          28.2    5.6        4.5
    0.1    1.1   0.1        4.3     0.72       0.46
    0.1    1.4   1          10.0    3.2        2.5
    0.1    1.4   0.1        1.8     0.31       0.17
    1e-5   1.1   1          36.8    11.4       10.7
    1e-5   1.1   0.1        5.0     2.4        2.2
    1e-5   1.1   0.01       0.50    0.46       0.45
    1e-5   1.4   1          14.7    6.8        6.5
    1e-5   1.4   0.1        2.6     1.3        1.2

It is never below the true value, since the schedule is made so that sum_i t_i^(-v/2) <= s sum_n n^(-v/2), and likewise
for the squares. The parameter of the schedule is not the budget, although the publication calls both epsilon.
"""

from __future__ import annotations

import math

from scipy.special import zeta


def published_epsilon(parameter: float, rate: float, delta: float, pulls: int | None = None) -> float:
    """Lemma 3.3: min( s t^(1-v/2) / (1-v/2),  2 s zeta(v) + sqrt(2 s zeta(v) log(1/delta)) ).

    s = `parameter` of the schedule, v = `rate`, t = `pulls` of one arm (None: any number, the second term alone).

    >>> round(published_epsilon(0.1, 1.4, 0.1), 2)
    1.82
    """
    spread = 2 * parameter * float(zeta(rate))
    advanced = spread + math.sqrt(spread * math.log(1 / delta)) if delta > 0 else math.inf
    if pulls is None:
        return advanced
    basic: float = parameter * pulls ** (1 - rate / 2) / (1 - rate / 2)
    return min(basic, advanced)


def published_schedule(epsilon: float, rate: float, delta: float) -> float:
    """The parameter for which the second term of lemma 3.3 is `epsilon`: y^2 / (2 zeta(v)), y^2 + y sqrt(L) = epsilon.

    L = log(1/delta). It may exceed 1, where schedules end.

    >>> round(published_schedule(1.0, 1.4, 0.1), 4)
    0.0397
    """
    spread = math.log(1 / delta)
    root = (math.sqrt(spread + 4 * epsilon) - math.sqrt(spread)) / 2
    return float(root**2 / (2 * zeta(rate)))
