"""The mathematics in the words of a row, typeset.

Rows are plain text, since notebooks print them: `e^-beta`, `R^2 sqrt(n)`, `Z_i`. A page writes such words as
one writes them by hand. No formula language is needed for that, only superscripts, subscripts and letters.
"""

from __future__ import annotations

import re
from html import escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "eps": "ε", "lambda": "λ", "mu": "μ",
    "rho": "ρ", "sigma": "σ", "tau": "τ", "theta": "θ", "Gamma": "Γ",
}  # fmt: skip
_LETTER = re.compile(rf"(?<![\w.])({'|'.join(GREEK)})(?![\w.]*\w)")
_POWER = re.compile(r"(?<=[\w)|])\^(\{[^}]*\}|\([^)]*\)|-?\w+)")
_INDEX = re.compile(r"(?<!\w)([A-Za-z])_(\w)(?!\w)")
_ROOT = re.compile(r"(?<!\w)sqrt\((\w+|[^()]*)\)")
_ROW = re.compile(
    r'(<div class="af-check [^>]*>\s*<span class="af-label">\w+</span> <code>)([^<]*)(</code>)'
    r'(?:(<span class="af-why">)([^<]*)(</span>))?'
)


def typeset(words: str) -> str:
    """A label as HTML, its mathematics typeset.

    >>> typeset("the rate is read as e^-beta"), typeset("the bound is read as R^2 sqrt(n)")
    ('the rate is read as e<sup>−β</sup>', 'the bound is read as R<sup>2</sup>√n')
    >>> typeset("USA, V = Q^T K"), typeset("the weights Z_i"), typeset("coordinates >= 0")
    ('USA, V = Q<sup>⊤</sup>K', 'the weights Z<sub>i</sub>', 'coordinates ≥ 0')
    >>> typeset("mean, in (2t)^(-5/2)"), typeset("0.96 sqrt(n/2)"), typeset("self_bridge and POT")
    ('mean, in (2t)<sup>−5/2</sup>', '0.96√(n/2)', 'self_bridge and POT')
    """
    return typeset_html(escape(words, quote=False))


_TEX = {
    r"\varepsilon": "ε",
    r"\beta": "β",
    r"\gamma": "γ",
    r"\log": "log",
    r"\,": "",
    r"\infty": "∞",
}


def from_tex(formula: str) -> str:
    r"""A short formula of TeX in the words that :func:`typeset` reads.

    >>> from_tex(r"o(\varepsilon^2)"), typeset(from_tex(r"\sqrt{\log d/d}")), typeset(from_tex("n^{1/4}"))
    ('o(ε^2)', '√(log d/d)', 'n<sup>1/4</sup>')
    """
    for name, letter in _TEX.items():
        formula = formula.replace(name, letter)
    return re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", formula)


def typeset_html(html: str) -> str:
    """The same for text that is HTML already."""
    html = html.replace("&lt;=", "≤").replace("&gt;=", "≥")
    html = _LETTER.sub(lambda found: GREEK[found[1]], html)
    html = _POWER.sub(_raised, html)
    html = _INDEX.sub(r"\1<sub>\2</sub>", html)
    html = _ROOT.sub(lambda found: f"√{found[1] if found[1].isalnum() else f'({found[1]})'}", html)
    html = re.sub(r"(?<=[\d>]) √", "√", html)
    return html.replace("⊤</sup> K", "⊤</sup>K")


def _raised(found: re.Match[str]) -> str:
    power = found[1].strip("{}") if found[1][0] == "{" else found[1].strip("()")
    power = _LETTER.sub(lambda inner: GREEK[inner[1]], power)
    return f"<sup>{'⊤' if power == 'T' else power.replace('-', '−')}</sup>"


def typeset_rows(body: str) -> str:
    """A page whose rows of checks and controls are typeset; names of claims stay as they are.

    >>> row = '<div class="af-check af-check af-holds" id="a"><span class="af-label">check</span> <code>a.b [beta = 2]</code>'
    >>> typeset_rows(row).partition("</span> ")[2]
    '<code>a.b</code> <span class="af-case">β = 2</span>'
    """

    def row(found: re.Match[str]) -> str:
        claim, bracket, case = found[2].partition(" [")
        told = f' <span class="af-case">{typeset_html(case.rstrip("]"))}</span>' if bracket else ""
        why = f"{found[4]}{typeset_html(found[5])}{found[6]}" if found[4] else ""
        return f"{found[1]}{claim}{found[3]}{told}{why}"

    return _ROW.sub(row, body)
