"""What nbval compares: each output as what it is. A digit that matters fails, an edge does not."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from attnflow import claims, prose
from attnflow.book.chapters.compare import disagreement, merge, typed
from attnflow.book.chapters.project import find_project
from attnflow.claims import check, control


def shown(row: claims.Check) -> Any:
    data, metadata = row._repr_mimebundle_()
    return new_output("execute_result", data=data, metadata=metadata)


def said(name: str, template: str, *values: Any) -> Any:
    words = prose.said(template, *values)
    field = {"template": words.template, "values": list(words.values)}
    metadata = {"scrapbook": {"name": name, "mime_prefix": prose.PREFIX}, prose.FIELD: field}
    return new_output("display_data", data={prose.MIME: repr(words.text)}, metadata=metadata)


def half(measured: float, **options: Any) -> claims.Check:
    return check("demo.half", predicted=0.5, tol=1e-3, measured=measured, **options)


def test_a_number_on_the_edge_of_a_digit_agrees_although_it_prints_differently() -> None:
    a, b = half(0.50014999), half(0.50015001)
    assert repr(a) != repr(b)
    assert disagreement(shown(a), shown(b)) == ""


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (half(0.5004 + 0.99e-4), True),
        (half(0.5004 - 0.99e-4), True),
        (half(0.5004 + 1.01e-4), False),
        (half(0.5004, case="other"), False),
        (half(0.5004, hypotheses={"n > 1": False}), False),
        (half(0.5004)._replace(verdict="fails"), False),
        (half(0.5004)._replace(tol=2e-3), False),
        (half(0.5004)._replace(tol=1.00001e-3), False),
        (half(0.5004)._replace(tol=1e-3 * (1 + 1e-15)), True),
        (half(0.5004)._replace(relation="<="), False),
        (half(0.5004, interval=(0.5003, 0.5005)), False),
        (half(float("nan")), False),
        (control("demo.half", removes="it", predicted=0.5, measured=0.5004, tol=1e-3), False),
    ],
)
def test_numbers_may_differ_by_a_tenth_of_the_tolerance_and_words_not_at_all(
    other: claims.Check, same: bool
) -> None:
    assert half(0.5004).agrees(other) is same
    assert other.agrees(half(0.5004)) is same
    assert (disagreement(shown(half(0.5004)), shown(other)) == "") is same


def test_the_ends_of_an_interval_are_compared_too() -> None:
    row = half(0.5, interval=(0.4995, 0.5005))
    assert row.agrees(half(0.5, interval=(0.49955, 0.50045)))
    assert not row.agrees(half(0.5, interval=(0.4997, 0.5005)))


def test_without_a_tolerance_six_digits_count() -> None:
    def bound(measured: float) -> claims.Check:
        return check("demo.bound", predicted=200.0, measured=measured, relation="<=")

    assert bound(123.456).agrees(bound(123.4565))
    assert not bound(123.456).agrees(bound(123.458))
    assert bound(float("-inf")).agrees(bound(float("-inf")))
    assert not bound(3.0).agrees(bound(float("-inf")))


@pytest.mark.parametrize("mime", ["text/plain", "text/html", claims.MIME])
def test_a_digit_edited_by_hand_is_found_although_the_numbers_are_right(mime: str) -> None:
    honest, edited = shown(half(0.5004)), shown(half(0.5004))
    data = edited["data"][mime]
    if isinstance(data, str):
        edited["data"][mime] = data.replace("0.5004", "0.5001")
    else:
        data["measured"] = "0.5001"
    assert edited != honest
    assert "the stored output shows" in disagreement(edited, honest)


@pytest.mark.parametrize(
    ("template", "a", "b", "same"),
    [
        ("{:.2f}", 2.2049999, 2.2050001, True),
        ("{:.2f}", 2.204, 2.2089, True),
        ("{:.2f}", 2.204, 2.2141, False),
        ("{:.0f} %", 57.6, 58.2, False),
        ("{:.3g}", 1099438.0, 1099438.9, True),
        ("{:.3g}", 1099438.0, 1105000.0, False),
        ("{:.0e}", 2.4e9, 2.6e9, True),
        ("{:.0e}", 2.4e9, 3.0e9, False),
        ("{:.1%}", 0.1234, 0.1238, True),
        ("{:.1%}", 0.1234, 0.1244, False),
        ("{}", 64, 65, False),
        ("{}", "polytope", "frozen", False),
        ("{:.1f}", float("inf"), float("inf"), True),
        ("{:.1f}", float("inf"), 3.0, False),
        ("{:.1f}", float("nan"), float("nan"), True),
    ],
)
def test_a_number_of_a_sentence_counts_at_the_precision_it_is_printed(
    template: str, a: Any, b: Any, same: bool
) -> None:
    assert prose.said(template, a).agrees(prose.said(template, b)) is same


def test_other_words_or_another_name_disagree() -> None:
    assert disagreement(said("a", "{:.1f}", 1.0), said("b", "{:.1f}", 1.0))
    assert disagreement(said("a", "{:.1f}", 1.0), said("a", "{:.1f} %", 1.0))
    assert not disagreement(said("a", "{:.1f}", 1.0), said("a", "{:.1f}", 1.01))


@pytest.mark.parametrize("broken", [{}, {"template": "{:.1f}"}, {"template": 3, "values": 4}])
def test_a_stored_number_that_cannot_be_read_disagrees(broken: dict[str, Any]) -> None:
    stored = said("a", "{:.1f}", 1.0)
    stored["metadata"][prose.FIELD] = broken
    assert "no readable numbers" in disagreement(stored, said("a", "{:.1f}", 1.0))


@pytest.mark.parametrize(
    ("template", "values", "says"),
    [
        ("{}", (0.5,), "a float needs a precision"),
        ("{:.2f}", (), "one unnamed field a value"),
        ("{x:.2f}", (1.0,), "one unnamed field a value"),
        ("{:>9}", (1.0,), "a field is"),
        ("{}", ([1],), "numbers, or text"),
        ("{:.2f}", ("much",), "numbers, or text"),
    ],
)
def test_words_without_a_stated_precision_are_refused(
    template: str, values: tuple[Any, ...], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        prose.said(template, *values)


def test_powers_of_ten_are_set_as_such() -> None:
    assert prose.said("{:.0e}", 1e11).text == "10¹¹"
    assert prose.said("{:.1e} or {:.3g}", 2.04e-9, 1099438.0).text == "2.0×10⁻⁹ or 1.1×10⁶"
    assert prose.said("{:,.0f}", 1234567.0).text == "1,234,567"


def test_what_is_said_comes_back_from_the_metadata() -> None:
    words = prose.said("{:.1f} of {} in {:.0f}", 0.25, "three", float("inf"))
    stored = [prose._to_json(v) for v in words.values]
    assert (
        prose.from_metadata({prose.FIELD: {"template": words.template, "values": stored}}) == words
    )


def chapter(*outputs: list[Any]) -> nbformat.NotebookNode:
    cells = [new_code_cell("1", id=f"c{k}", outputs=o) for k, o in enumerate(outputs)]
    return new_notebook(cells=cells)


def test_storing_anew_keeps_what_agrees_and_takes_what_does_not() -> None:
    stored = chapter([shown(half(0.50014999)), shown(half(0.5004))], [said("a", "{:.1f}", 1.04)])
    fresh = chapter([shown(half(0.50015001)), shown(half(0.5006))], [said("a", "{:.1f}", 1.06)])
    merged = merge(stored, fresh)
    assert merged.cells[0].outputs[0] == shown(half(0.50014999))
    assert merged.cells[0].outputs[1] == shown(half(0.5006))
    assert merged.cells[1].outputs == [said("a", "{:.1f}", 1.04)]


def drawn(html: str, alt: str = "a line") -> Any:
    data = {"text/html": f"<figure>{html}</figure>", "text/plain": f"[figure: {alt}]"}
    return new_output("display_data", data=data)


@pytest.mark.parametrize(
    ("fresh", "kept"),
    [
        (drawn('<svg><use x="1.000002" y="-3.5"/></svg>'), True),
        (drawn('<svg><use x="1.02" y="-3.5"/></svg>'), False),
        (drawn('<svg><use x="1.0" y="3.5"/></svg>'), False),
        (drawn('<svg><use x="1.0" y="-3.5"/><use x="2.0"/></svg>'), False),
        (drawn('<svg class="b"><use x="1.0" y="-3.5"/></svg>'), False),
        (drawn("<p>1.0</p>"), False),
        (new_output("stream", name="stdout", text="1.0"), False),
        (shown(half(0.5)), False),
    ],
)
def test_a_drawing_that_no_screen_could_tell_apart_stays_as_it_is_stored(
    fresh: Any, kept: bool
) -> None:
    before = drawn('<svg><use x="1.000001" y="-3.5"/></svg>')
    stored, again = (
        new_notebook(cells=[new_code_cell("", id="one", outputs=[o])]) for o in (before, fresh)
    )
    assert merge(stored, again).cells[0].outputs == [before if kept else fresh]


def test_numbers_of_a_script_are_no_places_in_a_drawing() -> None:
    old, new = (chapter([drawn(f"<svg/><script>{x}</script>")]) for x in ("1.000", "1.001"))
    assert "1.001" in merge(old, new).cells[0].outputs[0]["data"]["text/html"]


def test_what_is_printed_is_stored_anew() -> None:
    old, new = (
        new_notebook(cells=[new_code_cell("", id="one", outputs=[new_output("stream", text=text)])])
        for text in ("1.0", "2.0")
    )
    assert merge(old, new).cells[0].outputs[0].text == "2.0"


def test_every_number_of_the_book_says_how_it_is_compared() -> None:
    for name, read in find_project().chapters().items():
        for cell in read.read().cells:
            for output in cell.get("outputs", []):
                known = claims.MIME in output.get("data", {}) or prose.MIME in output.get(
                    "data", {}
                )
                assert typed(output) == known, name


PREAMBLE = """\
from attnflow.claims import check
from attnflow.prose import say
def half(measured):
    return check("demo.half", predicted=0.5, tol=1e-3, measured=measured)
"""


def _strip(output: Any) -> Any:
    output["metadata"] = {}
    return output


def _reword(output: Any) -> Any:
    output["data"]["text/plain"] = output["data"]["text/plain"].replace("0.5004", "0.5005")
    return output


#: What a cell computes, what is stored for it, and whether nbval must pass.
CELLS: dict[str, tuple[str, Callable[[], Any], bool]] = {
    "the same": ("half(0.5004)", lambda: shown(half(0.5004)), True),
    "an edge": ("half(0.50015001)", lambda: shown(half(0.50014999)), True),
    "a digit": ("half(0.5004)", lambda: shown(half(0.5006)), False),
    "a verdict": ("half(0.50095)", lambda: shown(half(0.50102)), False),
    "edited text": ("half(0.5004)", lambda: _reword(shown(half(0.5004))), False),
    "no numbers": ("half(0.5004)", lambda: _strip(shown(half(0.5004))), False),
    "said": ('say("a", "{:.2f}", 2.2050001)', lambda: said("a", "{:.2f}", 2.2049999), True),
    "said wrong": ('say("a", "{:.2f}", 2.2)', lambda: said("a", "{:.2f}", 2.21), False),
    "text": ("'0.50'", lambda: new_output("execute_result", data={"text/plain": "'0.50'"}), True),
    "other": ("'0.50'", lambda: new_output("execute_result", data={"text/plain": "'0.51'"}), False),
    "gone": ("None", lambda: shown(half(0.5004)), False),
}


def test_nbval_fails_where_it_must_and_only_there(tmp_path: Path) -> None:
    """A real run of nbval, which finds the plugin by itself, over one cell of each kind."""
    notebook = new_notebook(metadata=find_project().chapter("attention").read().metadata)
    notebook.cells = [new_code_cell(PREAMBLE, execution_count=1)]
    for k, (source, stored, _) in enumerate(CELLS.values(), start=2):
        output = stored()
        if output.output_type == "execute_result":
            output.execution_count = k
        notebook.cells.append(new_code_cell(source, execution_count=k, outputs=[output]))
    nbformat.write(notebook, tmp_path / "small.ipynb")
    (tmp_path / "none.ini").write_text("[pytest]\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-rA", "-p", "no:warnings"]
    command += ["-p", "no:cacheprovider", "-c", "none.ini", "small.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    passed = {int(n): word == "PASSED" for word, n in re.findall(
        r"^(PASSED|FAILED) \S*::Cell (\d+)", done.stdout, re.MULTILINE)}  # fmt: skip
    expected = {0: True} | {k: ok for k, (_, _, ok) in enumerate(CELLS.values(), start=1)}
    assert passed == expected, done.stdout
