"""The ledger, and claims.yml."""

import pytest

from attnflow.book.chapters.project import find_project
from attnflow.claims import (
    FAILS,
    HOLDS,
    OUTSIDE,
    check,
    control,
    ledger,
    read_claims,
)

# the ledger


def run(name, verdict, **more):
    return check(
        name,
        predicted=1.0,
        measured=2.0 if verdict == FAILS else 1.0,
        tol=0.1,
        hypotheses={"h": verdict != OUTSIDE},
        **more,
    )


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ([HOLDS], HOLDS),
        ([HOLDS, HOLDS], HOLDS),
        ([HOLDS, OUTSIDE], OUTSIDE),
        ([OUTSIDE, HOLDS, FAILS], FAILS),
        ([FAILS, HOLDS], FAILS),
    ],
)
def test_the_ledger_takes_the_worst_verdict(verdicts, worst):
    (entry,) = ledger([run("c", v, case=str(i)) for i, v in enumerate(verdicts)])
    assert entry.verdict == worst
    assert [row.verdict for row in entry.checks] == verdicts


def test_controls_do_not_change_the_verdict_of_their_claim():
    failing = control("c", removes="h", predicted=1.0, measured=2.0, tol=0.1)
    (entry,) = ledger([failing, run("c", HOLDS)])
    assert entry.verdict == HOLDS
    assert entry.controls == (failing,)
    assert len(entry.checks) == 1


def test_the_ledger_lists_the_claims_in_order_and_those_that_never_ran():
    entries = ledger([run("b", HOLDS), run("x", FAILS), run("a", HOLDS)], claims=["a", "b", "c"])
    assert [(e.id, e.verdict) for e in entries] == [
        ("a", HOLDS),
        ("b", HOLDS),
        ("c", ""),
        ("x", FAILS),
    ]
    assert [e.id for e in ledger([run("b", HOLDS), run("a", HOLDS)])] == ["b", "a"]
    assert ledger([]) == []


# claims.yml

GOOD = "- {id: a.b, chapter: a, kind: rate, source: 'someone'}\n"


def test_claims_are_read_by_id_with_all_that_they_say(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text(GOOD + "- {id: a.c, chapter: a, kind: bound}\n", encoding="utf-8")
    found = read_claims(path)
    assert list(found) == ["a.b", "a.c"]
    assert found["a.b"] == {"id": "a.b", "chapter": "a", "kind": "rate", "source": "someone"}
    assert read_claims(str(path)) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b", "claims must be a list of rows, got 'a.b'"),
        ("- a.b", r"claims must be a list of rows, got \['a.b'\]"),
        ("", "claims must be a list of rows, got None"),
        ("- {id: a.b, chapter: a}", "a claim must have id, chapter, kind, got {'id': 'a.b'"),
        ("- {id: '', chapter: a, kind: rate}", "a claim must have id, chapter, kind, got "),
        ("- {id: a.b, chapter: a, kind: guess}", "kind of a.b must be one of .*, got 'guess'"),
        ("- {id: a.b, chapter: a, kind: rate, source: 3}", "source of a.b must be text, got 3"),
        (GOOD + GOOD, "a claim must be listed once, got a.b twice"),
    ],
)
def test_what_is_no_list_of_claims_is_refused(tmp_path, text, message):
    path = tmp_path / "claims.yml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_claims(path)


def test_the_claims_of_the_book_are_read():
    book = find_project()
    assert read_claims(book.book / "claims.yml") == book.claims()
