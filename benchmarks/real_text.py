"""Local constants of all layers of MiniLM and SmolLM2 on Alice, with the sink and without; depth; a sentence.

    python benchmarks/real_text.py        writes src/attnflow/trained/data/real_text.json

Some minutes on one core. The chapter `sinks` shows the result beside smaller runs of its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from attnflow import assets, trained
from attnflow.lipschitz import local_constant
from attnflow.trained.derivative import derivative

LENGTHS = (16, 45, 128)
TARGET = Path(__file__).parents[1] / "src" / "attnflow" / "trained" / "data" / "real_text.json"
SENTENCE = "Alice was beginning to get very tired of sitting by her sister on the bank, and of having nothing to do."


def passages(model: trained.Model, text: str, size: int, count: int, seed: int) -> list[list[int]]:
    """Pieces of a text, with the marks of an encoder around them."""
    ids = model.encode(text)
    frame = 0 if model.causal else 1
    body = ids[frame : len(ids) - frame]
    starts = np.random.default_rng(seed).integers(len(body) - size, size=count)
    return [ids[:frame] + body[s : s + size - 2 * frame] + ids[len(ids) - frame :] for s in starts]


def cut(model: trained.Model, ids: list[int], n: int) -> list[int]:
    return ids[:n] if model.causal else [*ids[: n - 1], ids[-1]]


def constants(model: trained.Model, texts: list[list[int]], without: bool) -> list[Any]:
    """(layers, passages, lengths); `without` the sink: a null key stands in its place."""
    out = np.zeros((model.depth, len(texts), len(LENGTHS)))
    for p, ids in enumerate(tqdm(texts, desc=f"{model.name}, without sink: {without}")):
        for i, n in enumerate(LENGTHS):
            inputs = model.forward(cut(model, ids, n)).inputs
            for layer in range(model.depth):
                x = inputs[layer].copy()
                if without:
                    x[0] = 0
                heads = model.attention_heads(layer, positions=n)
                held = [0] if without else []
                out[layer, p, i] = local_constant(heads, x, 1e-2, dtype=np.float32, held=held).value
    return rounded(out)


def depths(model: trained.Model, texts: list[list[int]], n: int) -> dict[str, Any]:
    """Norms of every layer's derivative, and of the first few layers together."""
    stops = sorted({1, 2, 8, model.depth // 2, model.depth} & set(range(1, model.depth + 1)))
    layers, ends = [], []
    for ids in tqdm(texts, desc=f"{model.name}, depth"):
        trace = model.forward(cut(model, ids, n))
        layers.append([derivative(model, trace, k).norm(1e-2) for k in range(model.depth)])
        ends.append([derivative(model, trace, 0, k).norm(1e-2) for k in stops])
    return {"n": n, "stops": stops, "layers": rounded(layers), "ends": rounded(ends)}


def sentence(gpt: trained.Model, bert: trained.Model) -> dict[str, Any]:
    """How sensitive a layer is to every token of a sentence, who attends to the sink, who has met."""
    from tokenizers import Tokenizer

    half = gpt.depth // 2
    ids = gpt.encode(SENTENCE)
    trace = gpt.forward(ids, depth=half + 1)
    heads = gpt.attention_heads(half, positions=len(ids))
    x = trace.inputs[half]
    alone = [
        local_constant(heads, x, 1e-3, held=[i for i in range(len(ids)) if i != j]).value
        for j in range(len(ids))
    ]
    words = gpt.weights.metadata["tokenizer.ggml.tokens"]
    spoken = [words[i].replace("\u0120", " ") for i in ids]
    marks = bert.encode(SENTENCE)
    met = []
    table = Tokenizer.from_file(str(assets.fetch("minilm") / "tokenizer.json"))
    for tokens in bert.forward(marks).hidden.astype(float):
        u = tokens / np.linalg.norm(tokens, axis=1, keepdims=True)
        met.append(rounded(u @ u.T))
    return {
        "text": SENTENCE,
        "decoder": spoken,
        "alone": rounded(alone),
        "to_sink": rounded(trace.attention(half)[:, :, 0].mean(axis=0)),
        "encoder": [table.id_to_token(i) for i in marks],
        "products": met,
    }


def rounded(values: Any) -> Any:
    """Four digits, as JSON can hold them."""
    return np.vectorize(lambda v: float(f"{v:.4g}"))(np.asarray(values, float)).tolist()


def part(name: str, what: str, count: int, seed: int) -> Any:
    """One of the four tables of a model."""
    text = (assets.fetch("alice") / "carroll-alice.txt").read_text("latin-1")
    model = trained.load(name)
    texts = passages(model, text, LENGTHS[-1], count, seed)
    if what == "depth":
        return depths(model, texts[:1], 24)
    return constants(model, texts, without=what == "sinkless")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--passages", type=int, default=3)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--out", type=Path, default=TARGET)
    given = arguments.parse_args()
    begun = time.time()
    wanted = [
        ("smollm2", "constants"),
        ("smollm2", "sinkless"),
        ("smollm2", "depth"),
        ("minilm", "constants"),
        ("minilm", "depth"),
    ]
    with ProcessPoolExecutor(given.workers) as pool:
        tables = [pool.submit(part, *job, given.passages, given.seed) for job in wanted]
        found: dict[str, Any] = {"lengths": list(LENGTHS), "minilm": {}, "smollm2": {}}
        for (name, what), table in zip(wanted, tables, strict=True):
            found[name][what] = table.result()
    found["sentence"] = sentence(trained.load("smollm2"), trained.load("minilm"))
    found["made"] = {
        "command": f"python benchmarks/real_text.py --passages {given.passages} --seed {given.seed}",
        "seconds": round(time.time() - begun),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
