"""Trained models in numpy compute what transformers computes, layer by layer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tiny_checkpoints as tiny
from tolerances import TRAINED_ANGLES, TRAINED_DOUBLE, TRAINED_SINGLE
from trained_models import KINDS, REACTION, alice, error, matrices, model, reference

from attnflow import assets
from attnflow.trained import load

pytestmark = pytest.mark.usefixtures("memory_given_back")


@pytest.mark.parametrize(("dtype", "tol"), [("f4", TRAINED_SINGLE), ("f8", TRAINED_DOUBLE)])
@KINDS
def test_tiny_models_of_every_kind(kind: str, dtype: str, tol: float, tmp_path: Path) -> None:
    small = load(tiny.write(tmp_path, kind), dtype=dtype)
    trace = small.forward(tiny.IDS)
    assert error(trace.hidden, reference()[f"tiny-{kind}-hidden"]) < tol
    found = matrices(trace, tuple(range(small.depth)), 1)
    assert error(found, reference()[f"tiny-{kind}-attention"]) < tol
    assert error(small.logits(trace), reference()[f"tiny-{kind}-logits"]) < tol
    assert trace.hidden.dtype == trace.queries.dtype == small.logits(trace).dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "tol"), [("float32", TRAINED_SINGLE), ("float64", TRAINED_DOUBLE)]
)
@pytest.mark.parametrize(("text", "span", "step"), [("short", (1000, 1160), 1), ("long", (2000, 3300), 25)])  # fmt: skip
def test_minilm(dtype: str, tol: float, text: str, span: tuple[int, int], step: int) -> None:
    trace = model("minilm", dtype).forward(alice()[slice(*span)])
    assert trace.ids.tolist() == reference()[f"minilm-{text}-ids"].tolist()
    assert error(trace.hidden[:, ::step, ::16], reference()[f"minilm-{text}-hidden"]) < tol
    found = matrices(trace, (0, 5), 10 * step)
    assert error(found, reference()[f"minilm-{text}-attention"]) < tol


@pytest.mark.parametrize(
    ("dtype", "tol"), [("float32", TRAINED_SINGLE), ("float64", TRAINED_DOUBLE)]
)
def test_albert(dtype: str, tol: float) -> None:
    albert = model("albert", dtype)
    trace = albert.forward(REACTION)
    assert trace.ids.tolist() == reference()["albert-ids"].tolist()
    assert error(trace.hidden[:, :, ::16], reference()["albert-hidden"]) < tol
    assert error(matrices(trace, (0, 11)), reference()["albert-attention"]) < tol
    assert error(albert.logits(trace)[:, ::37], reference()["albert-logits"]) < tol


# double precision first, while nothing else of this size is in memory
@pytest.mark.parametrize(
    ("dtype", "tol"), [("float64", TRAINED_ANGLES), ("float32", TRAINED_SINGLE)]
)
def test_smollm2(dtype: str, tol: float) -> None:
    smol = model("smollm2", dtype)
    trace = smol.forward(alice()[1000:1240])
    assert trace.ids.tolist() == reference()["smollm2-ids"].tolist()
    assert error(trace.hidden[:, ::5, ::16], reference()["smollm2-hidden"]) < tol
    assert error(matrices(trace, (0, 29)), reference()["smollm2-attention"]) < tol
    assert error(smol.logits(trace)[::5, ::997], reference()["smollm2-logits"]) < tol


#: In a process of its own: beside what other tests left behind, model and scores would be too much.
PERPLEXITY = """
import sys
import numpy as np
from scipy.special import log_softmax
from attnflow.trained import load

smol, chosen = load("smollm2"), []
ids = smol.encode(sys.stdin.read())[:416]
trace = smol.forward(ids)
for start in range(0, 415, 64):
    piece = trace._replace(hidden=trace.hidden[-1:, start : start + 64])
    after = ids[start + 1 : start + 65]
    scores = log_softmax(smol.logits(piece)[: len(after)].astype(np.float64), axis=1)
    chosen += scores[np.arange(len(after)), after].tolist()
assert len(chosen) == 415
print(np.exp(-np.mean(chosen)))
"""


def test_perplexity_of_smollm2_on_alice() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PERPLEXITY],
        input=alice()[1000:4000], capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    expected = float(reference()["smollm2-perplexity"])
    assert float(done.stdout) == pytest.approx(expected, rel=TRAINED_SINGLE)


def test_albert_fills_in_masked_symbols() -> None:
    albert = model("albert")
    ids = albert.encode(REACTION)
    mask = (assets.fetch("albert") / "vocab.txt").read_text("utf-8").splitlines().index("[MASK]")
    right = 0
    for at in range(1, len(ids) - 1):
        hidden = [*ids[:at], mask, *ids[at + 1 :]]
        right += int(albert.logits(albert.forward(hidden))[at].argmax() == ids[at])
    assert (right, len(ids) - 2) == (53, 54)
