"""Fashion-MNIST: 2,000 images come with the package, the full set is read from a directory.

The subset is the first 200 images of each of the ten classes of the training set, in their
order there (Xiao, Rasul, Vollgraf 2017; MIT licence, see data/README.md).
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path

import numpy as np

from attnflow import validate
from attnflow.validate import Array

_FULL = "train-images-idx3-ubyte.gz"


def fashion_mnist(n: int = 2000, directory: str | Path = "") -> Array:
    """The first n images as rows, shape (n, 784), pixels from 0 to 255.

    With a `directory` they come from the full training set's file there.

    >>> images = fashion_mnist(3)
    >>> images.shape, float(images.min()), float(images.max())
    ((3, 784), 0.0, 255.0)
    """
    n = validate.count(n, "n")
    if directory:
        path = Path(directory) / _FULL
        if not path.is_file():
            raise ValueError(f"directory must hold {_FULL}, got {directory}")
        raw = np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=16)
    else:
        with (files("attnflow") / "data" / "fashion-mnist-2000.npz").open("rb") as file:
            raw = np.load(file)["images"]
    images = raw.reshape(-1, 784)
    if n > len(images):
        raise ValueError(f"n must be at most {len(images)}, got {n}")
    return images[:n].astype(np.float64)
