"""The evidence beside a box, and what is said of folded code."""

from __future__ import annotations

import re

import pytest

from attnflow.book.pages.strips import _counted, described, strip
from attnflow.claims import check, control, ledger


def rows(*measured: float, controls: tuple[float, ...] = (2.0,)):
    return [
        *(
            check("a.b", case=f"n {k}", predicted=1.0, measured=m, tol=0.1)
            for k, m in enumerate(measured)
        ),
        *(
            control("a.b", removes=f"h{k}", predicted=1.0, measured=m, tol=0.1)
            for k, m in enumerate(controls)
        ),
    ]


def test_a_strip_counts_and_names_the_nearest_margin():
    html = strip(ledger(rows(1.01, 1.05)))
    assert 'class="af-strip af-holds"' in html
    assert "2 checks hold, 1 control fails as it must" in html
    assert "nearest to failing: 2×" in html
    assert re.findall(r'href="#([^"]+)"', html) == ["check-a-b-n-0", "check-a-b-n-1", "control-a-b"]


@pytest.mark.parametrize("bad", [rows(1.01, 1.5), rows(1.0, controls=(1.0,))])
def test_a_strip_says_where_a_row_is_not_as_it_must(bad):
    html = strip(ledger(bad))
    assert 'class="af-strip af-fails"' in html
    assert "1 NOT as it must" in html


def test_a_strip_is_outside_where_a_hypothesis_is_not_met():
    row = check("a.b", predicted=1.0, measured=9.0, tol=0.1, hypotheses={"n > 1": False})
    assert 'class="af-strip af-outside"' in strip(ledger([row]))


def test_words_are_escaped():
    row = check("a.b", case="<script>", predicted=1.0, measured=1.0, tol=0.1)
    assert "<script>" not in strip(ledger([row]))


def test_one_and_many_are_said_as_english_says_them():
    assert _counted(rows(1.0, controls=())) == "1 check holds"
    assert (
        _counted(rows(1.0, 1.0, controls=(2.0, 3.0)))
        == "2 checks hold, 2 controls fail as they must"
    )


@pytest.mark.parametrize(
    ("code", "draws", "said"),
    [
        ("def f(x):\n    return x\nclass G:\n    pass", False, "defines f, G"),
        ("from math import pi", False, "imports"),
        ("x = 1", False, "computes"),
        ("%matplotlib inline", False, "computes"),
        ("def f(x):\n    return x", True, "draws the figure"),
    ],
)
def test_folded_code_says_what_it_does(code, draws, said):
    assert described(code, draws) == said
