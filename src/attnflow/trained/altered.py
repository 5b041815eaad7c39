"""Trained networks with something taken from them: what is due to training shows by what is left.

Weights are shuffled, which keeps their size and loses what they learnt; or drawn as before
training; or a part is silenced, so that tokens pass it unchanged. All arrays stay where they were,
so that a changed network is a :class:`attnflow.trained.Model` like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from attnflow import validate
from attnflow.trained.model import Model
from attnflow.trained.weights import Tensor, Weights

Change = Callable[[str, NDArray[np.float32]], NDArray[np.float32]]

#: What may become of attention and of the perceptron.
STATES = ("trained", "shuffled", "silent")
#: The standard deviation of the weights of BERT and ALBERT before training.
INITIAL = 0.02
#: So many weights are drawn at a time: the doubles of a whole table of words would take 200 MB.
DRAWN = 2**20


def rebuilt(model: Model, change: Change, names: Iterable[str] | None = None) -> Model:
    """The network with the named arrays, all unless told, replaced by change(name, array)."""
    chosen = model.weights if names is None else names
    return _with(model, {name: change(name, model.weights[name]) for name in chosen})


def _with(model: Model, arrays: Mapping[str, NDArray[np.float32]]) -> Model:
    """The network with these arrays in place of its own."""
    new = {name: Tensor(array.shape, partial(np.asarray, array)) for name, array in arrays.items()}
    weights = Weights(model.weights.path, {**model.weights.tensors, **new}, model.weights.metadata)
    return Model(model.name, model.architecture, weights, model.encode, model.dtype)


def altered(
    model: Model,
    *,
    attention: str = "trained",
    perceptron: str = "trained",
    rng: np.random.Generator | None = None,
) -> Model:
    """The network with its attention, its perceptron or both shuffled or silent.

    Shuffled: the entries of every array in random order. Silent: the matrix and the bias that add to
    the tokens are zero. Normalisations and embeddings stay as they are.
    """
    wanted = {
        "attention": validate.choice(attention, "attention", STATES),
        "perceptron": validate.choice(perceptron, "perceptron", STATES),
    }
    if "shuffled" in wanted.values() and rng is None:
        raise ValueError("rng must be given where weights are to be shuffled, got None")
    parts = model.layout.parts
    state = {name: wanted[part] for part in wanted for name in arrays(model, getattr(parts, part))}
    writers = set(arrays(model, parts.writers))

    def change(name: str, array: NDArray[np.float32]) -> NDArray[np.float32]:
        if state[name] == "silent":
            return np.zeros_like(array) if name in writers else array
        assert rng is not None
        return rng.permutation(array.ravel()).reshape(array.shape)

    # in the order of the file, so that a seed names a network whatever the order of the parts
    changed = [name for name in model.weights if state.get(name, "trained") != "trained"]
    return rebuilt(model, change, changed)


def shuffled(model: Model, rng: np.random.Generator) -> Model:
    """The network with every array of attention and perceptron in random order."""
    return altered(model, attention="shuffled", perceptron="shuffled", rng=rng)


def fresh(model: Model, rng: np.random.Generator, depth: int | None = None) -> Model:
    """As BERT and ALBERT begin: normal weights of deviation 0.02, biases 0, normalisations 1.

    After :cite:t:`devlin2019` and :cite:t:`lan2020`; GPT-2 begins with the same deviation. Blocks from `depth`
    on stay as they are: who reads no further need not draw them.
    """
    last = model.depth if depth is None else validate.count(depth, "depth", 1, model.depth)
    kept = {
        name
        for index in range(last, _blocks(model))
        for name in model.weights
        if name.startswith(f"{model.prefix}{model.layout.block.format(index)}")
    }

    def start(name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        if name.endswith(("bias", "beta")):
            return np.zeros(shape, np.float32)
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        out = np.empty(shape, np.float32)
        for part in np.array_split(out.reshape(-1), -(-out.size // DRAWN)):
            part[:] = rng.normal(0, INITIAL, part.size)
        return out

    drawn = [name for name in model.weights if name not in kept]
    return _with(model, {name: start(name, model.weights.shape(name)) for name in drawn})


def masked(model: Model) -> Model:
    """An encoder as a decoder: the same weights, and no token sees those after it.

    As :cite:t:`castin2024` do with BERT.
    """
    architecture = model.architecture._replace(causal=True)
    return Model(model.name, architecture, model.weights, model.encode, model.dtype)


def arrays(model: Model, parts: Iterable[str]) -> list[str]:
    """The full names of these parts in every block, as far as the model has them."""
    blocks = range(_blocks(model))
    found = [
        f"{model.prefix}{model.layout.block.format(index)}{part}.{ending}"
        for index in blocks
        for part in parts
        for ending in ("weight", "bias")
    ]
    return [name for name in found if name in model.weights]


def _blocks(model: Model) -> int:
    """How many blocks have weights of their own."""
    return 1 if model.architecture.recurrent else model.depth
