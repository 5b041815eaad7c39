import gzip

import numpy as np
import pytest

from attnflow.images import fashion_mnist

FULL = "train-images-idx3-ubyte.gz"


def full_set(directory, n):
    """A file as Fashion-MNIST's: a header of four big-endian integers, then the pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(n, 784), dtype=np.uint8)
    header = np.array([2051, n, 28, 28], dtype=">i4").tobytes()
    (directory / FULL).write_bytes(gzip.compress(header + pixels.tobytes()))
    return pixels


def test_the_subset_is_two_thousand_images_with_pixels_from_0_to_255():
    images = fashion_mnist()
    assert images.shape == (2000, 784)
    assert images.dtype == np.float64
    assert images.min() == 0
    assert images.max() == 255
    assert (images == np.round(images)).all()


def test_the_images_are_different_and_are_pictures():
    """Neighbouring pixels are alike, along rows and columns; a wrong order would mix them up."""
    images = fashion_mnist(200)
    assert len(np.unique(images, axis=0)) == 200
    square = images.reshape(-1, 28, 28)
    for axis in (1, 2):
        assert np.abs(np.diff(square, axis=axis)).mean() < square.std() / 2


@pytest.mark.parametrize("n", [1, 7, 2000])
def test_n_images_are_the_first_n(n):
    assert (fashion_mnist(n) == fashion_mnist()[:n]).all()
    assert fashion_mnist(n).shape == (n, 784)


def test_the_images_may_be_changed_without_changing_the_next_ones():
    first = fashion_mnist(2)
    before = first.copy()
    first += 1
    assert (fashion_mnist(2) == before).all()


@pytest.mark.parametrize("as_type", [str, lambda path: path])
def test_the_full_set_is_read_from_a_directory(tmp_path, as_type):
    pixels = full_set(tmp_path, 5)
    images = fashion_mnist(4, as_type(tmp_path))
    assert images.dtype == np.float64
    assert (images == pixels[:4]).all()


def test_more_images_than_there_are_is_refused(tmp_path):
    with pytest.raises(ValueError, match="n must be at most 2000, got 2001"):
        fashion_mnist(2001)
    full_set(tmp_path, 5)
    with pytest.raises(ValueError, match="n must be at most 5, got 6"):
        fashion_mnist(6, tmp_path)


def test_a_directory_without_the_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=f"directory must hold {FULL}, got "):
        fashion_mnist(1, tmp_path)
    with pytest.raises(ValueError, match=f"directory must hold {FULL}, got "):
        fashion_mnist(1, tmp_path / "nowhere")


@pytest.mark.parametrize("n", [0, -1, 1.5, "many", None])
def test_a_number_that_is_not_a_count_is_refused(n):
    with pytest.raises(ValueError, match="n must be a whole number >= 1, got "):
        fashion_mnist(n)
