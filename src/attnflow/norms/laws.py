r"""Meeting times for many tokens: the laws at, below and above :math:`\beta = \log n`.

All of them start from orthonormal tokens of norm one (this book). That :math:`\log n` is the
critical scale of long contexts is the result of :cite:t:`chen2025`, in a simplified model.
"""

from __future__ import annotations

import numpy as np

from attnflow import validate
from attnflow.norms.orbit import MOST_TOKENS, valid_gap
from attnflow.norms.tokens import valid_norm


def critical_beta(n: int, *, start: float = 0.0) -> float:
    r"""Where a token of cosine `start` to n - 1 others gives itself half of its attention.

    .. math:: \beta_* = \frac{\log(n-1)}{1-\mathrm{start}}

    (this book); the scale :math:`\log n` is that of :cite:t:`chen2025`.

    >>> round(critical_beta(32), 6)
    3.433987
    """
    n, rho = validate.count(n, "n", 2, MOST_TOKENS), validate.number(start, "start")
    if not 0 <= rho < 1:
        raise ValueError(f"start must lie in [0, 1), got {start}")
    return float(np.log(n - 1) / (1 - rho))


def sphere_law(beta: float, n: int, delta: float) -> float:
    r"""The meeting time on the sphere (*post*) up to a relative error of order 1/beta squared.

    .. math:: \frac12\log\frac{n(1-\delta)}\delta
        + \frac{e^\beta}{2n}\Bigl(\log\frac n\beta-\gamma_E+\frac1\beta\Bigr)

    (this book), for :math:`\beta = c\log n`: the second term is :math:`\frac12n^{c-1}\log n` in leading
    order. Here :math:`\gamma_E` is Euler's constant.

    >>> from attnflow.norms import sphere_time
    >>> n, beta = 10**9, 1.2 * np.log(1e9)
    >>> abs(sphere_law(beta, n, 0.01) / float(sphere_time(beta, n, 0.01)) - 1) < 1e-3
    True
    """
    b, n = validate.positive(beta, "beta"), validate.count(n, "n", 2, MOST_TOKENS)
    delta = valid_gap(delta)
    wait = np.exp(validate.beta(b)) / (2 * n) * (np.log(n / b) - np.euler_gamma + 1 / b)
    return float(np.log(n * (1 - delta) / delta) / 2 + wait)


def limit_below(norm: str, n: int, delta: float) -> float:
    r"""The meeting time up to a vanishing error, for :math:`\beta = c\log n` with c < 1.

    .. math:: \tfrac12\log\tfrac{n(1-\delta)}\delta\ \text{(post)}, \quad
        \tfrac12\log4n+\tfrac1{\sqrt\delta}-1-\operatorname{artanh}\sqrt\delta\ \text{(pre)}, \quad
        \sqrt{\tfrac{1-\delta}\delta}\ \text{(peri)}, \quad
        \operatorname{artanh}\sqrt{1-\delta}\ \text{(nGPT)}

    (this book). The last two do not grow with n.

    >>> [round(limit_below(norm, 10**6, 0.5), 4) for norm in ("post", "pre", "peri", "nGPT")]
    [6.9078, 7.1337, 1.0, 0.8814]
    """
    valid_norm(norm)
    n, delta = validate.count(n, "n", 2, MOST_TOKENS), valid_gap(delta)
    laws = {
        "post": np.log(n * (1 - delta) / delta) / 2,
        "pre": np.log(4 * n) / 2 + 1 / np.sqrt(delta) - 1 - np.arctanh(np.sqrt(delta)),
        "peri": np.sqrt((1 - delta) / delta),
        "nGPT": np.log1p(np.sqrt(1 - delta)) - np.log(delta) / 2,  # artanh, with its digits
    }
    return float(laws[norm])


def window_exponent(norm: str, shift: float) -> float:
    r"""The limit of T/log n (post, nGPT) or log T/log n (pre, peri) at :math:`\beta=\log n+b`.

    .. math:: \frac{1+e^b}2\ \text{(post)}, \qquad \frac{e^b}2\ \text{(nGPT, pre, peri)}

    (this book), for a shift b.

    >>> window_exponent("post", 0.0), window_exponent("pre", 0.0)
    (1.0, 0.5)
    """
    b = validate.number(shift, "shift")
    if b > 700:
        raise ValueError(f"shift must be at most 700, got {shift}")
    return float((np.exp(b) + (valid_norm(norm) == "post")) / 2)
