r"""The product :math:`JJ^\top` of a layer's Jacobian, as the iterations of Lanczos ask for it.

A change of the tokens enters through the rows of all Q, K and V, and the answers lie in the span of the
columns of all W: the product is formed between these. Small heads are multiplied in stacks, because
apart each of them costs more to call than to compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from attnflow.lipschitz.jacobian import Linearised, Part
from attnflow.validate import Array

#: Heads are multiplied together while their attention matrices have no more entries than this, in all.
TOGETHER = 2**17
STACKED = ("q", "k", "v", "P", "mean")
#: Columns of a head's own arrays, and where among those of all heads they stand.
Places = list[tuple[slice, slice]]


class Square:
    """J J^T, acting on answers in a basis of the columns of all W."""

    def __init__(self, J: Linearised, free: Array | None, *, single: bool) -> None:
        parts = [p.single() for p in J.parts] if single else J.parts
        self.M, columns = _rows([p.M for p in parts], [len(p.W.T) for p in J.parts])
        self.free = None if free is None else free.astype(self.M.dtype)
        W = np.hstack([p.W for p in J.parts])
        self.basis = np.linalg.qr(W)[0] if W.shape[1] < J.D else np.eye(J.D)
        self.W = _unless_one((self.basis.T @ W).astype(self.M.dtype))
        self.shape = (J.n, self.basis.shape[1])
        self.gram = self.M @ self.M.T if len(self.M) < J.d else None
        self.crews = list(_crews(parts, columns))

    def __call__(self, u: Array) -> Array:
        z = np.zeros((len(u), len(self.M)), self.M.dtype)
        u = u if self.W is None else u @ self.W
        for crew in self.crews:
            crew.pull(u, z)
        if self.free is not None:
            z *= self.free
        z = z @ self.M @ self.M.T if self.gram is None else z @ self.gram
        y = np.empty_like(u)
        for crew in self.crews:
            crew.push(z, y)
        return y if self.W is None else y @ self.W.T


class _Crew(NamedTuple):
    """Heads of one shape, whose products are formed together: many small ones cost more apart."""

    part: Part  # a stack of them
    columns: list[Places]  # of every head: which of its rows of M stand where
    answer: slice  # their columns among the answers of all heads

    def pull(self, u: Array, z: Array) -> None:
        """Add to z, (n, rows of M), what the heads make of their columns of u."""
        p = self.part.v.shape[-1]
        values = u[:, self.answer].reshape(len(u), -1, p).swapaxes(0, 1)
        for change, own in zip(self.part.pull(values), self.columns, strict=True):
            for here, there in own:
                z[:, there] += change[:, here]

    def push(self, z: Array, y: Array) -> None:
        """Write into their columns of y what the heads answer to z."""
        rows = 2 * self.part.q.shape[-1] + self.part.v.shape[-1]
        changes = np.empty((len(self.columns), len(z), rows), z.dtype)
        for change, own in zip(changes, self.columns, strict=True):
            for here, there in own:
                change[:, here] = z[:, there]
        answers = self.part.push(changes)
        y[:, self.answer] = answers.swapaxes(0, 1).reshape(len(z), -1)


def _crews(parts: list[Part], columns: list[Places]) -> Iterator[_Crew]:
    """Heads that follow each other and have one shape, as many as are small enough together."""
    first = start = 0
    while first < len(parts):
        one = parts[first]
        most = max(1, TOGETHER // one.P.size)
        last = first + 1
        while last < min(len(parts), first + most) and _alike(one, parts[last]):
            last += 1
        stop = start + (last - first) * one.v.shape[-1]
        yield _Crew(_together(parts[first:last]), columns[first:last], slice(start, stop))
        first, start = last, stop


def _alike(a: Part, b: Part) -> bool:
    """Whether two heads have arrays of the same shapes, the same mask and the same rotation."""
    if a.causal != b.causal or (a.turn is None) != (b.turn is None):
        return False
    same = all(getattr(a, f).shape == getattr(b, f).shape for f in STACKED)
    return same and (a.turn is None or all(map(np.array_equal, a.turn, b.turn or ())))


def _together(parts: list[Part]) -> Part:
    """The same heads as one, with an axis more in front."""
    first, *others = parts
    fields: dict[str, Any] = {
        f: np.stack([getattr(p, f) for p in parts]) if others else getattr(first, f)[None]
        for f in STACKED
    }
    return first._replace(**fields)


def _rows(matrices: list[Array], values: list[int]) -> tuple[Array, list[Places]]:
    """The rows of Q, K and V of all heads, and for every head which of its own stand where.

    Heads of a group have the same keys and values: these stand there once.
    """
    known: dict[bytes, slice] = {}
    rows: list[Array] = []
    columns: list[Places] = []
    for M, p in zip(matrices, values, strict=True):
        k, own = (len(M) - p) // 2, []
        for here in (slice(k), slice(k, 2 * k), slice(2 * k, len(M))):
            block = M[here]
            start = sum(map(len, rows))
            there = known.setdefault(block.tobytes(), slice(start, start + len(block)))
            if there.start == start:
                rows.append(block)
            own.append((here, there))
        columns.append(own)
    return np.vstack(rows), columns


def _unless_one(W: Array) -> Array | None:
    """None for the identity: products with it are left out."""
    return None if np.array_equal(W, np.eye(*W.shape)) else W
