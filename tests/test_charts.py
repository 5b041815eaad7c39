"""Charts of the benchmarks: what is drawn is what was measured."""

import re

import pytest

from attnflow.book.pages.charts import Line, drawing, lines

ROWS = [
    {"n": 1000, "eps": 0.1, "seconds": 0.01, "POT": 1.0},
    {"n": 4000, "eps": 0.1, "seconds": 0.1, "POT": None},
    {"n": 1000, "eps": 0.01, "seconds": 0.02},
]


def test_a_line_for_every_column_and_case_and_no_point_where_nothing_was_measured():
    found = {line.name: line.points for line in lines(ROWS, "n", ["seconds", "POT"], "eps")}
    assert found == {
        "attnflow, eps = 0.1": ((1000.0, 0.01), (4000.0, 0.1)),
        "attnflow, eps = 0.01": ((1000.0, 0.02),),
        "POT, eps = 0.1": ((1000.0, 1.0),),
    }


def test_ten_times_more_is_the_same_distance_anywhere():
    line = Line("a", 0, 0, ((1.0, 1.0), (10.0, 10.0), (100.0, 100.0)))
    text = drawing([line], "title", "n", "seconds")
    places = [float(x) for x in re.findall(r'<circle cx="([\d.]+)"', text)]
    heights = [float(y) for y in re.findall(r' cy="([\d.]+)"', text)]
    assert abs((places[1] - places[0]) - (places[2] - places[1])) <= 0.11
    assert heights[0] > heights[1] > heights[2]


def test_a_drawing_says_what_it_shows_escaped_and_in_the_pages_own_colour():
    text = drawing([Line("a < b", 0, 1, ((1.0, 2.0),))], "x & y", "n", "s")
    assert "a &lt; b" in text
    assert 'aria-label="x &amp; y: a &lt; b"' in text
    assert 'fill="currentColor"' in text
    assert "white" not in text


def test_a_chart_of_nothing_is_refused():
    with pytest.raises(ValueError, match="a chart needs at least one point"):
        drawing(lines(ROWS, "n", ["nobody"], None), "t", "n", "s")
