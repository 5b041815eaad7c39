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


def frames_of(html: str) -> list[dict]:
    start = re.search(r"addFrames\([^,]*,\s*", html)
    assert start is not None
    return json.JSONDecoder().raw_decode(html, start.end())[0]


def test_the_player_has_one_frame_for_every_time() -> None:
    frames = frames_of(play().html)
    assert [frame["name"] for frame in frames] == [str(k) for k in range(len(TIMES))]


def test_every_time_can_be_reached_by_its_frame_name() -> None:
    times = np.linspace(0.0, 0.02, 9)
    names = [frame["name"] for frame in frames_of(play(times).html)]
    assert len(set(names)) == len(times)


def test_the_frames_show_the_states() -> None:
    for k, frame in enumerate(frames_of(play().html)):
        dots = [trace for trace in frame["data"] if trace["mode"] == "markers"]
        assert len(dots) == 2
        for trace, states in zip(dots, (STATES, 0.5 * STATES), strict=True):
            assert trace["x"] == pytest.approx(states[k, :, 0], abs=CLOSE)
            assert trace["y"] == pytest.approx(states[k, :, 1], abs=CLOSE)


def test_the_player_is_described_and_brings_no_library_of_its_own() -> None:
    html = play().html
    assert 'aria-label="Tokens &amp; clusters"' in html
    assert 'id="fig-tokens"' in html
    assert "<script src=" not in html
    assert "https://" not in html
    assert len(html) < 200_000


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


def traces_of(html: str) -> list[dict]:
    start = re.search(r"Plotly\.newPlot\(\s*\"plot-\w+\",\s*", html)
    assert start is not None
    return json.JSONDecoder().raw_decode(html, start.end())[0]


def test_the_frames_on_the_sphere_show_the_path() -> None:
    frames = frames_of(turn().html)
    assert [frame["name"] for frame in frames] == [str(k) for k in range(len(TIMES))]
    for frame, x in zip(frames, BALL, strict=True):
        (dots,) = (trace for trace in frame["data"] if trace["mode"] == "markers")
        shown = np.stack([dots[axis] for axis in "xyz"], axis=1)
        assert shown == pytest.approx(x, abs=CLOSE)


def test_frames_on_the_sphere_move_the_tokens_and_leave_the_sphere() -> None:
    html = turn().html
    kinds = [trace["type"] for trace in traces_of(html)]
    assert kinds == ["scatter3d", "scatter3d", "scatter3d", "surface"]
    assert all(frame["traces"] == [0, 1] for frame in frames_of(html))


def test_a_figure_in_space_is_redrawn_by_its_controls_and_one_in_the_plane_is_not() -> None:
    assert '"redraw":true' in turn().html
    assert '"redraw":false' not in turn().html
    assert '"redraw":true' not in play().html


def test_the_net_lies_on_the_sphere_and_the_veil_below_it() -> None:
    *_, net, veil = traces_of(turn().html)
    points = np.array([net[axis] for axis in "xyz"], dtype=float)
    radii = np.linalg.norm(points, axis=0)
    assert radii[np.isfinite(radii)] == pytest.approx(1.0, abs=2 * CLOSE)
    below = np.linalg.norm([np.array(veil[axis]) for axis in "xyz"], axis=0)
    assert (below < 0.98).all()


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
    html = wave(start=start).html
    (curve,) = traces_of(html)
    assert curve["y"] == [float(start)] * 5
    assert [frame["data"][0]["y"][0] for frame in frames_of(html)] == [0.0, 1.0, 2.0, 3.0]
    assert f'"active":{start}' in html


@pytest.mark.parametrize("start", [-1, 4])
def test_curves_cannot_open_at_a_frame_that_is_not_there(start: int) -> None:
    with pytest.raises(ValueError, match=f"start must be one of 4 frames, got {start}"):
        wave(start=start)
