"""Tokens and curves that move under a slider."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from attnflow import figures

CLOSE = 6e-4  # positions are shown to three digits

TIMES = np.linspace(0.0, 2.0, 9)
STATES = np.random.default_rng(0).normal(size=(9, 5, 2))


def play(times: np.ndarray = TIMES, states: np.ndarray = STATES) -> figures.Shown:
    return figures.token_player(
        {"softmax": states, "l2": 0.5 * states},
        times,
        colour=np.arange(5.0),
        name="tokens",
        alt="Tokens & clusters",
        caption="Each dot a token.",
    )


def kept(shown: figures.Shown) -> dict[str, Any]:
    """The data that travels with a player."""
    found = re.search(r'<script type="application/json">(.*?)</script>', shown.html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_the_player_has_one_frame_for_every_time() -> None:
    data = kept(play())
    assert [len(panel["states"]) for panel in data["panels"]] == [len(TIMES)] * 2
    assert np.array(data["times"], dtype=float) == pytest.approx(TIMES, rel=5e-3)
    assert data["start"] == len(TIMES) - 1


def test_every_time_can_be_told_from_the_others() -> None:
    for times in (
        np.linspace(0.0, 0.02, 9),
        1000 + 0.25 * np.arange(9),
        np.geomspace(1e-6, 1e6, 9),
    ):
        assert len(set(kept(play(times))["times"])) == len(times)


def test_the_frames_show_the_states() -> None:
    for panel, states in zip(kept(play())["panels"], (STATES, 0.5 * STATES), strict=True):
        assert np.array(panel["states"]) == pytest.approx(states, abs=CLOSE)
        assert panel["reach"] >= np.abs(states).max()


def test_the_player_is_described_and_brings_no_library_of_its_own() -> None:
    html = play().html
    assert 'aria-label="Tokens &amp; clusters"' in html
    assert 'id="fig-tokens"' in html
    assert "<script src=" not in html
    assert "https://" not in html
    assert len(html) < 100_000


def test_where_no_script_runs_there_is_a_still() -> None:
    assert play().html.count("<circle") == 2 * STATES.shape[1]
    assert turn().html.count("<circle") == BALL.shape[1] + 1
    assert wave().html.count("<polyline") == 1


def test_no_title_can_end_the_data_early() -> None:
    shown = figures.token_player(
        {"</script><b>": STATES}, TIMES, colour=np.arange(5.0), name="t", alt="a", caption=""
    )
    assert kept(shown)["panels"][0]["title"] == "</script><b>"


def test_the_clock_has_a_name() -> None:
    assert kept(wave())["clock"] == "time t"
    assert kept(wave(clock="layer"))["clock"] == "layer"


def test_the_player_is_the_same_twice() -> None:
    assert play().html == play().html


def test_the_player_refuses_states_that_do_not_belong_to_the_times() -> None:
    with pytest.raises(ValueError, match=r"with 4 times, got \(9, 5, 2\) for 'softmax'"):
        play(TIMES[:4])


def test_the_player_refuses_states_that_are_not_in_the_plane() -> None:
    with pytest.raises(ValueError, match=r"states must be \(times, n, 2\) .* got \(9, 5, 3\)"):
        play(states=BALL)


BALL = np.random.default_rng(1).normal(size=(9, 5, 3))
BALL /= np.linalg.norm(BALL, axis=2, keepdims=True)


def turn(times: np.ndarray = TIMES, path: np.ndarray = BALL) -> figures.Shown:
    return figures.sphere_player(
        path,
        times,
        colour=np.arange(5.0),
        name="globe",
        alt="Tokens & a sphere",
        caption="Each dot a token.",
    )


def test_the_frames_on_the_sphere_show_the_path() -> None:
    data = kept(turn())
    assert np.array(data["states"]) == pytest.approx(BALL, abs=CLOSE)
    assert data["colour"] == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_the_sphere_is_described_and_small() -> None:
    html = turn().html
    assert 'aria-label="Tokens &amp; a sphere"' in html
    assert 'id="fig-globe"' in html
    assert "https://" not in html
    assert len(html) < 100_000
    assert turn().html == html


@pytest.mark.parametrize(
    ("times", "path"), [(TIMES[:4], BALL), (TIMES, BALL[:, :, :2]), (TIMES, BALL[0])]
)
def test_the_sphere_refuses_a_path_of_another_shape(times: np.ndarray, path: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"path must be \(times, n, 3\) with \d times, got shape"):
        turn(times, path)


def wave(**options: Any) -> figures.Shown:
    x = np.linspace(0, 1, 5)
    frames = [{"curve": (x, np.full(5, float(k)))} for k in range(4)]
    return figures.curve_player(
        frames, np.arange(4.0), name="wave", alt="A wave", caption="It rises.",
        x_range=(0.0, 1.0), y_range=(0.0, 4.0), **options,
    )  # fmt: skip


@pytest.mark.parametrize("start", [0, 2])
def test_curves_open_at_the_frame_that_is_asked_for(start: int) -> None:
    data = kept(wave(start=start))
    assert data["start"] == start
    assert [frame[0]["y"][0] for frame in data["frames"]] == [0.0, 1.0, 2.0, 3.0]
    assert (data["x"], data["y"]) == ([0.0, 1.0], [0.0, 4.0])


@pytest.mark.parametrize("start", [-1, 4])
def test_curves_cannot_open_at_a_frame_that_is_not_there(start: int) -> None:
    with pytest.raises(ValueError, match=f"start must be one of 4 frames, got {start}"):
        wave(start=start)
