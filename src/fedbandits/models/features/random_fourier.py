"""Random Fourier features: waves of frequencies that are drawn from a stationary kernel's own law.

k(x - y) is the mean of cos(<omega, x - y>) over that law (`Stationary`), and m draws of it are nearly as good (Rahimi &
Recht, NeurIPS 2007):

    phi(x) = m^-1/2 [cos(<omega_i, x>)]_i ++ m^-1/2 [sin(<omega_i, x>)]_i,      ||phi(x)|| = 1.

Inner products are right on average and off by sqrt((1 + k(2(x - y)) - 2 k(x - y)^2) / (2m)) in root mean square, hence
by 1/sqrt(2m) at most: whatever the dimension, which quadrature is not, and for every stationary kernel; where
quadrature can be had, it needs far fewer. Drawn from common randomness, a federation has the same ones without talking.
"""

from __future__ import annotations

import math

import numpy as np

from fedbandits.models.features.waves import WaveFeatures
from fedbandits.models.kernels import Stationary


class RandomFourierFeatures(WaveFeatures):
    """`size` features, half as many waves, of a `kernel`; drawn from `rng`.

    >>> import numpy as np
    >>> from fedbandits.models.kernels import Matern
    >>> features = RandomFourierFeatures(Matern((1.0, 1.0), 0.5), 400, np.random.default_rng(0))
    >>> x, y = features.of(np.zeros(1, dtype=np.int64), np.array([[[0.0, 0.0], [0.6, 0.8]]]))[0]
    >>> round(float(x @ x), 9), round(float(x @ y), 1), round(float(np.exp(-1)), 1)
    (1.0, 0.4, 0.4)
    """

    def __init__(self, kernel: Stationary, size: int, rng: np.random.Generator) -> None:
        if size < 2 or size % 2:
            raise ValueError(f"random features come in pairs of a cosine and a sine: size must be even (got {size})")
        waves = size // 2
        super().__init__(kernel.frequencies(waves, rng), np.full(waves, 1 / math.sqrt(waves)))
