"""``{lab} NAME``: a laboratory of _static/live, with what is said where no script runs.

The content is the caption. Scripts are loaded by the pages that use them.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

#: The scripts of a laboratory, in the order in which they need each other.
SCRIPTS = ("live/attention.js", "live/lab.js")


class Lab(SphinxDirective):
    """A place in the page where a laboratory starts."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        before = nodes.raw(
            "",
            f'<figure class="af-figure af-laboratory" id="lab-{escape(name)}">'
            f'<div class="af-lab" data-lab="{escape(name)}"><p>This laboratory needs JavaScript.</p>'
            "</div><figcaption>",
            format="html",
        )
        caption = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, caption)
        return [before, *caption.children, nodes.raw("", "</figcaption></figure>", format="html")]


def _scripts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    names = re.findall(r'data-lab="([a-z_]+)"', context.get("body", ""))
    for script in (
        [*SCRIPTS, *(f"live/{name}.js" for name in dict.fromkeys(names))] if names else []
    ):
        app.add_js_file(script, priority=600)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("lab", Lab)
    app.connect("html-page-context", _scripts, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
