"""How citations become text is looked up once.

sphinxcontrib-bibtex asks for its writer of plain text at every citation, and is answered from the
metadata of all installed packages: a tenth of the time of rendering. A registered one is at hand.
"""

from __future__ import annotations

from pybtex.plugin import find_plugin, register_plugin
from sphinx.application import Sphinx

#: A group of pybtex's plugins, and a name in it.
ASKED = ("pybtex.backends", "plaintext")


def setup(app: Sphinx) -> dict[str, bool]:
    register_plugin(*ASKED, find_plugin(*ASKED), force=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
