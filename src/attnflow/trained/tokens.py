"""From text to the numbers a trained model reads.

Most checkpoints carry a tokenizer: ``tokenizer.json``, or the older pairs of files it replaced, or
the same tables inside a GGUF file. Models of molecules and proteins have a plain list of symbols.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attnflow.errors import MissingPackage
from attnflow.trained.weights import CheckpointError

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from tokenizers.implementations import BertWordPieceTokenizer
except ImportError as error:
    raise MissingPackage.named("tokenizers", "reading text", "trained") from error

Encode = Callable[[str], list[int]]

#: What one symbol of a reaction in SMILES can be: an atom in brackets, an element of two letters,
#: a ring bond of several digits, the arrow; else one character.
SYMBOL = re.compile(r"\[[^\]]*\]|Br|Cl|%\d\d|>>|\S")
CONTROL = 3  #: GGUF's type of a token that stands for no text


def from_directory(path: Path, causal: bool) -> Encode | None:
    """The tokenizer beside a checkpoint, if there is one."""
    try:
        if (path / "tokenizer.json").is_file():
            return _whole(Tokenizer.from_file(str(path / "tokenizer.json")))
        if (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
            model = models.BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt"))
            return _whole(_byte_level(model))
        if (path / "vocab.txt").is_file():
            words = (path / "vocab.txt").read_text("utf-8").splitlines()
            if any(word.startswith("##") for word in words):
                return _word_pieces(path)
            return _symbols(words, frame=not causal)
    except Exception as error:  # the library raises bare exceptions
        raise CheckpointError(
            f"{path.name} has a tokenizer that cannot be read: {error}"
        ) from error
    return None


def from_metadata(metadata: Mapping[str, Any]) -> Encode:
    """The tokenizer inside a GGUF file: byte pairs, digits one by one."""
    kind, rule = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if (kind, rule) != ("gpt2", "smollm"):
        raise CheckpointError(
            f"the tokenizer in a GGUF file must be gpt2 with the rule smollm, got {kind} and {rule}"
        )
    words = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    tokenizer = _byte_level(models.BPE({w: i for i, w in enumerate(words)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, tokenizer.pre_tokenizer])
    types = metadata["tokenizer.ggml.token_type"]
    special = [w for w, kind in zip(words, types, strict=True) if kind == CONTROL]
    tokenizer.add_special_tokens([AddedToken(w, normalized=False) for w in special])
    return _whole(tokenizer)


def _whole(tokenizer: Any) -> Encode:
    """Texts keep their length: nothing is cut off or filled up."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: list(tokenizer.encode(text).ids)


def _byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _word_pieces(path: Path) -> Encode:
    config = path / "tokenizer_config.json"
    lower = not config.is_file() or json.loads(config.read_text("utf-8")).get("do_lower_case", True)
    return _whole(BertWordPieceTokenizer(str(path / "vocab.txt"), lowercase=lower))


def _symbols(words: list[str], frame: bool) -> Encode:
    """Symbols looked up in a list; [CLS] and [SEP] around them if asked for."""
    index = {word: i for i, word in enumerate(words)}

    def encode(text: str) -> list[int]:
        symbols = SYMBOL.findall(text)
        if frame:
            symbols = ["[CLS]", *symbols, "[SEP]"]
        unknown = [s for s in symbols if s not in index]
        if unknown and "[UNK]" not in index:
            raise ValueError(f"text must be made of symbols the model knows, got {unknown[0]!r}")
        return [index[s] if s in index else index["[UNK]"] for s in symbols]

    return encode
