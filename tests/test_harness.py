"""The negative controls' own negative controls: a broken harness must not pass for a good one.

A chapter of a few lines is sabotaged in every way that could deceive, with forked children and
without.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import ModuleType

import nbformat
import numpy as np
import pytest
from controls import chapter, fork
from controls.cells import CELL, FIRST_CELL, SECTION, Cell, read_cells, span
from controls.chapter import Report, survey
from controls.fork import AVAILABLE, NoAnswer, forked
from controls.slices import needed
from controls.stage import Patch, Sabotage
from lanes import lane
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from attnflow import claims
from attnflow.claims import comparing

needs_fork = pytest.mark.skipif(not AVAILABLE, reason="processes cannot fork here")
#: `length` is imported at the top and used in both sections; `long` is made once, in the first.
SOURCES = {
    "": "size = 5",
    "Setup": "from attnflow.claims import check, control\nfrom rulers import length",
    "Straight": "long = length(size)\ndef twice():\n    return length(2 * size)",
    "Checks": "check('mini.now', predicted=2 * size, measured=twice(), tol=0.1)",
    "More": "check('mini.before', predicted=size, measured=long, tol=0.1)",
    "What would break it": "control('mini.now', removes='a half', predicted=1, measured=2, tol=0.1)",
}
CELLS = [Cell(source, section, not section) for section, source in SOURCES.items()]


@pytest.fixture
def rulers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package of one honest function."""
    module = ModuleType("rulers")
    module.length = lambda x: float(x)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rulers", module)
    return module


@pytest.fixture(params=[pytest.param(True, marks=needs_fork), False], ids=["forked", "replayed"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "AVAILABLE", request.param)


def doubled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys.modules["rulers"], "length", lambda x: 2.0 * x)


def nothing(patch: pytest.MonkeyPatch) -> None:
    """Replaced by itself."""
    patch.setattr(sys.modules["rulers"], "length", sys.modules["rulers"].length)


def raises(patch: pytest.MonkeyPatch) -> None:
    """The sabotage itself is broken."""
    patch.setattr(sys.modules["rulers"], "no_such_name", 1)


def stumbles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sys.modules["rulers"], "length", lambda x: 1 / 0)


def tried(mistake: Patch, claim: str = "mini.now", since: str = SECTION) -> Report:
    return survey(CELLS, {"size": 7}, [Sabotage(mistake, (claim,), since)])


@pytest.mark.usefixtures("rulers", "_both_ways")
class TestSurvey:
    """One honest pass, one sabotage."""

    def test_a_mistake_is_caught_and_the_honest_rows_stay_honest(self) -> None:
        report = tried(doubled)
        assert report.trials["mini.now"].caught
        assert "predicted 14 ± 0.1, measured 28: fails" in report.trials["mini.now"].account
        assert [row.verdict for row in report.rows] == [claims.HOLDS, claims.HOLDS, claims.FAILS]
        assert report.rows[0].measured == 14
        assert report.stopped == ""

    def test_a_mistake_that_changes_nothing_is_not_caught(self) -> None:
        trial = tried(nothing).trials["mini.now"]
        assert not trial.caught
        assert "holds" in trial.account

    def test_a_control_that_fails_as_it_must_catches_nothing(self) -> None:
        assert not tried(nothing, since=FIRST_CELL).trials["mini.now"].caught

    def test_another_claims_failure_catches_nothing(self) -> None:
        cells = [*CELLS[:4], Cell("check('mini.other', predicted=0, measured=long, tol=0.1)", "Z")]
        report = survey(cells, {}, [Sabotage(nothing, ("mini.other",), "Straight")])
        assert report.trials["mini.other"].caught
        other = survey(cells, {}, [Sabotage(nothing, ("mini.now",), "Straight")])
        assert not other.trials["mini.now"].caught

    def test_a_sabotage_that_cannot_be_applied_is_not_caught(self) -> None:
        trial = tried(raises).trials["mini.now"]
        assert not trial.caught
        assert "no_such_name" in trial.account

    def test_code_that_raises_before_its_check_is_not_caught(self) -> None:
        trial = tried(stumbles).trials["mini.now"]
        assert not trial.caught
        assert "its check did not run" in trial.account
        assert "ZeroDivisionError under" in trial.account

    def test_a_mistake_in_an_earlier_section_is_caught_from_there(self) -> None:
        assert tried(doubled, "mini.before", "Straight").trials["mini.before"].caught
        assert tried(doubled, "mini.before", FIRST_CELL).trials["mini.before"].caught

    def test_one_mistake_may_be_tried_for_several_claims(self) -> None:
        both = ("mini.now", "mini.before")
        report = survey(CELLS, {}, [Sabotage(doubled, both, "Straight")])
        assert {claim: trial.caught for claim, trial in report.trials.items()} == dict.fromkeys(
            both, True
        )
        assert "mini.before: predicted 5" in report.trials["mini.before"].account

    def test_of_several_claims_each_needs_a_failure_of_its_own(self) -> None:
        cells = [*CELLS, Cell("check('mini.two', predicted=2, measured=2, tol=0.1)", "Z")]
        report = survey(cells, {}, [Sabotage(doubled, ("mini.now", "mini.two"))])
        assert report.trials["mini.now"].caught
        assert not report.trials["mini.two"].caught

    def test_mistakes_leave_no_trace(self, rulers: ModuleType) -> None:
        compare, length = comparing._compare, rulers.length
        tried(doubled)
        assert comparing._compare is compare
        assert rulers.length is length

    def test_a_mistake_at_home_reaches_those_who_import_from_the_package(
        self, rulers: ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package, home = ModuleType("attnflow.mini"), ModuleType("attnflow.mini.home")
        package.__path__ = []
        package.length = home.length = rulers.length  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "attnflow.mini", package)
        monkeypatch.setitem(sys.modules, "attnflow.mini.home", home)
        source = SOURCES["Setup"].replace("from rulers", "from attnflow.mini")
        cells = [CELLS[0], Cell(source, "Setup"), *CELLS[2:]]

        def mistake(patch: pytest.MonkeyPatch) -> None:
            patch.setattr(home, "length", lambda x: 2.0 * x)

        report = survey(cells, {"size": 7}, [Sabotage(mistake, ("mini.now",))])
        assert report.trials["mini.now"].caught
        assert package.length is rulers.length

    def test_a_chapter_that_raises_says_so(self) -> None:
        cells = [*CELLS[:3], Cell("1 / 0", "Straight"), *CELLS[3:]]
        report = survey(cells, {}, [])
        assert "ZeroDivisionError" in report.stopped
        assert report.rows == []

    def test_a_claim_that_no_cell_names_is_not_caught(self) -> None:
        report = tried(doubled, "mini.unknown")
        assert report.trials["mini.unknown"] == (
            False,
            "ValueError: no cell of the chapter names mini.unknown",
        )


@needs_fork
@pytest.mark.usefixtures("rulers")
class TestForkedSurvey:
    """What only a child can do."""

    def test_what_ran_before_the_section_is_honest(self) -> None:
        trial = tried(doubled, "mini.before").trials["mini.before"]
        assert not trial.caught
        assert "measured 7 (exactly): holds" in trial.account

    def test_a_name_that_the_chapter_has_taken_for_itself_stays_its_own(self) -> None:
        cells = [*CELLS[:2], Cell("length = lambda x: 14.0", "Straight"), *CELLS[2:]]
        report = survey(cells, {"size": 7}, [Sabotage(doubled, ("mini.now",))])
        assert not report.trials["mini.now"].caught

    @pytest.mark.parametrize("death", [lambda: os._exit(0), lambda: os.kill(os.getpid(), 9)])
    def test_a_child_that_dies_is_not_caught(self, death: object) -> None:
        trial = tried(lambda patch: death()).trials["mini.now"]  # type: ignore[operator]
        assert not trial.caught
        assert "no answer" in trial.account

    def test_a_child_that_computes_too_long_is_not_caught(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chapter, "PATIENCE", 1)
        trial = tried(lambda patch: all(iter(lambda: True, None))).trials["mini.now"]
        assert not trial.caught
        assert "no answer after 1 seconds of computing" in trial.account

    def test_a_child_that_sleeps_too_long_is_not_caught(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(chapter, "PATIENCE", 1)
        monkeypatch.setattr(fork, "SLACK", 2)
        trial = tried(lambda patch: time.sleep(60)).trials["mini.now"]
        assert not trial.caught
        assert "no answer after 2 seconds, most of them idle" in trial.account

    def test_a_chapter_that_kills_its_process_says_so(self) -> None:
        report = survey([*CELLS[:4], Cell("import os\nos._exit(0)", "More")], {}, [])
        assert "no answer" in report.stopped
        assert report.rows == []


@needs_fork
class TestForked:
    """Work in a child."""

    def test_the_answer_comes_back_and_changes_do_not(self) -> None:
        kept: list[int] = []
        assert forked(lambda: kept.append(1) or [len(kept)], 10) == [1]
        assert kept == []

    def test_an_error_comes_back_as_an_error(self) -> None:
        with pytest.raises(NoAnswer, match="ZeroDivisionError"):
            forked(lambda: 1 / 0, 10)

    def test_an_answer_that_cannot_be_sent_is_an_error(self) -> None:
        with pytest.raises(NoAnswer, match="status 1"):
            forked(lambda: lambda: None, 10)

    def test_a_child_may_leave_neither_early_nor_by_a_signal(self) -> None:
        with pytest.raises(NoAnswer, match="no answer"):
            forked(lambda: os._exit(0), 10)
        with pytest.raises(NoAnswer, match=f"status {-signal.SIGTERM}"):
            forked(lambda: os.kill(os.getpid(), signal.SIGTERM), 10)


class TestScope:
    """Which tests one worker runs."""

    def test_the_controls_of_a_chapter_stay_together(self) -> None:
        one = lane("tests/test_controls.py::test_the_honest_code_is_sound[mean_field]")
        assert one == lane("tests/test_controls.py::test_the_check_fails[mean_field.sampling]")
        assert one != lane("tests/test_controls.py::test_the_check_fails[lipschitz.sampling]")

    def test_other_tests_stay_with_their_file(self) -> None:
        assert lane("tests/test_rates.py::test_a[x.y]") == lane("tests/test_rates.py::test_b")
        assert lane("tests/test_rates.py::test_a[x.y]") != lane("tests/test_runs.py::test_b")


class TestCells:
    """What of a chapter is run, and from where."""

    @pytest.fixture
    def notebook(self) -> nbformat.NotebookNode:
        cells = [
            new_code_cell("n = 1", metadata={"tags": ["parameters"]}),
            new_markdown_cell("# Title\n\n## One\n\nwords"),
            new_code_cell("a = 1"),
            new_code_cell("draw()", metadata={"tags": ["hide-input", "nbval-ignore-output"]}),
            new_markdown_cell("### Two"),
            new_code_cell("check('mini.a')"),
            new_markdown_cell("## Exercises"),
            new_code_cell("solution = 1"),
        ]
        return new_notebook(cells=cells)

    def test_figures_and_exercises_are_left_out(self, notebook: nbformat.NotebookNode) -> None:
        assert read_cells(notebook) == [
            Cell("n = 1", "", True),
            Cell("a = 1", "One", False),
            Cell("check('mini.a')", "Two", False),
        ]

    def test_a_claim_is_run_from_where_its_sabotage_says(self) -> None:
        assert span(CELLS, ["mini.now"], CELL) == range(3, 6)
        assert span(CELLS, ["mini.now"], SECTION) == range(3, 6)
        assert span(CELLS, ["mini.now"], FIRST_CELL) == range(0, 6)
        assert span(CELLS, ["mini.before"], "Straight") == range(2, 5)

    def test_a_cell_may_start_later_than_its_section(self) -> None:
        cells = [Cell("a = 1", "One"), Cell('check("mini.a")', "One")]
        assert span(cells, ["mini.a"], SECTION) == range(0, 2)
        assert span(cells, ["mini.a"], CELL) == range(1, 2)

    def test_a_place_that_is_not_there_or_too_late_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'Nowhere' is no heading"):
            span(CELLS, ["mini.now"], "Nowhere")
        with pytest.raises(ValueError, match="nothing is checked since"):
            span(CELLS, ["mini.before"], "What would break it")


class TestSlices:
    """Cells on which a check does not depend are left out, and no others."""

    @staticmethod
    def kept(*sources: str, space: dict[str, object] | None = None) -> list[int]:
        cells = [*(Cell(source) for source in sources), Cell("check('mini.now', measured=x)")]
        return needed(cells, range(len(cells)), ["mini.now"], space or {})[:-1]

    def test_what_binds_a_name_that_is_read_stays_and_the_rest_goes(self) -> None:
        assert self.kept("y = 1", "z = 2", "x = y") == [0, 2]

    @pytest.mark.parametrize(
        "change",
        ["x[0] = 1", "x.append(1)", "x += [1]", "x[0].y = 2", "del x[0]", "for x in y: pass"],
    )
    def test_what_changes_an_object_stays(self, change: str) -> None:
        assert self.kept("x = [0]", change) == [0, 1]

    def test_what_a_function_reads_its_caller_reads(self) -> None:
        assert self.kept("a = 1", "b = 2", "def f():\n    return g()", "def g():\n    return a",
                         "x = f()") == [0, 2, 3, 4]  # fmt: skip

    def test_who_draws_changes_the_generator_for_those_who_draw_later(self) -> None:
        drawn = ("def draw():\n    return rng.normal()", "y = draw()", "z = rng", "x = draw()")
        rng = {"rng": np.random.default_rng(0)}
        assert self.kept(*drawn, space=rng) == [0, 1, 2, 3]
        assert self.kept("y = 3", "x = rng.normal()", "z = rng.normal()", space=rng) == [1]
        inner = ("def f():\n    return g()", "def g():\n    return rng.normal()", "y = f()")
        assert 2 in self.kept(*inner, "x = rng.normal()", space=rng)  # f draws through g

    def test_modules_and_functions_are_not_changed_by_being_called(self) -> None:
        assert self.kept("y = np.sqrt(2)", "x = np.sqrt(3)", space={"np": np}) == [1]

    def test_a_control_needs_no_cells_of_its_own(self) -> None:
        cells = [
            Cell("x = 1"),
            Cell("check('mini.now', measured=x)"),
            Cell("y = 1"),
            Cell("control('mini.now', measured=y)"),
        ]
        assert needed(cells, range(4), ["mini.now"], {}) == [0, 1]
        cells[3] = Cell("control('mini.now', measured=y)\ncheck('mini.now', measured=y)")
        assert needed(cells, range(4), ["mini.now"], {}) == [0, 1, 2, 3]

    def test_parameters_stay(self) -> None:
        cells = [Cell("n = 1", parameters=True), Cell("check('mini.now', measured=1)")]
        assert needed(cells, range(2), ["mini.now"], {}) == [0, 1]
