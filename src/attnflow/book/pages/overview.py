"""Tables about all chapters: ``{parameters}``, what can be changed; ``{standing}``, how claims stand."""

from __future__ import annotations

from sphinx.application import Sphinx

from attnflow.book.pages import reading
from attnflow.book.pages.tables import Table
from attnflow.claims import HOLDS, ledger


class Parameters(Table):
    """The parameters of every chapter, with type, range and default."""

    def lines(self) -> list[str]:
        out: list[str] = []
        for name, chapter in reading.chapters().items():
            out += [
                f"**[{chapter.title}]({name})**, `attnflow run {name}`",
                "",
                "| parameter | meaning | allowed | default |",
                "|---|---|---|---|",
                *(
                    f"| `{p.name}` | {p.help} | {p.allowed.replace('|', 'or')} | `{p.default!r}` |"
                    for p in chapter.parameters
                ),
                "",
            ]
        return out


class Standing(Table):
    """One line a chapter: its claims, checks and controls, and how many stand."""

    def lines(self) -> list[str]:
        claims, rows = self.claims(), self.rows()
        entries = ledger([row for found in rows.values() for row in found], claims)
        out = [
            "| chapter | claims | hold | checks | controls | fail, as they must |",
            "|---|---|---|---|---|---|",
        ]
        for name, chapter in reading.chapters().items():
            own = [entry for entry in entries if claims[entry.id]["chapter"] == name]
            controls = [row for entry in own for row in entry.controls]
            out.append(
                f"| [{chapter.title}]({name}) | {len(own)} | {sum(e.verdict == HOLDS for e in own)} | "
                f"{sum(len(e.checks) for e in own)} | {len(controls)} | "
                f"{sum(row.sound for row in controls)} |"
            )
        return out


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("parameters", Parameters)
    app.add_directive("standing", Standing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
