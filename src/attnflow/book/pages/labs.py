"""``{lab} NAME``: a laboratory of _static/live, with what is said where no script runs.

The content is the caption. Scripts are classic ones, in one namespace, since a page that is opened
as a plain file may load no modules; pages load them only if something in them moves. What a
laboratory shows of stored results travels in the page, as JSON that is made here from the
package's data: a plain file may not fetch, either.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from attnflow.figures.players import embedded
from attnflow.sphere.stored import figure3
from attnflow.trained.stored import real_text

#: The mathematics, in the order in which the files need each other.
MATHS = tuple(
    f"live/maths/{name}.js"
    for name in (
        "numbers", "matrices", "integrate", "bridge", "balance", "attention", "sphere", "norms",
        "rescaled", "lipschitz", "gaussian", "mixture", "langevin", "waves", "coalescence",
    )
)  # fmt: skip
#: What laboratories have in common, and what figures that move and coloured texts need beyond it.
PARTS = tuple(f"live/parts/{name}.js" for name in ("draw", "controls", "hands", "globe", "lab"))
FIGURES = {"data-recorded": "live/parts/recorded.js", "af-spans": "live/parts/spans.js"}
#: Shares are kept as bytes.
LEVELS = 255


def phase_diagrams() -> dict[str, Any]:
    """The stored Figure 3, its probabilities in 255 steps: base64 of a byte each, beta by beta.

    >>> kept = phase_diagrams()
    >>> kept["n"], list(kept["shares"])[:2], len(base64.b64decode(kept["shares"]["2"]))
    (32, ['2', '8'], 7744)
    """
    diagrams = figure3().diagrams
    first = next(iter(diagrams.values()))
    shares = {
        str(d): base64.b64encode(
            np.rint(LEVELS * p.probability).astype(np.uint8).tobytes()
        ).decode()
        for d, p in diagrams.items()
    }
    return {
        "n": first.n, "delta": first.delta, "draws": first.realisations, "shares": shares,
        "betas": first.betas.round(6).tolist(), "times": first.times.round(6).tolist(),
    }  # fmt: skip


def trained_layers() -> dict[str, Any]:
    """The stored constants of trained layers at passages of some lengths: layers, passages, lengths.

    >>> kept = trained_layers()
    >>> kept["lengths"], {name: len(layers) for name, layers in kept["constants"].items()}
    ([16, 45, 128], {'minilm': 6, 'smollm2': 30, 'sinkless': 30})
    """
    found = real_text()
    constants = {**found.constants, "sinkless": found.sinkless["smollm2"]}
    return {
        "lengths": list(found.lengths),
        "constants": {name: values.tolist() for name, values in constants.items()},
    }


#: What a laboratory is given of the package's data.
DATA: dict[str, Callable[[], dict[str, Any]]] = {
    "layers": trained_layers, "phase": phase_diagrams,
}  # fmt: skip


def fragment(name: str) -> str:
    """The place in a page where a laboratory starts, with its data.

    >>> fragment("sphere")
    '<div class="af-lab" data-lab="sphere"><p>This laboratory needs JavaScript.</p></div>'
    """
    below = embedded(DATA[name]()) if name in DATA else ""
    return (
        f'<div class="af-lab" data-lab="{escape(name)}"><p>This laboratory needs JavaScript.</p>'
        f"</div>{below}"
    )


def scripts(body: str) -> list[str]:
    """What a page with this body loads, in order; nothing if nothing in it moves.

    >>> scripts("<p>a text</p>"), scripts(fragment("sphere"))[-2:]
    ([], ['live/parts/lab.js', 'live/labs/sphere.js'])
    >>> scripts('<div data-recorded="tokens">')[-1]
    'live/parts/recorded.js'
    """
    names = dict.fromkeys(re.findall(r'data-lab="([a-z_]+)"', body))
    figures = [script for mark, script in FIGURES.items() if mark in body]
    if not names and not figures:
        return []
    return [
        *(MATHS if names else MATHS[:1]),
        *PARTS,
        *figures,
        *(f"live/labs/{n}.js" for n in names),
    ]


class Lab(SphinxDirective):
    """A place in the page where a laboratory starts."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        before = nodes.raw(
            "",
            f'<figure class="af-figure af-laboratory" id="lab-{escape(name)}">{fragment(name)}<figcaption>',
            format="html",
        )
        caption = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, caption)
        return [before, *caption.children, nodes.raw("", "</figcaption></figure>", format="html")]


def _scripts(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for script in scripts(context.get("body", "")):
        app.add_js_file(script, priority=600, defer="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("lab", Lab)
    app.connect("html-page-context", _scripts, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
