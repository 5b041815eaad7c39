import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from tolerances import ROUNDING, SINGLE, STANDARD_ERRORS

from attnflow import sphere
from attnflow.book.chapters.project import Project, recipe
from attnflow.sphere import stored
from attnflow.sphere.phase import PhaseDiagram

MADE = {"command": "python run.py", "seed": 3, "seconds": {"2": 1.5}, "cores": 2, "note": "ü"}
BETAS, TIMES = np.array([0.0, 1.0, 4.5]), np.array([0.0, 0.25, 1.0, 30.0])


def diagram(d, n=4, realisations=10, seed=0, betas=BETAS, times=TIMES, delta=1e-3):
    """Shares of whole pairs, with some standard errors."""
    rng = np.random.default_rng(seed + d)
    pairs = realisations * n * (n - 1) // 2
    shape = (len(betas), len(times))
    shares = rng.integers(0, pairs + 1, size=shape) / pairs
    return PhaseDiagram(
        betas, times, shares, rng.uniform(0, 0.1, size=shape), n, d, delta, realisations, 1000 + d
    )


def same(a, b):
    assert (a.betas == b.betas).all()
    assert (a.times == b.times).all()
    assert np.abs(a.probability - b.probability).max() <= ROUNDING
    assert np.abs(a.stderr - b.stderr).max() <= SINGLE * np.abs(b.stderr).max()
    assert a.probability.dtype == a.stderr.dtype == np.float64
    assert (a.n, a.d, a.delta, a.realisations, a.iterations) == (
        b.n,
        b.d,
        b.delta,
        b.realisations,
        b.iterations,
    )


# there and back


@pytest.mark.parametrize("dimensions", [(2,), (2, 8, 1024), (32, 2)])
@pytest.mark.parametrize("as_text", [True, False])
def test_what_is_saved_is_read_again(tmp_path, dimensions, as_text):
    diagrams = {d: diagram(d) for d in dimensions}
    path = tmp_path / "run.npz"
    stored.save_figure3(str(path) if as_text else path, diagrams, MADE)
    found = stored.figure3(str(path) if as_text else path)
    assert list(found.diagrams) == list(dimensions)
    for d in dimensions:
        same(found.diagrams[d], diagrams[d])
    assert MADE.items() <= found.made.items()
    assert found.made["realisations"] == 10
    assert found.made["n"] == 4
    assert found.made["delta"] == 1e-3


def test_a_computed_diagram_is_read_again_exactly(tmp_path):
    made = {3: sphere.phase_diagram(5, 3, [0.0, 2.0], [0.0, 2.0, 4.0], 0.01, realisations=70)}
    stored.save_figure3(tmp_path / "run.npz", made, {})
    same(stored.figure3(tmp_path / "run.npz").diagrams[3], made[3])


def test_many_pairs_are_counted_exactly(tmp_path):
    big = diagram(2, n=32, realisations=2**10)
    stored.save_figure3(tmp_path / "run.npz", {2: big}, {})
    found = stored.figure3(tmp_path / "run.npz").diagrams[2]
    pairs = 2**10 * 496
    assert (np.rint(found.probability * pairs) == np.rint(big.probability * pairs)).all()


def test_saving_again_replaces_the_file(tmp_path):
    path = tmp_path / "run.npz"
    stored.save_figure3(path, {2: diagram(2)}, MADE)
    stored.save_figure3(path, {2: diagram(2), 8: diagram(8)}, {"command": "again"})
    found = stored.figure3(path)
    assert list(found.diagrams) == [2, 8]
    assert found.made["command"] == "again"
    assert "seconds" not in found.made
    assert os.listdir(tmp_path) == ["run.npz"]


def test_the_record_given_is_not_changed(tmp_path):
    made = dict(MADE)
    stored.save_figure3(tmp_path / "run.npz", {2: diagram(2)}, made)
    assert made == MADE


def test_the_file_can_be_read_by_all_and_needs_no_pickle(tmp_path):
    path = tmp_path / "run.npz"
    stored.save_figure3(path, {2: diagram(2)}, MADE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    with np.load(path, allow_pickle=False) as data:
        assert {"made", "dimensions", "betas", "times", "pairs", "stderr", "steps"} <= set(data)
        assert json.loads(str(data["made"]))["seed"] == 3


def test_a_file_may_have_any_name(tmp_path):
    stored.save_figure3(tmp_path / "run.data", {2: diagram(2)}, MADE)
    assert os.listdir(tmp_path) == ["run.data"]
    same(stored.figure3(tmp_path / "run.data").diagrams[2], diagram(2))


# whole or not at all


class Interrupted(BaseException):
    """As KeyboardInterrupt, which pytest would take for itself."""


@pytest.mark.parametrize("error", [OSError("disk full"), Interrupted()])
@pytest.mark.parametrize("where", ["numpy.savez_compressed", "os.replace"])
@pytest.mark.parametrize("before", [True, False])
def test_an_error_on_the_way_leaves_what_was_there(tmp_path, monkeypatch, error, where, before):
    path = tmp_path / "run.npz"
    if before:
        stored.save_figure3(path, {2: diagram(2)}, MADE)

    def fail(*args, **kwargs):
        if where == "numpy.savez_compressed":
            args[0].write(b"half of it")
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(where, fail)
        with pytest.raises(type(error)):
            stored.save_figure3(path, {8: diagram(8)}, {})
    assert os.listdir(tmp_path) == (["run.npz"] if before else [])
    if before:
        assert list(stored.figure3(path).diagrams) == [2]


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(TypeError, match="not JSON serializable"):
        stored.save_figure3(tmp_path / "run.npz", {2: diagram(2)}, {"command": object()})
    assert os.listdir(tmp_path) == []


def test_a_folder_in_the_way_leaves_nothing_more(tmp_path):
    (tmp_path / "run.npz").mkdir()
    with pytest.raises(OSError, match=r"run\.npz"):
        stored.save_figure3(tmp_path / "run.npz", {2: diagram(2)}, MADE)
    assert os.listdir(tmp_path) == ["run.npz"]


def test_a_missing_folder_is_made_and_a_missing_file_is_named(tmp_path):
    stored.save_figure3(tmp_path / "new" / "run.npz", {2: diagram(2)}, MADE)
    same(stored.figure3(tmp_path / "new" / "run.npz").diagrams[2], diagram(2))
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        stored.figure3(tmp_path / "nothing.npz")


# what is refused


@pytest.mark.parametrize(
    "other",
    [
        diagram(8, realisations=20),
        diagram(8, realisations=5),
        diagram(8, n=5),
        diagram(8, delta=0.01),
        diagram(8, betas=BETAS + 1),
        diagram(8, times=TIMES * 2),
        diagram(8, betas=BETAS[:2]),
    ],
    ids=["more realisations", "fewer realisations", "n", "delta", "betas", "times", "shape"],
)
def test_diagrams_of_different_runs_do_not_go_into_one_file(tmp_path, other):
    """Only the first one's grid, n, delta and draws are written."""
    with pytest.raises(ValueError, match="diagrams must"):
        stored.save_figure3(tmp_path / "run.npz", {2: diagram(2), 8: other}, MADE)
    assert os.listdir(tmp_path) == []


def test_no_diagrams_are_refused(tmp_path):
    with pytest.raises(ValueError, match="diagrams must"):
        stored.save_figure3(tmp_path / "run.npz", {}, MADE)
    assert os.listdir(tmp_path) == []


def test_a_diagram_under_another_dimension_is_refused(tmp_path):
    with pytest.raises(ValueError, match="diagrams must"):
        stored.save_figure3(tmp_path / "run.npz", {3: diagram(2)}, MADE)


# the run kept with the package


@pytest.fixture(scope="module")
def shipped():
    return stored.figure3()


def test_the_stored_run_is_figure_three_at_full_scale(shipped):
    assert list(shipped.diagrams) == [2, 8, 32, 128, 512, 1024]
    for d, found in shipped.diagrams.items():
        assert (found.n, found.d, found.delta, found.realisations) == (32, d, 1e-3, 2**10)
        assert found.probability.shape == (len(found.betas), len(found.times))
        assert found.betas.min() == 0
        assert found.betas.max() >= 9
        assert found.times[0] == 0
        assert found.iterations > 2**10 * len(found.betas)


def test_the_stored_run_says_how_it_was_made(shipped):
    assert {"command", "seed", "seconds", "cores", "numpy", "python"} <= set(shipped.made)
    assert "benchmarks/figure3.py" in shipped.made["command"]
    assert set(shipped.made["seconds"]) == {str(d) for d in shipped.diagrams}
    assert str(Path.home()) not in json.dumps(shipped.made)


def test_stored_probabilities_are_shares_with_their_standard_errors(shipped):
    for found in shipped.diagrams.values():
        assert 0 <= found.probability.min() <= found.probability.max() <= 1
        # no mean of shares spreads more than one of zeros and ones
        bound = np.sqrt(found.probability * (1 - found.probability) / (2**10 - 1))
        assert (found.stderr <= bound + SINGLE).all()
        assert (found.betas[0], found.probability[0, -1]) == (0, 1)


@pytest.mark.parametrize("d", [128, 512, 1024])
def test_the_stored_boundary_in_many_dimensions_is_the_hitting_time(shipped, d):
    """Half of the pairs have met within a tenth of the time that an orthogonal start needs."""
    found = shipped.diagrams[d]
    for row in (0, len(found.betas) // 4, len(found.betas) // 2):
        t = sphere.hitting_time(float(found.betas[row]), 32, 1e-3)
        before = found.times <= 0.9 * t
        after = found.times >= 1.1 * t
        assert found.probability[row][before].max() <= 0.5
        if after.any():
            assert found.probability[row][after].min() >= 0.5


@pytest.mark.parametrize("d", [2, 8, 32, 128, 1024])
def test_the_stored_run_agrees_with_a_smaller_one(shipped, d):
    """Other draws, at a few points: within the standard errors of both."""
    found = shipped.diagrams[d]
    rows, columns = [0, 20, 45], [8, 20, 32, 60, 100]
    small = sphere.phase_diagram(
        32, d, found.betas[rows], found.times[columns], 1e-3, realisations=32, seed=99
    )
    stored_values = found.probability[np.ix_(rows, columns)]
    errors = np.hypot(small.stderr, found.stderr[np.ix_(rows, columns)])
    # a small run in which all draws agree has no spread: 5/32 is then the rule of three, and more
    slack = STANDARD_ERRORS * errors + np.where(small.stderr == 0, 5 / 32, 0)
    assert (np.abs(small.probability - stored_values) <= slack).all()


def test_the_stored_run_counts_among_what_its_chapter_depends_on():
    """The file lies where the recipe of a chapter looks: in `data/` beside the module that names it."""
    project = Project(Path(stored.__file__).parents[3])
    found = recipe(project, "phase_diagram")
    assert found.files["attnflow/sphere/data/figure3.npz"].is_file()
    assert "figure3.npz" in found.basis["data"]
