"""Features of items."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from fedbandits.data.text import embed

pytest.importorskip("sklearn", reason="needs fedbandits[data]")


def test_features_do_not_depend_on_the_number_of_threads():
    counts = sparse.random(1500, 1200, density=0.02, random_state=0, format="csr")
    counts.data = np.ceil(9 * counts.data)
    found = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads, user_api="blas"):
            found.append(embed(counts, 25, standardise=True, normalise=True).tobytes())
    assert found[0] == found[1]
