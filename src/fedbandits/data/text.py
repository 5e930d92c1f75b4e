"""Items as vectors: counts of words or of users, weighted by TF-IDF, reduced by a truncated SVD, scaled.

scikit-learn is imported when first used: it comes with the extra `data`, and takes longer to load than the package.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from fedbandits.contract.arrays import FloatArray
from fedbandits.contract.errors import ConfigError
from fedbandits.contract.extras import require


def count_words(documents: Sequence[str], *, min_df: int = 1) -> sparse.csr_matrix:
    """(documents, words) how often each word occurs, without English stop words and words in fewer than `min_df`."""
    require("data", "sklearn")
    from sklearn.feature_extraction.text import CountVectorizer

    try:
        return sparse.csr_matrix(CountVectorizer(stop_words="english", min_df=min_df).fit_transform(documents))
    except ValueError as error:
        raise ConfigError(f"the items' texts give no features: {error}") from error


def embed(counts: sparse.csr_matrix, dim: int, *, standardise: bool, normalise: bool) -> FloatArray:
    """(rows, dim) features of the rows of `counts` (rows, terms).

    TF-IDF with smoothed idf and unit rows, then the `dim` leading directions of its (uncentred) singular value
    decomposition; then, if asked for, every column to mean 0 and variance 1, and then every row to norm 1.
    """
    require("data", "sklearn")
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    items, terms = counts.shape
    if dim >= min(items, terms):
        raise ConfigError(f"dim: must be below {min(items, terms)} with {items} items and {terms} terms (got {dim})")
    weighted = TfidfTransformer().fit_transform(counts)
    # sums that are shared among threads are rounded in another order: features would depend on the number of cores
    with threadpool_limits(limits=1, user_api="blas"):
        features = np.asarray(TruncatedSVD(dim, algorithm="arpack", random_state=0).fit_transform(weighted))
    if standardise:
        features = _divide(features - features.mean(axis=0), features.std(axis=0))
    if normalise:
        features = _divide(features, np.linalg.norm(features, axis=1, keepdims=True))
    return features


def _divide(values: FloatArray, by: FloatArray) -> FloatArray:
    """`values / by`, and 0 where a column or row has no extent."""
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)
