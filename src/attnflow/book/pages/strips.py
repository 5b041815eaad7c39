"""The page turned round: statements carry their evidence, and code that tests is folded.

* After a box (theorem, proposition, ...) stands a strip: how many checks and controls the claims
  that name it have (``box`` in claims.yml), whether they come out as they must, and which check is
  nearest to failing. It opens to the rows, each of which leads to the code that made it.
* A cell that ends in checks is folded under a line that says what is inside. A cell with the tag
  ``teaches`` stays open: its code is part of the lecture.
* Beside the title of a box stands where it is from (:mod:`attnflow.book.pages.badges`).
* Any other folded cell says what its code does, in place of "Show code cell source".

All of it is done while pages are made: notebooks, papermill and nbval see ordinary cells.
"""

from __future__ import annotations

import ast
import hashlib
import re
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from attnflow.book.chapters.notebooks import checks
from attnflow.book.pages import reading
from attnflow.book.pages.badges import authors, badge, corrections
from attnflow.book.pages.forms import form
from attnflow.book.pages.ledger import anchor
from attnflow.book.render.typeset import typeset
from attnflow.claims import HOLDS, OUTSIDE, Check, Entry, ledger

#: Cells with this tag are not folded though they check something.
TEACHES = "teaches"


class Evidence(SphinxPostTransform):
    """Strips after boxes, and folds around cells; before MyST-NB makes its own (priority 199)."""

    default_priority = 150
    formats = ("html",)

    def run(self, **given: Any) -> None:
        path = Path(self.env.doc2path(self.env.docname))
        if path.suffix != ".ipynb":
            return
        notebook = reading.notebook(path)
        rows = {row.anchor(): row for row in checks(notebook)}
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        tags = [cell.metadata.get("tags", []) for cell in code]
        cells = [n for n in self.document.findall(nodes.container) if _is_code(n)]
        shown = [(n, t) for n, t in zip(cells, _shown(tags), strict=False)]
        for node, own in shown:
            _fold(node, own, rows, path.stem)
        claims = reading.claims(path.with_name("claims.yml"))
        entries = {e.id: e for e in ledger(rows.values(), claims) if e.checks or e.controls}
        known, corrected = (
            authors(path.with_name("references.bib")),
            corrections(path.with_name("errata.yml")),
        )
        for box in list(self.document.findall(_is_box)):
            named = [entries[c] for c in entries if claims.get(c, {}).get("box") == box["label"]]
            if named:
                place = box.parent.index(box) + 1
                box.parent.insert(place, nodes.raw("", strip(named), format="html"))
                where = badge(named, claims, known, corrected)
                box.children[0].append(nodes.raw("", where, format="html"))


def _is_code(node: nodes.container) -> bool:
    return bool(node.get("nb_element") == "cell_code")


def _shown(tags: list[list[str]]) -> list[list[str]]:
    """The tags of the cells that MyST-NB shows at all."""
    return [own for own in tags if not {"remove-cell", "remove_cell"} & set(own)]


def _is_box(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Element) and "realtype" in node and bool(node.get("label"))


def _fold(node: nodes.container, tags: list[str], rows: dict[str, Check], chapter: str) -> None:
    """Say what is inside of a cell that is folded, and fold it if it tests."""
    html = "".join(raw.astext() for raw in node.findall(nodes.raw))
    here = [rows[a] for a in re.findall(r'class="af-check[^>]* id="([^"]+)"', html) if a in rows]
    code = next((block.astext() for block in node.findall(nodes.literal_block)), "")
    lines = f"{code.count(chr(10)) + 1} lines"
    if "parameters" in tags:
        names = ", ".join(re.findall(r"^(\w+) *[:=]", code, flags=re.MULTILINE))
        node["hide_mode"], node["prompt_show"] = "all", f"Parameters of this chapter: {names}"
        place = node.parent.index(node) + 1
        node.parent.insert(place, nodes.raw("", form(chapter, code), format="html"))
    elif here and TEACHES not in tags:
        node["hide_mode"] = "all"
        node["classes"].append("af-tests")
        node["prompt_show"] = f"{_counted(here)}: {_claims(here)} ({lines} of code)"
    elif node.get("hide_mode"):
        node["prompt_show"] = f"Code: {described(code, 'af-figure' in html)} ({lines})"
    else:
        return
    node["prompt_hide"] = node["prompt_show"]


def _claims(rows: list[Check]) -> str:
    names = list(dict.fromkeys(row.id for row in rows))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _counted(rows: list[Check]) -> str:
    """How many checks and controls, in words.

    >>> from attnflow.claims import check, control
    >>> _counted([check("a", predicted=1, measured=1, tol=0.1)] * 2)
    '2 checks hold'
    """
    tests, controls = [r for r in rows if not r.is_control], [r for r in rows if r.is_control]
    parts = []
    for kind, found, good in (("check", tests, "hold"), ("control", controls, "fail as they must")):
        if not found:
            continue
        bad = sum(not row.sound for row in found)
        words = good if len(found) > 1 else {"hold": "holds"}.get(good, "fails as it must")
        number = f"{len(found)} {kind}{'s' * (len(found) > 1)}"
        parts.append(f"{number} {words}" if not bad else f"{number}, {bad} NOT as it must")
    return ", ".join(parts)


def described(code: str, draws: bool) -> str:
    """What a piece of code does, from what it defines.

    >>> described("def moved(x):\\n    return x", False)
    'defines moved'
    >>> described("import numpy as np", False), described("a = 1", True), described("a = 1", False)
    ('imports', 'draws the figure', 'computes')
    """
    if draws:
        return "draws the figure"
    try:
        body = ast.parse(code).body
    except SyntaxError:
        return "computes"
    names = [n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    if names:
        return "defines " + ", ".join(names)
    imports = any(isinstance(n, ast.Import | ast.ImportFrom) for n in body)
    return "imports" if imports else "computes"


def strip(entries: list[Entry], page: str = "") -> str:
    """The evidence for one box of `page` (this one, if ""), as HTML: a line that opens to all rows."""
    rows = [row for entry in entries for row in (*entry.checks, *entry.controls)]
    sound = all(row.sound for row in rows)
    outside = any(row.verdict == OUTSIDE for row in rows)
    state = "fails" if not sound else "outside" if outside else "holds"
    near = [row for row in rows if row.verdict == HOLDS and not row.is_control]
    margin = ""
    if near:
        least = min(near, key=lambda row: row.slack)
        margin = f'<span class="af-margin">nearest to failing: {_times(least.slack)}</span>'
    body = "".join(_claim(entry, page) for entry in entries)
    return (
        f'<details class="af-strip af-{state}"><summary><span class="af-label">evidence</span> '
        f"<strong>{escape(_counted(rows))}</strong> {margin}</summary>{body}</details>"
    )


def _claim(entry: Entry, page: str) -> str:
    lines = "".join(
        f'<tr class="{"af-control" if row.is_control else "af-check-row"}">'
        f'<td><a href="{page}#{escape(row.anchor())}">{typeset(_label(row))}</a></td>'
        f"<td>{escape(row.shown()['predicted'])}</td><td>{escape(row.shown()['measured'])}</td>"
        f"<td>{escape(row.verdict)}, {_times(row.distance if row.is_control else row.slack)}</td></tr>"
        for row in (*entry.checks, *entry.controls)
    )
    return (
        f'<p><a href="ledger.html#{anchor(entry.id)}"><code>'
        f"{escape(entry.id)}</code></a></p>"
        '<div class="af-scroll"><table><thead><tr><th></th><th>predicted</th><th>measured</th>'
        f"<th>verdict, slack</th></tr></thead><tbody>{lines}</tbody></table></div>"
    )


def _label(row: Check) -> str:
    return f"control: {row.removes}" if row.is_control else row.case or "check"


def _times(factor: float) -> str:
    """A factor in two digits or so.

    >>> _times(2.345), _times(126.3), _times(float("inf"))
    ('2.3×', '126×', '> 1000×')
    """
    return "> 1000×" if factor > 1000 else f"{factor:.0f}×" if factor >= 10 else f"{factor:.2g}×"


def _outdated(app: Sphinx, env: Any, added: Any, changed: Any, removed: Any) -> list[str]:
    """Chapters are written again when what is said beside their boxes may have changed."""
    book = Path(app.srcdir) / "book"
    sources = [book / "claims.yml", book / "errata.yml", book / "references.bib"]
    digest = hashlib.sha256()
    for path in [*sources, *sorted(Path(__file__).parents[1].rglob("*.py"))]:
        digest.update(path.read_bytes() if path.is_file() else b"")
    known, env.attnflow_evidence = getattr(env, "attnflow_evidence", ""), digest.hexdigest()
    if known == env.attnflow_evidence:
        return []
    return [name for name in env.found_docs if Path(env.doc2path(name)).suffix == ".ipynb"]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Evidence)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
