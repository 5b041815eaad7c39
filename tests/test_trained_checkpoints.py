"""Files of weights are read exactly, or refused by name; nothing they say is run."""

from __future__ import annotations

import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import tiny_checkpoints as tiny
from safetensors.numpy import save, save_file

from attnflow import assets
from attnflow.trained.checkpoints import open_weights
from attnflow.trained.weights import CheckpointError, blame

DATA = Path(__file__).parent / "data"
VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)
RAW = VALUES.tobytes()
WRITERS = {"zip": tiny.write_zip, "legacy": tiny.write_legacy}


@pytest.mark.parametrize("form", ["zip", "legacy"])
def test_every_kind_of_tensor_that_pytorch_wrote_is_read(form: str) -> None:
    weights = open_weights(DATA / f"state_{form}.bin")
    with np.load(DATA / "state.npz") as expected:
        assert set(weights) == set(expected)
        for name, found in weights.items():
            assert found.dtype == np.float32
            assert found.shape == weights.shape(name)
            np.testing.assert_array_equal(found, expected[name])


@pytest.mark.parametrize("form", WRITERS)
def test_the_tiny_writers_write_what_is_read(form: str, tmp_path: Path) -> None:
    pickled = tiny.state({"a": tiny.tensor("0", (2, 3), legacy=form == "legacy")})
    weights = open_weights(WRITERS[form](tmp_path / "a.bin", pickled, {"0": RAW}))
    np.testing.assert_array_equal(weights["a"], VALUES)


def test_weights_cannot_be_written_into() -> None:
    found = open_weights(DATA / "state_legacy.bin")["whole"]
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 1.0


def test_an_unknown_name_is_a_key_error_and_asking_reads_nothing(tmp_path: Path) -> None:
    pickled = tiny.state({"a": tiny.tensor("0", (2, 3))})
    weights = open_weights(tiny.write_zip(tmp_path / "a.bin", pickled, {}))  # no numbers in it
    assert "a" in weights
    assert "b" not in weights
    with pytest.raises(KeyError):
        weights["b"]
    with pytest.raises(CheckpointError, match=r"a\.bin"):
        weights["a"]


def test_safetensors_of_every_kind(tmp_path: Path) -> None:
    tensors: dict[str, np.ndarray[Any, Any]] = {
        kind: VALUES.astype(kind) for kind in ("float64", "float32", "float16", "int64", "uint8")
    }
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "np"})
    weights = open_weights(tmp_path / "model.safetensors")
    assert weights.metadata == {"format": "np"}
    for name in tensors:
        np.testing.assert_array_equal(weights[name], VALUES)
        assert weights[name].dtype == np.float32


def test_brain_floats_are_the_upper_half_of_a_float(tmp_path: Path) -> None:
    header = {"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}
    raw = struct.pack("<3H", 0x3F80, 0xC000, 0x4049)  # 1, -2, 3.140625
    (tmp_path / "x.safetensors").write_bytes(_safetensors(header, raw))
    assert open_weights(tmp_path / "x.safetensors")["x"].tolist() == [1.0, -2.0, 3.140625]


def test_shards_become_one_checkpoint(tmp_path: Path) -> None:
    save_file({"a": VALUES}, tmp_path / "one.safetensors")
    save_file({"b": VALUES + 1}, tmp_path / "two.safetensors")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    weights = open_weights(tmp_path)
    assert weights["b"][0, 0] == 1 + weights["a"][0, 0]
    index["weight_map"]["b"] = "../two.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(CheckpointError, match="must name files beside it"):
        open_weights(tmp_path)


def test_gguf_is_read_as_its_own_library_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal((4, 64)).astype(np.float32)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("some.words", ["a", "é", ""])
    writer.add_bool("some.flag", True)
    writer.add_tensor("plain", drawn)
    kind = gguf.GGMLQuantizationType.Q8_0
    writer.add_tensor("blocks", gguf.quantize(drawn, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    weights = open_weights(path)
    assert weights.metadata["general.architecture"] == "llama"
    assert weights.metadata["some.words"] == ["a", "é", ""]
    assert weights.metadata["some.flag"] is True
    np.testing.assert_array_equal(weights["plain"], drawn)
    theirs = gguf.dequantize(gguf.quantize(drawn, kind), kind)
    np.testing.assert_array_equal(weights["blocks"], theirs)
    whole = path.read_bytes()
    for cut in range(4, len(whole) - 32, 37):  # it ends in up to 31 bytes of padding
        (tmp_path / "cut.gguf").write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match=r"cut\.gguf"):
            open_weights(tmp_path / "cut.gguf")


# --- hostile files -------------------------------------------------------------------------------


class Command:
    """Unpickled by the usual reader, it would run a command."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.marker}'",)


def _hostile(marker: Path) -> dict[str, tuple[bytes, str]]:
    touch = f"open({str(marker)!r}, 'w').close()"
    nested = tiny.call("builtins", "eval", tiny.text(touch))
    return {
        "command": (pickle.dumps(Command(marker)), f"{os.system.__module__}.system"),
        "command in a dictionary": (pickle.dumps({"a": Command(marker)}, 2), "system"),
        "eval": (b"\x80\x02" + nested + b".", "builtins.eval"),
        "eval as a tensor": (tiny.state({"a": nested}), "builtins.eval"),
        "by position": (b"\x80\x04" + tiny.text("os") + tiny.text("system") + b"\x93.", "os.system"),
        "instance": (b"\x80\x02(" + tiny.text(touch) + b"ibuiltins\nexec\n.", "instruction INST"),
        "loader": (b"\x80\x02" + tiny.call("torch", "load", tiny.text("x")) + b".", "torch.load"),
        "attribute": (b"\x80\x02" + tiny.call("torch._utils", "_rebuild_tensor_v2.__globals__") + b".",
                      "__globals__"),
    }  # fmt: skip


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("attack", sorted(_hostile(Path("x"))))
def test_a_hostile_pickle_is_refused_and_not_run(form: str, attack: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    pickled, named = _hostile(marker)[attack]
    path = WRITERS[form](tmp_path / "model.bin", pickled, {"0": RAW})
    with pytest.raises(CheckpointError, match=r"model\.bin (asks|has) .*refused") as caught:
        open_weights(path)
    assert named in str(caught.value)
    assert not marker.exists()


def test_the_hostile_pickle_works_on_the_usual_reader(tmp_path: Path) -> None:
    pickle.loads(_hostile(tmp_path / "marker")["command"][0])
    assert (tmp_path / "marker").exists()


def test_a_hostile_first_pickle_of_a_legacy_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(pickle.dumps(Command(tmp_path / "marker")))
    with pytest.raises(CheckpointError, match="refused"):
        open_weights(tmp_path / "model.bin")
    assert not (tmp_path / "marker").exists()


def test_what_a_file_writes_into_allowed_functions_is_lost(tmp_path: Path) -> None:
    function = b"ctorch._utils\n_rebuild_parameter\n"
    poisoned = b"\x80\x02" + function + b"N}" + tiny.text("__defaults__") + b"(K\x01ts\x86b."
    with pytest.raises(CheckpointError, match="must hold a dictionary of tensors, got a function"):
        open_weights(tiny.write_zip(tmp_path / "a.bin", poisoned, {}))
    weights = open_weights(DATA / "state_zip.bin")
    assert weights["parameter"].shape == (4, 6)


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        (tiny.tensor("0", (2, 3), length=5), "in a storage of 5"),
        (tiny.tensor("0", (2, 3), offset=1), "in a storage of 6"),
        (tiny.tensor("0", (2, 3), strides=(4, 1)), "in a storage of 6"),
        (tiny.tensor("0", (2, 3), strides=(-3, 1)), "strides"),
        (tiny.tensor("0", (1000, 1000), length=6, strides=(0, 0)), "in a storage of 6"),
        (tiny.tensor("0", (2, 3), offset=-1), "offset a whole number >= 0, got -1"),
        (tiny.tensor("0", (2, 3), strides=(3,)), "strides"),
        (tiny.text("no tensor"), "dictionary of tensors"),
    ],
)
def test_views_outside_their_storage_are_refused(entry: bytes, rule: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=rule):
        open_weights(tiny.write_zip(tmp_path / "a.bin", tiny.state({"a": entry}), {"0": RAW}))


def test_a_table_index_of_two_thousand_millions_costs_no_memory(tmp_path: Path) -> None:
    pickled = b"\x80\x02}r" + struct.pack("<I", 2**31 - 1) + b"."
    assert len(open_weights(tiny.write_zip(tmp_path / "a.bin", pickled, {}))) == 0


# --- damaged files -------------------------------------------------------------------------------


def _safetensors(header: object, raw: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + raw


def _entry(**changes: Any) -> bytes:
    return _safetensors({"x": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes}, RAW)  # fmt: skip


def _gguf(*, version: int = 3, tensors: int = 0, facts: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, facts) + rest


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "is empty"),
        (b"hello, I am a poem", "is no checkpoint"),
        (save({"x": VALUES})[:-1], "file not fully covered"),
        (struct.pack("<Q", 2**60) + b"{}", "a header of at most 4194304 bytes"),
        (struct.pack("<Q", 9) + b"{nonsense", "truncated or corrupt"),
        (_entry(data_offsets=[0, 28]), "invalid shape, data type, or offset"),
        (_entry(data_offsets=[8, 4]), "invalid offset"),
        (_entry(shape=[2, 4]), "invalid shape, data type, or offset"),
        (_entry(shape=[-2, -3]), r"whole numbers >= 0, got \[-2, -3\]"),
        (_entry(dtype="F8_E4M3"), "of a kind unknown here, 'F8_E4M3'"),
        (_gguf(version=1), "version 2 or 3, got 1"),
        (_gguf(facts=1), "has 24 bytes, but a number of 8"),
        (_gguf(facts=1, rest=struct.pack("<Q", 2**50)), "but a text of"),
        (_gguf(facts=1, rest=struct.pack("<QcIIQ", 1, b"a", 9, 4, 2**50)), "a list of"),
        (_gguf(facts=1, rest=struct.pack("<QcIIQ", 1, b"a", 9, 9, 1)), "a list of"),
        (
            _gguf(tensors=1, rest=struct.pack("<QcIQIQ", 1, b"a", 1, 4, 0, 2**40)),
            "one after another",
        ),
        (_gguf(tensors=1, rest=struct.pack("<QcIQIQ", 1, b"a", 1, 5, 3, 0)), "in blocks of 32"),
        (_gguf(tensors=1, rest=struct.pack("<QcIQIQ", 1, b"a", 1, 4, 999, 0)), "corrupt"),
        (b"\x80\x02K\x01.", "none that PyTorch wrote"),
        (b"PK\x03\x04 and nothing more", "corrupt"),
    ],
)
def test_a_damaged_file_is_refused_by_name(content: bytes, rule: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.file"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=rule) as caught:
        open_weights(path)
    assert "damaged.file" in str(caught.value)


@pytest.mark.parametrize("name", ["state_zip.bin", "state_legacy.bin"])
def test_a_file_that_ends_early_is_refused(name: str, tmp_path: Path) -> None:
    whole = (DATA / name).read_bytes()
    for cut in range(1, len(whole), 97):
        (tmp_path / name).write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match=name):
            dict(open_weights(tmp_path / name))


def test_flipped_numbers_in_a_zip_file_are_noticed(tmp_path: Path) -> None:
    whole = bytearray((DATA / "state_zip.bin").read_bytes())
    with np.load(DATA / "state.npz") as expected:
        at = whole.index(expected["whole"].tobytes())
    whole[at + 5] ^= 1
    (tmp_path / "a.bin").write_bytes(whole)
    with pytest.raises(CheckpointError, match="corrupt"):
        open_weights(tmp_path / "a.bin")["whole"]


def test_a_truncated_asset_is_refused(tmp_path: Path) -> None:
    for name, file in (("albert", "pytorch_model.bin"), ("minilm", "model.safetensors")):
        with open(assets.fetch(name) / file, "rb") as whole:
            (tmp_path / file).write_bytes(whole.read(2_000_000))
        with pytest.raises(CheckpointError, match=file):
            open_weights(tmp_path / file)


def test_a_compressed_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"x" * 1000)
    with pytest.raises(CheckpointError, match="nothing in it compressed"):
        open_weights(tmp_path / "a.bin")


@pytest.mark.parametrize("write", [tiny.write_zip, tiny.write_legacy])
def test_numbers_of_another_length_than_told(write: Callable[..., Path], tmp_path: Path) -> None:
    legacy = write is tiny.write_legacy
    pickled = tiny.state({"a": tiny.tensor("0", (2, 3), legacy=legacy)})
    with pytest.raises(CheckpointError, match=r"a\.bin"):
        dict(open_weights(write(tmp_path / "a.bin", pickled, {"0": RAW[:-4]})))


def test_directories_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"must hold model\.safetensors"):
        open_weights(tmp_path)
    with pytest.raises(CheckpointError, match="No such file"):
        open_weights(tmp_path / "absent.bin")


@pytest.mark.parametrize("slip", [NameError("no such name"), ImportError("no such module")])
def test_slips_of_our_own_are_not_blamed_on_the_file(slip: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(slip)), blame(tmp_path / "model.bin"):
        raise slip
    corrupt = pytest.raises(CheckpointError, match=r"model\.bin is truncated or corrupt")
    with corrupt, blame(tmp_path / "model.bin"):
        raise KeyError("missing")
