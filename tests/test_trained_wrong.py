"""Every ingredient of a trained model matters: without it, parity fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoints as tiny
from tolerances import TRAINED_SINGLE
from trained_models import KINDS, error, reference, single

from attnflow.trained import Model, llama, load
from attnflow.trained import model as transformer

pytestmark = pytest.mark.usefixtures("memory_given_back")

#: A wrong model must be wrong by more than this, far beyond any tolerance of parity.
WRONG = 1e-3


def _without_root_k(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    right = transformer.attention_weights
    monkeypatch.setattr(
        transformer, "attention_weights", lambda q, k, c: right(q * np.sqrt(q.shape[-1]), k, c)
    )


def _without(field: str) -> Callable[[pytest.MonkeyPatch, Model], None]:
    def change(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
        small._blocks[0] = small._block(0)._replace(**{field: None})

    return change


def _types_wrong(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    small.__dict__["_type"] = np.ones(24, np.float32) if small.kind == "gpt2" else None


def _positions_shifted(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    assert small.position_vectors is not None
    small.__dict__["position_vectors"] = np.roll(small.position_vectors, 1, axis=0)


def _mask_inverted(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    right = transformer.attention_weights
    monkeypatch.setattr(
        transformer, "attention_weights", lambda q, k, causal: right(q, k, not causal)
    )


def _larger_eps(monkeypatch: pytest.MonkeyPatch, small: Model) -> None:
    small.architecture = small.architecture._replace(eps=1e-1)


MUTATIONS: dict[str, Callable[[pytest.MonkeyPatch, Model], None]] = {
    "root k": _without_root_k,
    "eps": _larger_eps,
    "types": _types_wrong,
    "positions": _positions_shifted,
    "mask": _mask_inverted,
    "qkv bias": _without("qkv_bias"),
    "out bias": _without("out_bias"),
    "up bias": _without("up_bias"),
    "down bias": _without("down_bias"),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@KINDS
def test_a_wrong_model_fails_parity(
    kind: str, mutation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = load(tiny.write(tmp_path, kind))
    MUTATIONS[mutation](monkeypatch, small)
    assert error(small.forward(tiny.IDS).hidden, reference()[f"tiny-{kind}-hidden"]) > WRONG


@KINDS
def test_the_two_gelus_are_told_apart(kind: str, tmp_path: Path) -> None:
    """They differ by 5e-4 at most; float64 sees it clearly."""
    small = load(tiny.write(tmp_path, kind), dtype="f8")
    other = "gelu_new" if kind == "bert" else "gelu"
    small.architecture = small.architecture._replace(activation=other)
    found = error(small.forward(tiny.IDS).hidden, reference()[f"tiny-{kind}-hidden"])
    assert found > 10 * TRAINED_SINGLE


def _pairs_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "_halves", lambda matrix, size: matrix)


def _turned_back(monkeypatch: pytest.MonkeyPatch) -> None:
    right = transformer.rotate
    monkeypatch.setattr(transformer, "rotate", lambda y, turn: right(y, turn.back))


def _groups_interleaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "repeat", lambda z, times, axis: np.concatenate([z] * times))


@pytest.mark.parametrize("mutate", [_pairs_kept, _turned_back, _groups_interleaved])
def test_wrong_rotations_and_groups_fail_parity(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = reference()["smollm2-hidden"][:3]
    ids = reference()["smollm2-ids"].tolist()
    mutate(monkeypatch)
    single.cache_clear()  # two copies would be too much
    trace = load("smollm2").forward(ids, depth=2)
    assert error(trace.hidden[:, ::5, ::16], expected) > WRONG
