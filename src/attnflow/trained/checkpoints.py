"""Trained weights as they lie in files, opened without running anything the files say.

Three formats: safetensors; GGUF, whose numbers are quantised in small blocks; and PyTorch's
``.bin``. What the file is shows in its first bytes. Every offset is checked against the size of
the file before a number is read. A directory has one such file, or an index of several.
"""

from __future__ import annotations

from pathlib import Path

from attnflow.trained import ggml, jsons, pytorch, safe
from attnflow.trained.weights import CheckpointError, Weights, blame, describe, unique

INDICES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
NAME = 255  #: characters of a file's name
SHARDS = 1000  #: files of one checkpoint; the largest models have some hundreds


def open_weights(path: str | Path) -> Weights:
    """The tensors of one file, or of the safetensors or .bin files of a directory."""
    path = Path(path)
    return _directory(path) if path.is_dir() else _file(path)


def _file(path: Path) -> Weights:
    with blame(path):
        if path.exists() and not path.is_file():
            raise CheckpointError("must be a file or a directory")
        with open(path, "rb") as file:
            start = file.read(16)
        if not start:
            raise CheckpointError("is empty")
        if start[:4] == b"GGUF":
            return ggml.read(path)
        if start[:4] == b"PK\x03\x04":
            return pytorch.read_zip(path)
        if start[8:9] == b"{":
            return safe.read(path)
        if start[:1] == b"\x80":
            return pytorch.read_legacy(path)
    raise CheckpointError(
        f"{path.name} is no checkpoint: expected safetensors, GGUF or PyTorch, "
        f"got a file that starts with {start[:8]!r}"
    )


def _directory(path: Path) -> Weights:
    for index in INDICES:
        if (path / index).is_file():
            return _indexed(path, path / index)
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (path / name).is_file():
            return _file(path / name)
    if files := sorted(file for file in path.glob("*.gguf") if file.is_file()):
        return _file(files[0])
    raise CheckpointError(
        f"{path} must hold model.safetensors, pytorch_model.bin or one .gguf file, got none of them"
    )


def _indexed(folder: Path, index: Path) -> Weights:
    """The tensors of several files, each where the index says it is."""
    with blame(index):
        places = jsons.read_json(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(p, str) for p in places.values()):
            raise CheckpointError(
                f"must tell in weight_map which file a tensor is in, got {describe(places)}"
            )
        parts = sorted(set(places.values()))
        if len(parts) > SHARDS:
            raise CheckpointError(f"must name at most {SHARDS} files, got {len(parts)}")
        files = {part: _beside(folder, part) for part in parts}
    found = {part: _file(file).tensors for part, file in files.items()}
    with blame(index):
        unique((name for tensors in found.values() for name in tensors), "tensor")
        for name, part in places.items():
            if name not in found[part]:
                raise CheckpointError(f"says that {part} holds {describe(name)}, and it does not")
    return Weights(folder, {n: t for tensors in found.values() for n, t in tensors.items()})


def _beside(folder: Path, name: str) -> Path:
    """The file of this name in the folder itself, or where the cache of Hugging Face keeps it."""
    if name in ("", ".", "..") or len(name) > NAME or any(sign in name for sign in "/\\:\0"):
        raise CheckpointError(f"must name files beside it, got {describe(name)}")
    if not (folder / name).is_file():
        raise CheckpointError(f"names {describe(name)}, and there is no such file beside it")
    root, found = folder.resolve(), (folder / name).resolve().parent
    kept = root.parent.name == "snapshots" and found == root.parents[1] / "blobs"
    if found != root and not kept:
        raise CheckpointError(f"must name files beside it, got {describe(name)}, a link elsewhere")
    return folder / name
