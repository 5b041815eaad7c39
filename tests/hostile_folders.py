"""Folders that a hostile hand could write: indices, configurations, tokenizers, whole GGUF models."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiny_checkpoints as tiny
from hostile_files import BOOL, F32, LIST, TEXT, U64, Case, Write, fact, listed, text, u32
from safetensors.numpy import save_file

INDEX = "model.safetensors.index.json"
DEEP = b'{"a":' + b"[" * 100_000


def _write(name: str, content: bytes | Callable[[], bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        (path / name).write_bytes(content() if callable(content) else content)

    return write


# --- index.json ----------------------------------------------------------------------------------


def indexed(places: object, change: Callable[[Path], object] = lambda path: None) -> Write:
    """A folder beside one that holds what must not be opened."""

    def write(path: Path) -> Path:
        part = {"a": tiny.tensors("gpt2")["transformer.wpe.weight"]}
        folder = path / "model"
        folder.mkdir()
        save_file(part, path / "model.safetensors")
        save_file(part, folder / "one.safetensors")
        save_file(part, folder / "two.safetensors")
        content = (
            places if isinstance(places, bytes) else json.dumps({"weight_map": places}).encode()
        )
        (folder / INDEX).write_bytes(content)
        change(folder)
        return folder

    return write


def _link(to: str) -> Callable[[Path], None]:
    return lambda folder: os.symlink(to, folder / "link.safetensors")


BESIDE = "must name files beside it, got "
ABSENT = "there is no such file beside it"
PLACES = "must tell in weight_map which file a tensor is in"
ONE = "one.safetensors"

INDICES = {
    "the folder above": Case(indexed({"a": ".."}), BESIDE + "'..'"),
    "the folder itself": Case(indexed({"a": "."}), BESIDE + "'.'"),
    "no name": Case(indexed({"a": ""}), BESIDE + "''"),
    "a file above": Case(indexed({"a": "../model.safetensors"}), BESIDE),
    "a file from the root": Case(indexed({"a": "/etc/passwd"}), BESIDE),
    "a file below": Case(indexed({"a": "sub/one.safetensors"}), BESIDE),
    "a file above, otherwise written": Case(indexed({"a": "..\\model.safetensors"}), BESIDE),
    "a file on a drive": Case(indexed({"a": "C:model.safetensors"}), BESIDE),
    "a name with a zero in it": Case(indexed({"a": "one\0.safetensors"}), BESIDE),
    "a name of a megabyte": Case(indexed({"a": "x" * 10**6}), BESIDE + "'xxx"),
    "a link to a file above": Case(indexed({"a": "link.safetensors"}, _link("../model.safetensors")), BESIDE + ".*a link elsewhere"),
    "a link to a folder": Case(indexed({"a": "link.safetensors"}, _link(".")), ABSENT),
    "a link to itself": Case(indexed({"a": "link.safetensors"}, _link("link.safetensors")), ABSENT),
    "a pipe": Case(indexed({"a": "pipe"}, lambda folder: os.mkfifo(folder / "pipe")), ABSENT),
    "a folder": Case(indexed({"a": "sub"}, lambda folder: (folder / "sub").mkdir()), ABSENT),
    "the index itself": Case(indexed({"a": INDEX}), "is no checkpoint"),
    "a file that is not there": Case(indexed({"a": "three.safetensors"}), ABSENT),
    "a tensor that is not there": Case(indexed({"b": ONE}), "says that one.safetensors holds 'b', and it does not"),
    "one tensor in two files": Case(indexed({"a": ONE, "b": "two.safetensors"}), "every tensor once, got 'a' twice"),
    "one tensor in two places": Case(indexed(b'{"weight_map":{"a":"one.safetensors","a":"two.safetensors"}}'), "got 'a' twice"),
    "no places": Case(indexed(b"{}"), PLACES + ", got None"),
    "places in a list": Case(indexed([ONE]), PLACES + ", got a list of 1"),
    "a place that is a number": Case(indexed({"a": 1}), PLACES),
    "a place that is a list": Case(indexed({"a": [ONE]}), PLACES),
    "a list": Case(indexed(b"[]"), "must hold a JSON object, got list"),
    "deep": Case(indexed(DEEP), "is no JSON: too deep"),
    "too large": Case(indexed(b" " * 5_000_000), "must have at most 4194304 bytes"),
    "no text": Case(indexed(b"\xff\xfe"), "is no JSON"),
    "100000 files": Case(indexed({str(i): f"{i}.safetensors" for i in range(100_000)}), "must name at most 1000 files, got 100000"),
}  # fmt: skip


# --- config.json ---------------------------------------------------------------------------------


def model(kind: str, **changes: Any) -> Write:
    return lambda path: tiny.write(path / "model", kind, **changes)


def changed(kind: str, change: Callable[[Path], None]) -> Write:
    def write(path: Path) -> Path:
        folder = tiny.write(path / "model", kind)
        change(folder)
        return folder

    return write


def config(content: bytes | Callable[[], bytes]) -> Write:
    return changed("bert", _write("config.json", content))


def _with(text: bytes) -> Write:
    """A good configuration with more in it."""
    return config(lambda: json.dumps(tiny.CONFIGS["bert"]).encode()[:-1] + b"," + text + b"}")


def _pipe(path: Path) -> None:
    (path / "config.json").unlink()
    os.mkfifo(path / "config.json")


def _circle(path: Path) -> None:
    (path / "model.safetensors").unlink()
    os.symlink(".", path / "x.gguf")


LAYERS = "must have tensors of 1000000000000 layers, got none of layer 2"
COUNT = " must be a whole number >= 1, got "

CONFIGS = {
    "deep": Case(config(DEEP), "config.json is no JSON: too deep"),
    "objects in objects": Case(config(b'{"a":' * 100_000), "config.json is no JSON: too deep"),
    "too large": Case(config(lambda: b'{"a":[' + b"{}," * 10**7 + b"{}]}"), "at most 1048576 bytes"),
    "no text": Case(config(b'{"\xff":1}'), "is no JSON"),
    "a list": Case(config(b"[]"), "must hold a JSON object, got list"),
    "a pipe": Case(changed("bert", _pipe), "must be a directory with config.json"),
    "a million million layers of BERT": Case(model("bert", num_hidden_layers=10**12), LAYERS),
    "a million million layers of GPT-2": Case(model("gpt2", n_layer=10**12), LAYERS),
    "a million million layers of ALBERT": Case(model("albert", num_hidden_layers=10**12), "its block at most 128 times, got 1000000000000"),
    "a number of 4000 digits": Case(_with(b'"x":' + b"9" * 4000), "at most 20 digits, got one of 4000"),
    "a number of a million digits": Case(_with(b'"x":' + b"9" * 10**6 + b".5"), "finite numbers|at most 1048576"),
    "a number of 500000 digits": Case(_with(b'"x":' + b"9" * 500_000 + b".5"), "finite numbers"),
    "not a number": Case(_with(b'"x":NaN'), "finite numbers, got 'NaN'"),
    "infinity": Case(_with(b'"x":-Infinity'), "finite numbers, got '-Infinity'"),
    "a number beyond all floats": Case(_with(b'"x":1e999'), "finite numbers, got '1e999'"),
    "one name twice": Case(_with(b'"hidden_size":24'), "got 'hidden_size' twice"),
    "layers that are true": Case(model("bert", num_hidden_layers=True), "num_hidden_layers" + COUNT + "True"),
    "layers in fractions": Case(model("bert", num_hidden_layers=2.0), COUNT + "2.0"),
    "layers in a list": Case(model("bert", num_hidden_layers=[[[2]]]), COUNT + "a list of 1"),
    "fewer layers than none": Case(model("bert", num_hidden_layers=-1), COUNT + "-1"),
    "eps that is true": Case(model("bert", layer_norm_eps=True), "layer_norm_eps must be a number > 0, got True"),
    "eps that is a text": Case(model("gpt2", layer_norm_epsilon="1e-6"), "a number > 0, got '1e-6'"),
    "eps of nothing": Case(model("albert", layer_norm_eps=0), "a number > 0, got 0"),
    "a decoder that is 0": Case(model("bert", is_decoder=0), "is_decoder must be False, got 0"),
    "a wide model": Case(model("bert", hidden_size=24 * 10**12), r"must have shape \(50, 24000000000000\)"),
    "a large vocabulary": Case(model("gpt2", vocab_size=10**15), r"must have shape \(1000000000000000, 24\)"),
    "many positions": Case(model("gpt2", n_positions=10**15), r"must have shape \(1000000000000000, 24\)"),
    "many types": Case(model("albert", type_vocab_size=10**15), r"must have shape \(1000000000000000, 10\)"),
    "a large perceptron": Case(model("bert", intermediate_size=10**15), r"must have shape \(1000000000000000, 24\)"),
    "more heads than width": Case(model("bert", num_attention_heads=10**15), "multiple of the heads"),
    "a kind that is a list": Case(model("bert", model_type=["bert"]), "must be one of bert, albert, gpt2, got a list of 1"),
    "a kind of half a megabyte": Case(model("bert", model_type="x" * 500_000), "must be one of bert, albert, gpt2, got 'xxx"),
    "an activation that is an object": Case(model("bert", hidden_act={"a": {}}), "got a dict of 1"),
    "a link to itself as weights": Case(changed("bert", _circle), "must hold model.safetensors"),
}  # fmt: skip


# --- tokenizers ----------------------------------------------------------------------------------

TOKENIZER: dict[str, Any] = {
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": None, "post_processor": None, "decoder": None,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []},
}  # fmt: skip


def tokenizer(**changes: Any) -> Write:
    raw = json.dumps(TOKENIZER | changes).encode()
    return changed("bert", _write("tokenizer.json", raw))


def beside(**files: bytes) -> Write:
    """Files of a tokenizer, by names with _ for a point."""

    def write(path: Path) -> None:
        for name, content in files.items():
            (path / name.replace("__", ".")).write_bytes(content)

    return changed("gpt2", write)


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replaced(times: int) -> dict[str, Any]:
    rule = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    return {"type": "Sequence", "normalizers": [rule] * times}


def special(content: str, number: int) -> dict[str, Any]:
    sides = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    return {"id": number, "content": content} | sides


UNREADABLE = "has a tokenizer that cannot be read: "
PIECES = b"[UNK]\n[CLS]\n[SEP]\n##a\na"

TOKENIZERS = {
    "a pattern that gives up": Case(tokenizer(pre_tokenizer=split("(a+)+$")), "cannot read this text: Onig"),
    "a pattern that is none": Case(tokenizer(pre_tokenizer=split("(")), UNREADABLE),
    "laughs": Case(tokenizer(normalizer=replaced(10)), "make a text 10000000000 times longer: refused"),
    "laughs in sequences": Case(tokenizer(normalizer={"type": "Sequence", "normalizers": [replaced(2), replaced(2)]}), "10000 times longer"),
    "many long tokens to look for": Case(lambda path: tokenizer(added_tokens=[special(f"{i:x}" * 300, i + 2) for i in range(3000)])(path), "at most 65536 characters in its added tokens"),
    "many tokens to look for": Case(lambda path: tokenizer(added_tokens=[special(f"{i:x}", i + 2) for i in range(25_000)])(path), "at most 65536 characters in its added tokens"),
    "a token of nothing": Case(tokenizer(added_tokens=[None]), UNREADABLE),
    "nothing": Case(changed("bert", _write("tokenizer.json", b"{}")), UNREADABLE),
    "no object": Case(changed("bert", _write("tokenizer.json", b"[]")), "must hold a JSON object"),
    "deep": Case(changed("bert", _write("tokenizer.json", DEEP)), UNREADABLE + "too deep"),
    "too large": Case(changed("bert", _write("tokenizer.json", lambda: b" " * 5_000_000)), "at most 4194304 bytes"),
    "one name twice": Case(changed("bert", _write("tokenizer.json", b'{"model":1,"model":2}')), "got 'model' twice"),
    "an unknown kind": Case(tokenizer(model={"type": "Magic"}), UNREADABLE),
    "numbers beyond 32 bits": Case(tokenizer(model={"type": "BPE", "vocab": {"a": 2**40}, "merges": []}), UNREADABLE),
    "a merge of unknown words": Case(tokenizer(model={"type": "BPE", "vocab": {"a": 0}, "merges": ["x y"]}), UNREADABLE),
    "words that are no numbers": Case(beside(vocab__json=b'{"a":"0"}', merges__txt=b""), "must number words"),
    "words that are true": Case(beside(vocab__json=b'{"a":true}', merges__txt=b""), "must number words"),
    "words below none": Case(beside(vocab__json=b'{"a":-1}', merges__txt=b""), "must number words"),
    "words in a list": Case(beside(vocab__json=b"[]", merges__txt=b""), "must hold a JSON object"),
    "one word twice": Case(beside(vocab__json=b'{"a":0,"a":1}', merges__txt=b""), "got 'a' twice"),
    "deep words": Case(beside(vocab__json=DEEP, merges__txt=b""), "is no JSON: too deep"),
    "half a merge": Case(beside(vocab__json=b'{"a":0}', merges__txt=b"a"), "must divide merges by a space, got 'a'"),
    "merges of unknown words": Case(beside(vocab__json=b'{"a":0}', merges__txt=b"x y"), UNREADABLE),
    "merges that are no text": Case(beside(vocab__json=b'{"a":0}', merges__txt=b"\xff"), UNREADABLE),
    "symbols that are no text": Case(beside(vocab__txt=b"\xff\xfe"), UNREADABLE),
    "symbols of 5 MB": Case(beside(vocab__txt=b"a\n" * 2_500_000), "at most 4194304 bytes"),
    "settings in a list": Case(beside(vocab__txt=PIECES, tokenizer_config__json=b"[]"), "must hold a JSON object"),
    "settings that are deep": Case(beside(vocab__txt=PIECES, tokenizer_config__json=DEEP), "is no JSON: too deep"),
    "a setting that is a text": Case(beside(vocab__txt=PIECES, tokenizer_config__json=b'{"do_lower_case":"no"}'), "do_lower_case must be true or false, got 'no'"),
    "no word for the unknown": Case(beside(vocab__txt=b"x\n##x"), "tokenizer that cannot read this text|cannot be read"),
}  # fmt: skip


# --- GGUF as a model -----------------------------------------------------------------------------


def described(**changes: tuple[int, bytes] | None) -> Write:
    """A Llama with metadata changed, by names with __ for a point, or left out."""
    facts = tiny.LLAMA_FACTS | {k.replace("__", "."): v for k, v in changes.items()}
    raw = [fact(key, *value) for key, value in facts.items() if value is not None]
    return lambda path: tiny.write_gguf(path / "model.gguf", raw)


def texts(*values: str) -> tuple[int, bytes]:
    return LIST, listed(TEXT, [text(v) for v in values])


WORDS = "tokenizer__ggml__tokens"
MERGES = "tokenizer__ggml__merges"
TYPES = "tokenizer__ggml__token_type"

DESCRIBED = {
    "no kind": Case(described(general__architecture=None), "must be a directory with config.json or a GGUF file"),
    "a kind that is a list": Case(described(general__architecture=texts("llama")), "one of llama, got a list of 1"),
    "2^62 layers": Case(described(llama__block_count=(U64, (2**62).to_bytes(8, "little"))), "layers, got none of layer 1"),
    "layers that are true": Case(described(llama__block_count=(BOOL, b"\1")), "block_count" + COUNT + "True"),
    "layers that are a text": Case(described(llama__block_count=(TEXT, text("1"))), COUNT + "'1'"),
    "2^62 positions": Case(described(llama__context_length=(U64, (2**62).to_bytes(8, "little"))), "at most 16777216 angles"),
    "2^62 words": Case(described(llama__vocab_size=(U64, (2**62).to_bytes(8, "little"))), "must have shape"),
    "a wide model": Case(described(llama__embedding_length=(U64, (2**62).to_bytes(8, "little"))), "must have shape"),
    "eps that is true": Case(described(llama__attention__layer_norm_rms_epsilon=(BOOL, b"\1")), "a number > 0, got True"),
    "eps that is not a number": Case(described(llama__attention__layer_norm_rms_epsilon=(F32, b"\0\0\xc0\x7f")), "a number > 0, got nan"),
    "no words": Case(described(**{WORDS: None}), "list of str in tokenizer.ggml.tokens, got None"),
    "words that are a number": Case(described(**{WORDS: (4, u32(1))}), "list of str in tokenizer.ggml.tokens, got 1"),
    "words that are numbers": Case(described(**{WORDS: (LIST, listed(4, [u32(1)] * 3))}), "list of str in tokenizer.ggml.tokens"),
    "a word twice": Case(described(**{WORDS: texts("a", "a", "ab")}), "every word once, got 'a' twice"),
    "more than 2^18 words": Case(lambda path: described(**{WORDS: texts(*map(str, range(2**18 + 1)))})(path), "at most 262144 of kind word"),
    "a word of 10000 signs": Case(described(**{WORDS: texts("a", "b", "x" * 10_000)}), "names of at most 4096 characters"),
    "no merges": Case(described(**{MERGES: None}), "list of str in tokenizer.ggml.merges"),
    "merges that are numbers": Case(described(**{MERGES: (LIST, listed(4, [u32(1)]))}), "list of str in tokenizer.ggml.merges"),
    "half a merge": Case(described(**{MERGES: texts("a")}), "divide merges by a space"),
    "a merge of unknown words": Case(described(**{MERGES: texts("x y")}), UNREADABLE),
    "no types": Case(described(**{TYPES: None}), "list of int in tokenizer.ggml.token_type"),
    "too few types": Case(described(**{TYPES: (LIST, listed(4, [u32(1)]))}), "a type for every word"),
    "types that are texts": Case(described(**{TYPES: texts("1", "1", "1")}), "list of int in tokenizer.ggml.token_type"),
    "2^18 words to look for": Case(lambda path: described(**{WORDS: texts("a", "b", "ab", *map(str, range(2**18 - 3))), TYPES: (LIST, listed(4, [u32(3)] * 2**18))})(path), "in its added tokens"),
    "another tokenizer": Case(described(tokenizer__ggml__model=texts(*"abc" * 1000)), "must be gpt2 with the rule smollm, got a list of 3000"),
    "angles of its own": Case(described(llama__rope__scaling__type=(TEXT, text("linear"))), "must not be rescaled"),
}  # fmt: skip

CASES = (
    {f"index: {name}": case for name, case in INDICES.items()}
    | {f"config: {name}": case._replace(ask="model") for name, case in CONFIGS.items()}
    | {f"tokenizer: {name}": case._replace(ask="text") for name, case in TOKENIZERS.items()}
    | {f"model: {name}": case._replace(ask="model") for name, case in DESCRIBED.items()}
)
