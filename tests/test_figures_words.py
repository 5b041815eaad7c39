"""Texts whose words are coloured by numbers."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from attnflow import figures

WORDS = ["The", " cat", " <sat>"]
LAYERS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])


def text(**options: Any) -> figures.Shown:
    settings = {"values": {"sensitivity": LAYERS, "length": np.array([3.0, 4.0, 6.0])}, **options}
    return figures.spans(
        settings.pop("tokens", WORDS), settings.pop("values"), name="a-text", alt="A text", caption="", **settings
    )  # fmt: skip


def test_the_data_are_the_words_and_their_numbers() -> None:
    found = re.search(r'<script type="application/json">(.*?)</script>', text().html, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert data["tokens"] == WORDS
    assert data["values"]["sensitivity"] == LAYERS.tolist()
    assert data["values"]["length"] == [[3.0, 4.0, 6.0]]
    assert data["layers"] == ["1", "2"]


def test_words_are_coloured_where_no_script_runs_and_never_markup() -> None:
    html = text().html
    assert html.count("<span style=") == 3
    assert "&lt;sat&gt;" in html
    assert "<sat>" not in html.partition("<script")[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"values": {"v": np.ones(2)}}, r"values must have shape \(3,\) or \(layers, 3\)"),
        ({"values": {"v": LAYERS, "w": np.ones((3, 3))}}, "as many layers as the others"),
        ({"values": {"v": np.array([1.0, np.nan, 0.0])}}, "values must be finite"),
        ({"values": {}}, "a text must have tokens and values, got 3 and 0"),
        ({"layers": ["only one"]}, "layers must name 2 layers, got 1"),
        ({"start": 2}, "start must be one of 2 layers, got 2"),
    ],
)
def test_numbers_that_do_not_belong_to_the_words_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        text(**options)
