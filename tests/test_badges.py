"""Where a statement is from, beside its title."""

from __future__ import annotations

import pytest

from attnflow.book.chapters.project import find_project
from attnflow.book.pages.badges import authors, badge, corrections, erratum_anchor, from_where
from attnflow.claims import Entry, check

KNOWN = {"a2020": "Alpha et al. 2020", "b2021": "Beta 2021"}
ROW = check("demo.half", predicted=1.0, measured=1.0, tol=0.1)
ENTRY = Entry("demo.half", "holds", (ROW,), ())


def shown(source: str, corrected: dict[str, str] | None = None) -> str:
    return badge([ENTRY], {"demo.half": {"source": source}}, KNOWN, corrected or {})


def test_a_source_is_named_with_its_number():
    assert "Alpha et al. 2020, Theorem 3</a>" in shown("{cite:t}`a2020`, Theorem 3.")
    assert "new here" not in shown("{cite:t}`a2020`, Theorem 3.")


@pytest.mark.parametrize("source", ["This book.", "This book, after {cite:t}`a2020`."])
def test_what_the_book_found_is_new_here(source):
    assert '<span class="af-badge af-new">new here</span>' in shown(source)


def test_a_box_that_an_erratum_is_decided_by_is_corrected():
    assert "corrected" not in shown("{cite:t}`b2021`.")
    html = shown("{cite:t}`b2021`.", {ROW.anchor(): "erratum-x"})
    assert 'href="errata.html#erratum-x">corrected</a>' in html


def test_two_sources_of_one_citation_are_both_named():
    assert from_where("{cite:t}`a2020,b2021`.", KNOWN) == "Alpha et al. 2020, Beta 2021"


def test_words_are_escaped():
    assert "<b>" not in shown("<b>")


def test_the_bibliography_and_the_errata_of_the_book_are_read():
    book = find_project().book
    known = authors(book / "references.bib")
    assert known["castin2024"].startswith("Castin")
    assert known["castin2024"].endswith("2024")
    found = corrections(book / "errata.yml")
    assert all(anchor.startswith("erratum-") for anchor in found.values())
    assert len(set(found.values())) >= 10


def test_errata_of_one_place_have_anchors_of_their_own():
    one = erratum_anchor("Talk", {"where": "Claim.", "printed": "The sign is plus."})
    two = erratum_anchor("Talk", {"where": "Claim.", "printed": "The sum is wrong."})
    assert one != two
