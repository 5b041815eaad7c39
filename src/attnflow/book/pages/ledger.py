"""``{ledger}``: every claim in one line that opens, with filters, read from the rendered notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from attnflow.book.pages import reading
from attnflow.book.pages.tables import Table
from attnflow.book.render.typeset import typeset
from attnflow.claims import FAILS, HOLDS, OUTSIDE, Check, Entry, ledger

COLUMNS = ("", "predicted", "measured", "verdict", "slack or distance")
_CLASS = {HOLDS: "holds", FAILS: "fails", OUTSIDE: "outside", "": "pending"}


class Ledger(Table):
    """Every claim, and what this build's run of its chapter says of it."""

    def lines(self) -> list[str]:
        claims, rows = self.claims(), self.rows()
        entries = ledger([row for found in rows.values() for row in found], claims)
        out = [score(entries), "", filters(claims), ""]
        titles = {name: chapter.title for name, chapter in reading.chapters().items()}
        names = list(dict.fromkeys(row["chapter"] for row in claims.values()))
        for name in sorted(names, key=lambda name: _place(name, titles)):
            out += [f"## [{titles.get(name, name)}]({name})", ""]
            for entry in entries:
                if claims.get(entry.id, {}).get("chapter") == name:
                    out += claim_lines(entry, claims[entry.id])
        return out


class Score(Table):
    """``{score}``: how many claims hold in this build, in one sentence."""

    def lines(self) -> list[str]:
        rows = [row for found in self.rows().values() for row in found]
        return [f"{score(ledger(rows, self.claims()))} [The ledger](ledger) has them all.", ""]


def _place(name: str, titles: dict[str, str]) -> int:
    return list(titles).index(name) if name in titles else len(titles)


def score(entries: list[Entry]) -> str:
    """How many claims hold, in one sentence."""
    held = sum(entry.verdict == HOLDS for entry in entries)
    controls = [row for entry in entries for row in entry.controls]
    return (
        f"**{held} of {len(entries)} claims hold**, by {sum(len(e.checks) for e in entries)} "
        f"checks; {sum(row.sound for row in controls)} of {len(controls)} negative controls "
        "fail, as they must."
    )


def filters(claims: dict[str, dict[str, str]]) -> str:
    """A search field and three choices. Without JavaScript they are not there."""
    choices = {
        "chapter": list(dict.fromkeys(row["chapter"] for row in claims.values())),
        "kind": sorted({row["kind"] for row in claims.values()}),
        "source": ["new here", "from the documents"],
        "verdict": [HOLDS, FAILS, OUTSIDE],
    }
    selects = "".join(
        f"<label>{name} <select data-filter='{name}'><option value=''>all</option>"
        + "".join(f"<option>{escape(value)}</option>" for value in values)
        + "</select></label>"
        for name, values in choices.items()
    )
    return (
        "<form class='af-filters' hidden onsubmit='return false'><label>search "
        f"<input type='search' data-filter='text'></label>{selects}"
        "<output aria-live='polite'></output></form>"
    )


def claim_lines(entry: Entry, claim: dict[str, str]) -> list[str]:
    """One claim: a line with its statement, verdict and margin, which opens to everything else."""
    verdict = entry.verdict or "not run"
    source = "new here" if is_new(claim) else "from the documents"
    text = escape(f"{entry.id} {claim['statement']} {claim['source']}".lower(), quote=True)
    page = f"{claim['chapter']}.html"
    return [
        f"<details class='af-claim af-{_CLASS[entry.verdict]}' id='{anchor(entry.id)}' "
        f"data-chapter='{claim['chapter']}' data-kind='{claim['kind']}' data-source='{source}' "
        f"data-verdict='{verdict}' data-text='{text}'>"
        f"<summary><span class='af-statement'>{inline(claim['statement'])}</span>"
        f"<span class='af-side'>{bar(entry)}<strong class='af-verdict'>{verdict}</strong></span>"
        f"<code>{entry.id}</code></summary>",
        "",
        f"*{claim['source'].strip()}* Hypotheses: {claim.get('hypotheses', 'none').strip()}"
        + (f" Stated in {{prf:ref}}`{claim['box']}`." if claim.get("box") else "")
        + f" Kind: {claim['kind']}.",
        "",
        evidence((*entry.checks, *entry.controls), page),
        "",
        "</details>",
        "",
    ]


def anchor(claim: str) -> str:
    """The id of a claim on the page of the ledger.

    >>> anchor("attention.depth")
    'claim-attention-depth'
    """
    return f"claim-{claim.replace('.', '-')}"


def is_new(claim: dict[str, str]) -> bool:
    """Whether the book itself is the source of a claim."""
    return claim["source"].strip().lower().startswith("this book")


def bar(entry: Entry) -> str:
    """How much of its tolerance the check that is nearest to failing uses."""
    held = [row for row in entry.checks if row.verdict == HOLDS]
    if not held:
        return ""
    used = 100 / min(row.slack for row in held)
    said = (
        f"uses {used:.0f} % of what is allowed"
        if used >= 1
        else "uses under 1 % of what is allowed"
    )
    return f"<span class='af-bar' title='{said}' role='img' aria-label='{said}'><i style='width:{min(used, 100):.0f}%'></i></span>"


def inline(text: str) -> str:
    """A sentence of MyST as HTML: formulas, code and emphasis.

    >>> inline("`f` is *odd*: $f(x) < 0$")
    '<code>f</code> is <em>odd</em>: <span class="math notranslate nohighlight">\\\\(f(x) &lt; 0\\\\)</span>'
    """
    parts = re.split(r"(\$[^$]+\$|`[^`]+`)", text.strip())
    out = []
    for part in parts:
        if part.startswith("$"):
            formula = escape(part[1:-1], quote=False)
            out.append(f'<span class="math notranslate nohighlight">\\({formula}\\)</span>')
        elif part.startswith("`"):
            out.append(f"<code>{escape(part[1:-1], quote=False)}</code>")
        else:
            out.append(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", escape(part, quote=False)))
    return "".join(out)


def evidence(rows: Iterable[Check], page: str) -> str:
    """The checks and controls of a claim as a table; HTML at once, which Sphinx need not parse.

    >>> from attnflow.claims import check
    >>> table = evidence([check("demo.half", predicted=0.5, measured=0.5625, tol=0.25)], "demo.html")
    >>> table[table.index("<tbody>") + 7 : table.index("</tbody>")].split("<td>")[1:3]
    ["<a href='demo.html#check-demo-half'>check</a>", '0.5 ± 0.25']
    """
    head = "".join(f"<th>{name}" for name in COLUMNS)
    body = "".join(f"<tr>{''.join(f'<td>{told}' for told in _cells(row, page))}" for row in rows)
    return (
        "<div class='pst-scrollable-table-container'><table class='table'>"
        f"<thead><tr>{head}</thead><tbody>{body}</tbody></table></div>"
    )


def _cells(row: Check, page: str) -> tuple[str, ...]:
    shown = {name: escape(said, quote=False) for name, said in row.shown().items()}
    label = typeset(f"control: {row.removes}" if row.is_control else row.case or "check")
    verdict = "fails, as it must" if row.is_control and row.sound else shown["verdict"]
    link = f"<a href='{page}#{row.anchor()}'>{label}</a>"
    return link, shown["predicted"], shown["measured"], verdict, sharpness(row)


def sharpness(row: Check) -> str:
    """How far a check is from failing, or a control from holding, in two digits.

    >>> from attnflow.claims import check
    >>> sharpness(check("demo.half", predicted=0.5, measured=0.5625, tol=0.25))
    '4 ×'
    """
    if row.verdict == OUTSIDE:
        return ""
    factor = row.distance if row.is_control else row.slack
    size = "≥ 1000" if factor >= 1000 else f"{factor:.0f}" if factor >= 10 else f"{factor:.2g}"
    return f"{size} ×" + (f" ({typeset(row.loose)})" if row.loose else "")
