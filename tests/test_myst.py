"""Cells as text and back."""

from __future__ import annotations

from datetime import timedelta

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from attnflow.book.chapters.myst import (
    Cell,
    cells,
    first_difference,
    from_text,
    to_notebook,
    to_text,
    trimmed,
)
from attnflow.book.chapters.parameters import BookError

CELLS = [
    Cell("markdown", "# A title\n\nAnd a *paragraph* with $x^2$.", ()),
    Cell("markdown", "A second one.", ("remove-cell",)),
    Cell("code", "n: int = 3  # tokens, in [2, 64]", ("parameters",)),
    Cell("code", 'text = """\n```\n---\n:tags: [none]\n"""', ()),
    Cell("code", "---", ()),
    Cell("code", ":tags: [none]", ()),
    Cell("code", "    %%time", ("hide-input", "nbval-ignore-output")),
    Cell("markdown", "```{prf:theorem} Ω\n:label: a\n\n$$1$$\n```", ()),
    Cell("raw", "raw", ()),
]
TEXT = """# A title

And a *paragraph* with $x^2$.

+++ {"tags": ["remove-cell"]}

A second one.

```{code-cell} ipython3
:tags: [parameters]

n: int = 3  # tokens, in [2, 64]
```
"""


def test_cells_are_the_same_after_a_journey_through_text() -> None:
    assert to_text(CELLS[:3]) == TEXT
    assert from_text(to_text(CELLS)) == CELLS
    assert to_text(from_text(TEXT)) == TEXT
    assert (to_text([]), from_text("")) == ("", [])


lines = st.sampled_from([
    "", " ", "# Title", "+++", '+++ {"tags": ["a"]}', "```", "````", "```{code-cell}", "~~~", "---",
    ":tags: [a]", ": x", "x = 1", "    y = 2", "%%bash", "- a", "> b", "<!-- c -->", "\ttab", "\u2028",
    "```{note}", "$$", ":::{div}", "| a |", "\x0c", "{code-cell}", "---\ntags: [b]\n---",
])  # fmt: skip
sources = st.lists(lines, min_size=1, max_size=5).map("\n".join).map(trimmed).filter(bool)
tags = st.lists(
    st.sampled_from(["a", "hide-input", "1", "yes", "α", "a: b"]), max_size=2, unique=True
)
some = st.builds(Cell, st.sampled_from(["code", "markdown", "raw"]), sources, tags.map(tuple))


@settings(max_examples=300, deadline=timedelta(seconds=10), derandomize=True, database=None)
@given(listed=st.lists(some, max_size=4))
@pytest.mark.filterwarnings("ignore")
def test_no_cell_is_changed_in_silence(listed: list[Cell]) -> None:
    try:
        text = to_text(listed)
    except BookError:
        return
    assert from_text(text) == listed
    assert to_text(from_text(text)) == text


def test_prose_that_would_be_cut_is_refused() -> None:
    with pytest.raises(BookError, match=r"toy\.ipynb: cell 1 cannot be written as MyST"):
        to_text([Cell("markdown", "one\n\n+++\n\ntwo", ())], "toy.ipynb")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (":tags: hide-input", r"text/a\.md is no valid MyST: 'hide-input' is not of type 'array'$"),
        (":tags: [1]", r"text/a\.md is no valid MyST: 1 is not of type 'string'$"),
        (":label: x", r"text/a\.md: a cell has tags only, got 'label' in cell 2"),
        (":tags: [a", r"text/a\.md is no valid MyST: .*line 3"),
        ("---\n- a\n---", r"text/a\.md is no valid MyST"),
    ],
)
def test_options_that_are_not_understood_are_named(options: str, message: str) -> None:
    text = f"# Title\n\n```{{code-cell}} ipython3\n{options}\n\nx = 1\n```\n"
    with pytest.raises(BookError, match=message):
        from_text(text, "text/a.md")


def test_blank_lines_around_a_cell_and_empty_cells_do_not_count() -> None:
    assert trimmed("\n  \n  x\n\n y \n\n") == "  x\n\n y"
    notebook = new_notebook(cells=[new_markdown_cell("\n# Title\n"), new_code_cell(" \n")])
    assert cells(notebook) == [Cell("markdown", "# Title", ())]


def test_the_first_difference_is_named() -> None:
    assert first_difference(CELLS, list(CELLS)) is None
    assert first_difference(CELLS[:1], CELLS[:2]) == (
        2, "missing", "markdown [remove-cell] 'A second one.'",
    )  # fmt: skip


def executed(*sources: str) -> nbformat.NotebookNode:
    return new_notebook(
        cells=[
            new_code_cell(
                source, execution_count=k, outputs=[new_output("stream", text=f"output {k}")]
            )
            for k, source in enumerate(sources, 1)
        ]
    )


def test_code_that_did_not_change_keeps_its_outputs() -> None:
    before = executed("a = 1", "b = 2", "a = 1")
    now = to_notebook([Cell("code", s, ()) for s in ("new", "a = 1", "b = 3", "a = 1")], before)
    assert [c.execution_count for c in now.cells] == [None, 1, None, 3]
    assert [len(c.outputs) for c in now.cells] == [0, 1, 0, 1]
    assert cells(to_notebook(CELLS)) == CELLS


def test_ids_depend_on_what_cells_say_and_on_nothing_else() -> None:
    cell, other = Cell("code", "x = 1", ()), Cell("markdown", "Prose.", ())
    first = [c.id for c in to_notebook([cell, other, cell, cell]).cells]
    assert first == [c.id for c in to_notebook([cell, other, cell, cell]).cells]
    assert len(set(first)) == 4
    assert [c.id for c in to_notebook([other]).cells] == [first[1]]
    assert [c.id for c in to_notebook([cell._replace(tags=("a",))]).cells] == [first[0]]
    nbformat.validate(to_notebook([cell, other, cell, cell]))
