"""The page that says how many random changes of the mathematics somebody noticed."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from attnflow.book.pages.mutations import Line, _page, lines


def row(change: str, verdict: str = "survived") -> dict[str, Any]:
    return {"verdict": verdict, "change": f"src/attnflow/{change}"}


ROWS = {
    "1": row("sphere/gram.py: a -> b", "killed"),
    "2": row("sphere/gram.py: a -> c"),
    "3": row("sphere/gram.py: a < 1 -> a <= 1"),
    "4": row("flows.py: a -> b", "hung"),
}
SAME = {"src/attnflow/sphere/gram.py: a < 1 -> a <= 1": "a is never 1 & that is tested"}


def test_who_hangs_was_noticed_and_who_cannot_be_noticed_stands_apart() -> None:
    assert lines(ROWS, SAME) == [Line("single files", 1, 0, 0), Line("sphere", 1, 1, 1)]


def test_the_page_counts_and_names_every_change_that_was_not_noticed() -> None:
    text = _page({"mutants": ROWS, "command": "make mutants NUMBER=4 SEED=0"}, SAME)
    ElementTree.fromstring(f"<div>{text}</div>")
    assert "2 of 3 changes were noticed, 66.7%" in text
    assert "a &lt; 1 -&gt; a &lt;= 1</code> a is never 1 &amp; that is tested" in text
    assert "a -&gt; c</code> not noticed" in text
    assert "a -&gt; b" not in text


def test_without_a_campaign_the_page_says_how_to_run_one() -> None:
    assert "make mutants" in _page(None, SAME)
