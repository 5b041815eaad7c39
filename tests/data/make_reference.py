"""Activations of trained and of tiny models as transformers computes them in float64.

Made with torch 2.13.0, transformers 5.22.2, tokenizers 0.23.3 and gguf 0.19.0 by

    python tests/data/make_reference.py

in an environment that also holds attnflow's requirements. Writes reference_activations.npz, and
two files of one state dictionary, in PyTorch's two formats. Arrays are stored in float32, at some
tokens and coordinates only: those of tests/test_trained_parity.py.
"""

from __future__ import annotations

import collections
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

import tiny_checkpoints  # noqa: E402

from attnflow import assets  # noqa: E402

REACTION = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
TINY = {
    "bert": (transformers.BertConfig, transformers.BertForMaskedLM),
    "albert": (transformers.AlbertConfig, transformers.AlbertForMaskedLM),
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
}


def activations(model: Any, layers: list[Any], ids: list[int]) -> dict[str, np.ndarray]:
    """What enters the first layer, what leaves each, attention matrices, and logits."""
    outputs: list[torch.Tensor] = []

    def keep(module: Any, inputs: Any, output: Any) -> None:
        outputs.append((output[0] if isinstance(output, tuple) else output).detach()[0])

    hooks = [layer.register_forward_hook(keep) for layer in layers]
    model = model.double().eval()
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(torch.tensor([ids]), output_hidden_states=True, output_attentions=True)
    for hook in hooks:
        hook.remove()
    found = {
        "hidden": torch.stack([out.hidden_states[0][0], *outputs]).numpy(),
        "attention": torch.stack([a[0] for a in out.attentions]).numpy(),
    }
    if hasattr(out, "logits"):
        found["logits"] = out.logits[0].numpy()
    return found


def tiny(kind: str) -> dict[str, np.ndarray]:
    config, cls = TINY[kind]
    model = cls(config(**tiny_checkpoints.CONFIGS[kind]))
    weights = {k: torch.tensor(v) for k, v in tiny_checkpoints.tensors(kind).items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    model.tie_weights()
    print(kind, "missing", missing, "unexpected", unexpected)
    return activations(model, layers_of(model, kind), list(tiny_checkpoints.IDS))


def layers_of(model: Any, kind: str) -> list[Any]:
    base = getattr(model, model.base_model_prefix, model)
    if kind == "bert":
        return list(base.encoder.layer)
    if kind == "albert":
        return list(base.encoder.albert_layer_groups)
    return list(base.h if kind == "gpt2" else base.layers)


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for kind in TINY:
        found |= {f"tiny-{kind}-{k}": v for k, v in tiny(kind).items()}

    alice = (assets.fetch("alice") / "carroll-alice.txt").read_text("latin-1")
    short, long = alice[1000:1160], alice[2000:3300]

    path = assets.fetch("minilm")
    model = transformers.BertModel.from_pretrained(path)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"))
    for name, text, tokens in (("short", short, 1), ("long", long, 25)):
        ids = tokenizer(text, truncation=False, padding=False)["input_ids"]
        out = activations(model, layers_of(model, "bert"), ids)
        found[f"minilm-{name}-ids"] = np.array(ids)
        found[f"minilm-{name}-hidden"] = out["hidden"][:, ::tokens, ::16]
        found[f"minilm-{name}-attention"] = out["attention"][[0, 5], :, :: 10 * tokens]

    path = assets.fetch("albert")
    config = transformers.AlbertConfig.from_pretrained(path)
    model = transformers.AlbertForMaskedLM(config)
    state = torch.load(path / "pytorch_model.bin", map_location="cpu", weights_only=True)
    print("albert", model.load_state_dict(state, strict=False))
    words = (path / "vocab.txt").read_text("utf-8").splitlines()
    symbols = ["[CLS]", *tiny_smiles(REACTION), "[SEP]"]
    ids = [words.index(symbol) for symbol in symbols]
    out = activations(model, layers_of(model, "albert"), ids)
    found["albert-ids"] = np.array(ids)
    found["albert-hidden"] = out["hidden"][:, :, ::16]
    found["albert-attention"] = out["attention"][[0, 11], :, ::10]
    found["albert-logits"] = out["logits"][:, ::37]

    path = assets.fetch("smollm2")
    file = next(path.glob("*.gguf"))
    config = transformers.LlamaConfig(**load_gguf_checkpoint(file)["config"])
    model = transformers.LlamaForCausalLM(config)
    state = load_gguf_checkpoint(file, return_tensors=True, model_to_load=model)["tensors"]
    print("smollm2", config, model.load_state_dict(state, strict=False))
    model.tie_weights()
    tokenizer = transformers.AutoTokenizer.from_pretrained(path, gguf_file=file.name)
    ids = tokenizer(alice[1000:1240])["input_ids"]
    out = activations(model, layers_of(model, "llama"), ids)
    found["smollm2-ids"] = np.array(ids)
    found["smollm2-hidden"] = out["hidden"][:, ::5, ::16]
    found["smollm2-attention"] = out["attention"][[0, 29], :, ::10]
    found["smollm2-logits"] = out["logits"][::5, ::997]

    ids = tokenizer(alice[1000:4000])["input_ids"][:416]
    with torch.inference_mode():
        loss = model(torch.tensor([ids]), labels=torch.tensor([ids])).loss
    found["smollm2-perplexity"] = np.array(loss.exp().item())

    small = {k: v.astype(np.float32) if v.dtype == np.float64 else v for k, v in found.items()}
    np.savez_compressed(HERE / "reference_activations.npz", **small)
    write_states()


def tiny_smiles(reaction: str) -> list[str]:
    """Symbols of a reaction, character by character; no regular expression."""
    symbols, at = [], 0
    while at < len(reaction):
        if reaction[at] == "[":
            stop = reaction.index("]", at) + 1
        else:
            stop = at + (2 if reaction[at : at + 2] in ("Cl", "Br", ">>") else 1)
        symbols.append(reaction[at:stop])
        at = stop
    return symbols


def write_states() -> None:
    """A state dictionary with every kind of tensor that a checkpoint may hold."""
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7
    state = collections.OrderedDict(
        whole=base,
        view=base[1:3, 2:5],
        transposed=base.T,
        parameter=torch.nn.Parameter(base + 1),
        half=base.half(),
        brain=base.bfloat16(),
        double=base.double(),
        whole_numbers=torch.arange(5),
        flags=torch.tensor([True, False, True]),
        scalar=torch.tensor(2.5),
        empty=torch.zeros(0, 3),
    )
    state._metadata = {"": {"version": 1}}
    torch.save(state, HERE / "state_zip.bin")
    torch.save(state, HERE / "state_legacy.bin", _use_new_zipfile_serialization=False)
    arrays = {k: v.detach().float().numpy() for k, v in state.items()}
    np.savez_compressed(HERE / "state.npz", **arrays)


if __name__ == "__main__":
    main()
