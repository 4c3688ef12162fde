"""Learns the values of URLs from the pages that were fetched.

It uses stochastic gradient descent (scikit-learn's SGDRegressor), a batch of pages at a time, so memory is bounded by
the sample. Pages are in the order of a hash of their URLs, the same in each run.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webcrawl.errors import InvalidURL, StoreError
from webcrawl.mining.libraries import linear_models
from webcrawl.mining.workspace import MiningTables
from webcrawl.policies.learned_value import BITS, ValueModel, bucket, even, features
from webcrawl.urls.canonical import normalize, split

MOST_PAGES = 1_000_000
"""The most pages to learn from; more pages are sampled. Each page takes about 150 bytes."""
LEAST_PAGES = 50
_HELD_OUT = 10
"""One page in this many is left out of the first training, to measure the predictions."""
_PASSES, _STEPS = 8, 5_000
"""The passes over all pages. Few pages get more passes, until the weights have been updated this many times."""
_BATCH = 2_000
_LEAST_VARIANCE = 1e-9
_EXAMPLES = f"""
SELECT url, depth, coalesce(first_links.from_url, referrer, ''), coalesce(text, ''), value, sound
FROM pages LEFT JOIN first_links ON to_url = url WHERE value IS NOT NULL ORDER BY md5(url), url LIMIT {MOST_PAGES}
"""


@dataclass(frozen=True)
class Lesson:
    """The result of training.

    value      the model trained on all pages
    pages      the number of pages
    explained  the share of the variance (R2) that a model explains for pages with content of their own on which it was
               not trained: error pages and copies, which are worth nothing, are easy to tell. None for few pages
    """

    value: ValueModel
    pages: int
    explained: float | None


def learn(workspace: MiningTables, target: str) -> Lesson:
    """Learns from the pages of the workspace; raises StoreError for too few pages or equal values."""
    examples = Examples()
    for batch in workspace.rows(_EXAMPLES):
        for url, depth, source, text, value, is_sound in batch:
            examples.add(url, depth, source, text, value, is_sound=bool(is_sound))
    values, number = np.array(examples.values), len(examples.values)
    if number < LEAST_PAGES:
        raise StoreError(
            f"nothing to learn: {number} pages have a value {target!r}, and {LEAST_PAGES} are needed"
        )
    deviation = values.std()
    if not deviation > 1e-9:
        raise StoreError(f"nothing to learn: {target!r} is the same for all {number} pages")
    scores, matrix = (values - values.mean()) / deviation, examples.matrix()
    held = np.arange(number) % _HELD_OUT == 0
    trial = _fitted(matrix[~held], scores[~held])
    judged = held & np.frombuffer(examples.sound, np.int8).astype(bool)
    explained = _explained(scores[judged], trial.predict(matrix[judged])) if judged.sum() > 1 else None
    model = _fitted(matrix, scores)
    table = array("f", model.coef_.astype("f4").tobytes())
    return Lesson(ValueModel(target, float(model.intercept_[0]), table), number, explained)


def _explained(scores: NDArray[np.float64], predicted: NDArray[np.float64]) -> float | None:
    """Returns the share of the variance of scores that predictions explain; None for equal scores."""
    variance, errors = float(scores.var()), scores - predicted
    return 1 - float((errors**2).mean()) / variance if variance > _LEAST_VARIANCE else None


class Examples:
    """The features of pages as the rows of a sparse matrix, their values, and whether they have own content."""

    def __init__(self) -> None:
        self.values, self.sound = array("d"), array("b")
        self._buckets, self._signs, self._ends = array("i"), array("b"), array("q", [0])

    def add(self, url: str, depth: int, source: str, text: str, value: float, *, is_sound: bool) -> None:
        """Adds a page; leaves out a page without a valid URL, which a database may have."""
        try:
            host, path = split(normalize(url))
            names = features(host, path, depth, normalize(source) if source else "", text)
        except InvalidURL:
            return
        for number, sign in map(bucket, names):
            self._buckets.append(number)
            self._signs.append(sign)
        self._ends.append(len(self._buckets))
        self.values.append(even(value))
        self.sound.append(is_sound)

    def matrix(self) -> Any:
        """Returns the matrix; a feature that occurs twice counts twice, as in `ValueModel.score`."""
        from scipy.sparse import csr_matrix

        signs = np.frombuffer(self._signs, np.int8).astype(np.float64)
        buckets, ends = np.frombuffer(self._buckets, np.int32), np.frombuffer(self._ends, np.int64)
        return csr_matrix((signs, buckets, ends), shape=(len(self.values), 1 << BITS))


def _fitted(matrix: Any, scores: NDArray[np.float64]) -> Any:
    """Returns a regressor that was trained on each row several times."""
    passes = max(_PASSES, _STEPS // len(scores))
    # with about 30 features in a row, a step of 0.01 moves a prediction by a third of its error
    model = linear_models().SGDRegressor(
        alpha=1e-6,
        average=len(scores) * passes // 2,
        eta0=0.01,
        learning_rate="invscaling",
        power_t=0.1,
        random_state=0,
    )
    for _ in range(passes):
        for rows in _batches(len(scores)):
            model.partial_fit(matrix[rows], scores[rows])
    return model


def _batches(number: int) -> Iterator[slice]:
    for start in range(0, number, _BATCH):
        yield slice(start, start + _BATCH)
