"""Numbers in the JSON of others: as Python reads them, or refused for their length."""

from __future__ import annotations

import pytest

from attnflow.trained.jsons import parse
from attnflow.trained.weights import CheckpointError


def fraction(length: int) -> bytes:
    """A third, in so many characters."""
    return b"0." + b"3" * (length - 2)


@pytest.mark.parametrize("length", [3, 20, 79, 80])
def test_a_fraction_of_up_to_eighty_characters_is_read(length: int) -> None:
    found = parse(b'{"a": %s}' % fraction(length))["a"]
    assert abs(found - 1 / 3) <= 10.0 ** (2 - length) + 1e-16


@pytest.mark.parametrize("length", [81, 100, 5000])
def test_a_longer_fraction_is_refused_though_it_is_finite(length: int) -> None:
    with pytest.raises(CheckpointError, match=r"must hold finite numbers, got '0\.3333"):
        parse(b'{"a": %s}' % fraction(length))


def test_a_whole_number_has_at_most_twenty_digits() -> None:
    assert parse(b'{"a": 18446744073709551615}')["a"] == 2**64 - 1
    with pytest.raises(CheckpointError, match="at most 20 digits, got one of 21"):
        parse(b'{"a": 100000000000000000000}')
