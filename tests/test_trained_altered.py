"""Networks with something taken from them differ from the trained one where they should, and only there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoints as tiny
from numpy.typing import NDArray
from tolerances import SINGLE

from attnflow.trained import Model, load
from attnflow.trained.altered import INITIAL, altered, arrays, fresh, rebuilt, shuffled


@pytest.fixture(params=["bert", "albert", "gpt2"])
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    return load(tiny.write(tmp_path, str(request.param)))


def hidden(model: Model) -> NDArray[Any]:
    return model.forward(tiny.IDS).hidden


def changed(one: Model, other: Model) -> set[str]:
    """The arrays in which two networks differ."""
    return {name for name in one.weights if (one.weights[name] != other.weights[name]).any()}


def test_every_matrix_of_a_block_belongs_to_a_part(small: Model) -> None:
    """All that a block reads but its normalisations, which are one-dimensional and no biases."""
    parts = small.layout.parts
    named = set(arrays(small, parts.attention)) | set(arrays(small, parts.perceptron))
    inside = {name for name in small.weights if "layer" in name or ".h." in name}
    norms = {name for name in inside if "norm" in name.lower() or ".ln_" in name}
    assert named == inside - norms
    assert set(arrays(small, parts.writers)) < named
    assert not set(parts.attention) & set(parts.perceptron)


def test_a_network_as_trained_is_the_same_network(small: Model) -> None:
    np.testing.assert_array_equal(hidden(altered(small)), hidden(small))
    np.testing.assert_array_equal(hidden(rebuilt(small, lambda name, a: a)), hidden(small))


def test_silent_attention_lets_every_token_run_alone(small: Model) -> None:
    alone = altered(small, attention="silent")
    assert changed(small, alone) == set(arrays(small, small.layout.parts.writers)) & set(
        arrays(small, small.layout.parts.attention)
    )
    ids = list(tiny.IDS)
    other = [*ids[:-1], (ids[-1] + 1) % 50]
    one, two = (alone.forward(x).hidden[:, :-1] for x in (ids, other))
    assert np.abs(one - two).max() <= 100 * SINGLE
    if not small.causal:
        assert np.abs(hidden(small) - small.forward(other).hidden)[:, :-1].max() > 1e-3


def test_a_silent_perceptron_adds_nothing(small: Model) -> None:
    quiet = altered(small, perceptron="silent")
    x = hidden(quiet)[0]
    assert not quiet._perceptron(quiet._block(0), x).any()
    assert small._perceptron(small._block(0), x).any()
    assert (quiet._block(0).out == small._block(0).out).all()


def test_silent_twice_leaves_normalisation_alone(small: Model) -> None:
    still = altered(small, attention="silent", perceptron="silent")
    states = hidden(still)
    if small.architecture.normalises_first:
        np.testing.assert_array_equal(states[-1], states[0])
    assert np.isfinite(states).all()


def test_shuffling_keeps_the_entries_and_loses_their_order(small: Model) -> None:
    other = shuffled(small, np.random.default_rng(0))
    parts = small.layout.parts
    assert changed(small, other) == {
        *arrays(small, parts.attention),
        *arrays(small, parts.perceptron),
    }
    for name in changed(small, other):
        ours, theirs = small.weights[name], other.weights[name]
        assert ours.shape == theirs.shape
        np.testing.assert_array_equal(np.sort(ours.ravel()), np.sort(theirs.ravel()))
    assert np.abs(hidden(other) - hidden(small))[1:].max() > 0.1


@pytest.mark.parametrize("part", ["attention", "perceptron"])
def test_one_part_is_changed_and_the_other_is_not(small: Model, part: str) -> None:
    rng = np.random.default_rng(1)
    other = altered(small, rng=rng, **{part: "shuffled"})
    assert changed(small, other) == set(arrays(small, getattr(small.layout.parts, part)))


def test_a_seed_names_a_network(small: Model) -> None:
    one, two, three = (shuffled(small, np.random.default_rng(s)) for s in (4, 4, 5))
    np.testing.assert_array_equal(hidden(one), hidden(two))
    assert (hidden(one) != hidden(three)).any()


def test_a_fresh_network_is_what_training_begins_with(small: Model) -> None:
    young = fresh(small, np.random.default_rng(2))
    for name, array in young.weights.items():
        if name.endswith("bias"):
            assert not array.any()
        elif array.ndim == 1:
            assert (array == 1).all()
        else:
            assert abs(array.std() / INITIAL - 1) < 0.2
            assert abs(array.mean()) < 5 * INITIAL / np.sqrt(array.size)
    assert np.isfinite(hidden(young)).all()


def test_a_network_may_be_fresh_up_to_a_depth(small: Model) -> None:
    """Blocks beyond stay as they were, all else is drawn; one block that is repeated is drawn too."""
    young = fresh(small, np.random.default_rng(2), depth=1)
    same = set(small.weights) - changed(small, young)
    block = f"{small.prefix}{small.layout.block.format(1)}"
    later = {name for name in small.weights if name.startswith(block)}
    assert later <= same or small.architecture.recurrent
    matrices = {name for name in small.weights if small.weights[name].ndim > 1}
    assert not matrices & same - later
    with pytest.raises(ValueError, match="depth must be"):
        fresh(small, np.random.default_rng(2), depth=small.depth + 1)


def test_a_changed_network_keeps_precision_name_and_tokenizer(tmp_path: Path) -> None:
    path = tiny.write(tmp_path, "gpt2")
    (path / "vocab.txt").write_text("[PAD]\n[HEAVY]\nA\nR\n", encoding="utf-8")
    small = load(path, dtype="f8")
    other = shuffled(small, np.random.default_rng(0))
    assert other.forward("AR").hidden.dtype == np.float64
    assert (other.name, other.kind) == (small.name, small.kind)
    assert other.encode("[HEAVY]ARA") == [1, 2, 3, 2]


def test_states_that_do_not_exist_are_refused(small: Model) -> None:
    with pytest.raises(ValueError, match="attention must be one of trained, shuffled, silent, got"):
        altered(small, attention="asleep")
    with pytest.raises(
        ValueError, match="perceptron must be one of trained, shuffled, silent, got"
    ):
        altered(small, perceptron="")
    with pytest.raises(ValueError, match="rng must be given where weights are to be shuffled"):
        altered(small, perceptron="shuffled")


@pytest.mark.parametrize("depth", [0, -1])
def test_a_network_fresh_up_to_no_layer_at_all_is_refused(small: Model, depth: int) -> None:
    with pytest.raises(ValueError, match=f"depth must be a whole number >= 1, got {depth}"):
        fresh(small, np.random.default_rng(2), depth=depth)
