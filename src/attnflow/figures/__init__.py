"""Figures in the house style, as the pages show them.

A matplotlib figure is shown as inline SVG whose ink is the page's own text colour, so one figure
serves the light and the dark page. What moves is data and a still; the page draws it. All need an
alternative text; a caption stands below.

:mod:`~attnflow.figures.style` has the colours and matplotlib's style, :mod:`~attnflow.figures.shown`
turns a figure into what a notebook displays, :mod:`~attnflow.figures.players` has figures that move,
:mod:`~attnflow.figures.words` texts whose words are coloured by numbers.
"""

from attnflow.figures.players import curve_player as curve_player
from attnflow.figures.players import sphere_player as sphere_player
from attnflow.figures.players import token_player as token_player
from attnflow.figures.shown import Shown as Shown
from attnflow.figures.shown import show as show
from attnflow.figures.style import BLUE as BLUE
from attnflow.figures.style import GREEN as GREEN
from attnflow.figures.style import GREY as GREY
from attnflow.figures.style import INK as INK
from attnflow.figures.style import ORANGE as ORANGE
from attnflow.figures.style import PAPER as PAPER
from attnflow.figures.style import PURPLE as PURPLE
from attnflow.figures.style import RED as RED
from attnflow.figures.style import STYLE as STYLE
from attnflow.figures.style import use_style as use_style
from attnflow.figures.words import spans as spans
