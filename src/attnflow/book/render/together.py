"""A formula in a sentence stays on one line with the comma after it."""

from __future__ import annotations

import re

_CLOSES = r"(?:[.,;:!?…)\]’”%]|&#8217;|&#8221;|’s)+"
_FORMULA = r'<span class="math notranslate nohighlight">[^<]*</span>'
_SENTENCE = re.compile(rf"([(\[“]?)({_FORMULA})({_CLOSES})|([(\[“])({_FORMULA})")
_CAPTION = re.compile(r"<figcaption class=\"mathjax_process\">.*?</figcaption>", flags=re.DOTALL)
_WRITTEN = re.compile(rf"[(\[“]?\\\((?:(?!\\\)).)*\\\){_CLOSES}", flags=re.DOTALL)


def together(html: str) -> str:
    r"""A page in which no line begins with the punctuation of the formula before it.

    >>> together(r'If <span class="math notranslate nohighlight">\(n\)</span>, then')
    'If <span class="af-together"><span class="math notranslate nohighlight">\\(n\\)</span>,</span> then'
    >>> together(r'<figcaption class="mathjax_process">At \(t\), all.</figcaption>')
    '<figcaption class="mathjax_process">At <span class="af-together">\\(t\\),</span> all.</figcaption>'
    """
    html = _SENTENCE.sub(lambda found: f'<span class="af-together">{found[0]}</span>', html)
    return _CAPTION.sub(lambda found: _caption(found[0]), html)


def _caption(text: str) -> str:
    return _WRITTEN.sub(lambda found: f'<span class="af-together">{found[0]}</span>', text)
