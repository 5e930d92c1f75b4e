"""Groups of similar cases: the centre of each, and how often the most frequent class occurs in it.

scikit-learn is imported when first used; see `text`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from threadpoolctl import threadpool_limits

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.extras import require
from fedbandits.data.tables import Table


@lru_cache(maxsize=16)
def centroids(table: Table, groups: int, starts: int) -> tuple[FloatArray, FloatArray]:
    """(groups, d) centres of the cases of `table`, and (groups,) the share that the most frequent class has in each.

    Columns are scaled to mean 0 and variance 1, and rows grouped by k-means, the best of so many `starts`; then each
    column of the centres is mapped onto [0, 1].
    """
    require("data", "sklearn")
    from sklearn.cluster import KMeans

    if groups > len(table.features):
        raise ConfigError(f"arms: {len(table.features)} cases cannot be divided into {groups} groups; take fewer")
    spread = table.features.std(axis=0)
    scaled = (table.features - table.features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    with threadpool_limits(limits=1):  # the order of sums must not depend on the number of cores
        found = KMeans(groups, n_init=starts, random_state=0).fit(scaled)
    low, extent = found.cluster_centers_.min(axis=0), np.ptp(found.cluster_centers_, axis=0)
    centres = (found.cluster_centers_ - low) / np.where(extent > 0, extent, 1.0)
    frequent = table.classes == np.bincount(table.classes).argmax()
    members = np.bincount(found.labels_, minlength=groups)
    return centres, np.bincount(found.labels_, weights=frequent, minlength=groups) / np.maximum(members, 1)
