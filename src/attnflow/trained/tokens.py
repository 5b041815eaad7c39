"""From text to the numbers a trained model reads.

Most checkpoints carry a tokenizer: ``tokenizer.json``, or the older pairs of files it replaced, or
the same tables inside a GGUF file. Models of molecules and proteins have a plain list of symbols.
The tables are checked before a tokenizer is made of them, for the library that makes it gives up on
some of them in ways that Python does not count as an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attnflow.errors import MissingPackage
from attnflow.trained import jsons
from attnflow.trained.weights import CheckpointError, blame, describe, unique

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


UNREADABLE = "has a tokenizer that cannot be read"
WORDS = 2**18  #: of a vocabulary; the largest have as many
LONGEST = 2**12  #: characters of a word
ADDED = 2**16  #: characters of all tokens that are found before a text is split
GROWTH = 64  #: how many times longer a text may become before it is split


def from_directory(path: Path, causal: bool) -> Encode | None:
    """The tokenizer beside a checkpoint, if there is one."""
    with blame(path, UNREADABLE):
        if (path / "tokenizer.json").is_file():
            raw = jsons.read_small(path / "tokenizer.json")
            _bounded(jsons.parse(raw))
            return _whole(Tokenizer.from_str(str(raw, "utf-8")), path)
        if (path / "vocab.json").is_file() and (path / "merges.txt").is_file():
            words = jsons.read_json(path / "vocab.json")
            if not all(type(i) is int and 0 <= i < WORDS for i in words.values()):
                raise CheckpointError(f"must number words from 0 to {WORDS} in vocab.json")
            lines = str(jsons.read_small(path / "merges.txt"), "utf-8").splitlines()
            merges = [line for line in lines if line and not line.startswith("#version")]
            return _whole(_byte_level(models.BPE(words, _pairs(merges))), path)
        if (path / "vocab.txt").is_file():
            lines = str(jsons.read_small(path / "vocab.txt"), "utf-8").splitlines()
            if any(word.startswith("##") for word in lines):
                return _word_pieces(path)
            return _symbols(lines, frame=not causal)
    return None


def from_metadata(metadata: Mapping[str, Any], path: Path) -> Encode:
    """The tokenizer inside a GGUF file: byte pairs, digits one by one."""
    kind, rule = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if (kind, rule) != ("gpt2", "smollm"):
        raise CheckpointError(
            f"the tokenizer in a GGUF file must be gpt2 with the rule smollm, got {describe(kind)} "
            f"and {describe(rule)}"
        )
    with blame(path, UNREADABLE):
        words = _listed(metadata, "tokenizer.ggml.tokens", str)
        merges = _listed(metadata, "tokenizer.ggml.merges", str)
        types = _listed(metadata, "tokenizer.ggml.token_type", int)
        unique(words, "word", WORDS, LONGEST)
        if len(types) != len(words) or len(merges) > len(words):
            raise CheckpointError(
                f"must have a type for every word and no more merges than words, got {len(types)} "
                f"and {len(merges)} for {len(words)}"
            )
        model = models.BPE({w: i for i, w in enumerate(words)}, _pairs(merges))
        tokenizer = _byte_level(model)
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, tokenizer.pre_tokenizer])
        special = [w for w, kind in zip(words, types, strict=True) if kind == CONTROL]
        _few(special)
        tokenizer.add_special_tokens([AddedToken(w, normalized=False) for w in special])
        return _whole(tokenizer, path)


# --- tables --------------------------------------------------------------------------------------


def _listed(metadata: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    found = metadata.get(key)
    if not isinstance(found, list) or not all(type(value) is kind for value in found):
        raise CheckpointError(
            f"must have a list of {kind.__name__} in {key}, got {describe(found)}"
        )
    return found


def _pairs(merges: list[str]) -> list[tuple[str, str]]:
    """The two parts of every merge, which a space divides."""
    pairs = []
    for merge in merges:
        left, _, right = merge.partition(" ")
        if not left or not right:
            raise CheckpointError(f"must divide merges by a space, got {describe(merge)}")
        pairs.append((left, right))
    return pairs


def _bounded(tokenizer: Mapping[str, Any]) -> None:
    """Refuse rules that replace what others have written, and so let a text grow without bound."""
    added = tokenizer.get("added_tokens")
    if isinstance(added, list):
        _few(token["content"] for token in added)
    growth = 1.0
    for rule in _rules(tokenizer.get("normalizer")):
        if rule.get("type") == "Replace":
            pattern, content = rule.get("pattern"), rule.get("content")
            replaced = pattern.get("String") if isinstance(pattern, dict) else None
            least = max(len(replaced), 1) if isinstance(replaced, str) else 1
            growth *= max(1.0, len(content) / least if isinstance(content, str) else 1.0)
    if growth > GROWTH:
        raise CheckpointError(
            f"has a tokenizer whose replacements make a text {growth:.0f} times longer: refused"
        )


def _few(added: Iterable[str]) -> None:
    """Refuse tokens that are found before a text is split where the search for them is large."""
    characters = sum(len(token) + 1 for token in added)
    if characters > ADDED:
        raise CheckpointError(
            f"must have at most {ADDED} characters in its added tokens, got {characters}"
        )


def _rules(rule: Any) -> Iterator[dict[str, Any]]:
    """A rule, and those that it is a sequence of."""
    if isinstance(rule, dict):
        yield rule
        parts = rule.get("normalizers")
        for part in parts if isinstance(parts, list) else ():
            yield from _rules(part)


# --- tokenizers ----------------------------------------------------------------------------------


def _whole(tokenizer: Any, path: Path) -> Encode:
    """Texts keep their length: nothing is cut off or filled up."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return partial(_encoded, tokenizer, path)


def _encoded(tokenizer: Any, path: Path, text: str) -> list[int]:
    with blame(path, "has a tokenizer that cannot read this text"):
        return list(tokenizer.encode(text).ids)


def _byte_level(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _word_pieces(path: Path) -> Encode:
    config = path / "tokenizer_config.json"
    settings = jsons.read_json(config) if config.is_file() else {}
    lower = settings.get("do_lower_case", True)
    if not isinstance(lower, bool):
        raise CheckpointError(f"do_lower_case must be true or false, got {describe(lower)}")
    return _whole(BertWordPieceTokenizer(str(path / "vocab.txt"), lowercase=lower), path)


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
