"""What a laboratory says is what the package computes."""

from __future__ import annotations

import numpy as np
import pytest
from shelves import Shelf, browser

from attnflow import densities, gaussian, langevin, lipschitz, norms, schemes, sphere
from attnflow.attention import SoftmaxAttention
from attnflow.book.pages.labs import LEVELS, fragment, phase_diagrams
from attnflow.rates import fit_rate
from attnflow.trained.stored import real_text


def test_stored_diagrams_are_those_of_the_package() -> None:
    import base64

    kept = phase_diagrams()
    for d, diagram in sphere.figure3().diagrams.items():
        shares = np.frombuffer(base64.b64decode(kept["shares"][str(d)]), np.uint8) / LEVELS
        wrong = np.abs(shares.reshape(diagram.probability.shape) - diagram.probability).max()
        assert wrong <= 0.5 / LEVELS + 1e-12
    assert len(fragment("phase")) < 80_000


@browser
def test_the_constant_at_two_leaders(shelf: Shelf) -> None:
    shelf.lab("leaders")
    x = np.array(shelf.state("leaders", "s.x"))
    A, I = -np.eye(2), np.eye(2)  # noqa: E741
    ours = lipschitz.local_constant(SoftmaxAttention(A, I, I), x, tol=1e-9).value
    assert shelf.state("leaders", "s.found.value") == pytest.approx(ours, rel=1e-6)
    assert lipschitz.two_leaders_bound(A, I, 2.5, 12) <= ours * (1 + 1e-9)


@browser
def test_the_leaders_for_other_scores(shelf: Shelf) -> None:
    lab = shelf.lab("leaders")
    lab.locator("input[name=a12]").press("ArrowRight")
    lab.locator("input[name=a22]").press("ArrowRight")
    shelf.page.wait_for_timeout(100)
    x = np.array(shelf.state("leaders", "s.x"))
    A, I = np.array([[-1.0, 0.1], [0.0, -0.9]]), np.eye(2)  # noqa: E741
    ours = lipschitz.local_constant(SoftmaxAttention(A, I, I), x, tol=1e-9).value
    assert shelf.state("leaders", "s.found.value") == pytest.approx(ours, rel=1e-5)
    assert lipschitz.two_leaders_bound(A, I, 2.5, 12) <= ours * (1 + 1e-6)
    lab.get_by_role("button", name="defaults").click()


@browser
def test_the_exponent_of_a_trained_layer(shelf: Shelf) -> None:
    shelf.lab("layers")
    kept = real_text()
    passages = kept.constants["smollm2"][14]
    mean = fit_rate(kept.lengths, np.exp(np.log(passages).mean(axis=0))).slope
    assert shelf.state("layers", "s.law.slope") == pytest.approx(mean, rel=1e-9)
    each = [fit_rate(kept.lengths, row).slope for row in passages]
    assert shelf.state("layers", "s.slopes[14]") == pytest.approx(each, rel=1e-9)


@browser
def test_the_blow_up_of_the_ellipse(shelf: Shelf) -> None:
    shelf.lab("ellipse")
    B = np.sqrt(0.8) * np.eye(2)
    S = np.array(shelf.state("ellipse", "s.S"))
    ours = gaussian.blow_up_time(B, B, [[1.0, -0.8], [0.8, 0.6]], S)
    assert shelf.state("ellipse", "s.paths.softmax.blowUp") == pytest.approx(ours, rel=1e-5)


@browser
def test_the_layer_that_grows_for_ever(shelf: Shelf) -> None:
    shelf.lab("space")
    state = "[s.layer.Q, s.layer.K, s.layer.V, s.path[s.path.length - 1].S, s.path[s.path.length - 1].t]"
    Q, K, V, S, t = shelf.state("space", state)
    ours, _ = gaussian.covariance_flow("softmax", Q, K, V, np.eye(3), t)
    assert (
        np.abs(np.array(S) / ours[0, 0] - ours / ours[0, 0]).max() <= 1e-2
    )  # it grew a thousandfold
    assert gaussian.fate(SoftmaxAttention(Q, K, V), np.eye(3)).outcome == "growth"
    assert "No blow-up" in shelf.page.locator("#lab-space .af-lab-says").inner_text()


@browser
def test_the_merges_of_the_circle(shelf: Shelf) -> None:
    lab = shelf.lab("stairs")
    angles, levels = shelf.state("stairs", "[s.angles, s.events.map(e => e.level)]")
    assert levels == pytest.approx(sphere.coalesce(angles).levels, abs=1e-12)
    lab.locator("[name=rule]").select_option("decoder")
    falls = shelf.state("stairs", "s.events.map(e => e.level)")
    ours = np.sort(1 - np.cos(sphere.captures(angles).radii[1:]))
    assert falls == pytest.approx(ours, abs=1e-12)


@browser
def test_the_gap_of_bridge_and_langevin(shelf: Shelf) -> None:
    shelf.lab("bridge")
    mix = densities.GaussianMixture([0.5, 0.5], [-1.5, 1.5], [0.7, 0.7])
    ours = langevin.symmetric_kl(mix, 0.6)
    assert shelf.state("bridge", "s.J") == pytest.approx(ours, rel=1e-4)


@browser
def test_the_errors_of_layers_and_of_explicit_euler(shelf: Shelf) -> None:
    shelf.lab("heat")
    mix = densities.GaussianMixture([0.5, 0.5], [-2.0, 2.0], [1.0, 1.0])
    for name in ("bridge", "euler"):
        live = max(error for _, error in shelf.state("heat", f"s.runs.{name}.errors"))
        assert live == pytest.approx(schemes.uniform_error(mix, 0.05, 1.0, name), rel=1e-3)


@browser
def test_the_score_that_attention_estimates(shelf: Shelf) -> None:
    shelf.lab("score")
    mix = shelf.state("score", "s.mix")
    ours = schemes.score_error(
        densities.GaussianMixture(mix["weights"], mix["means"], mix["vars"]), 0.1
    )
    assert shelf.state("score", "s.bias") == pytest.approx(ours, rel=1e-4)


@browser
def test_the_limit_of_the_crowd(shelf: Shelf) -> None:
    shelf.lab("crowd")
    a, B = np.pi / 6, np.sqrt(0.6) * np.eye(2)
    V = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    ours, _ = gaussian.covariance_flow("L2", B, B, V, [[1.0, 0.3], [0.3, 0.5]], 1.5)
    live = np.array(shelf.state("crowd", "s.limit.covs[s.limit.covs.length - 1]"))
    assert np.abs(live - ours).max() <= 1e-5


@browser
def test_the_four_clocks(shelf: Shelf) -> None:
    shelf.lab("clocks")
    live, layers = shelf.state("clocks", "[s.times, s.layers]")
    for norm in norms.NORMS:
        ours = norms.log_meeting_time(norm, 4.0, 256, 0.1)
        assert live[norm] == pytest.approx(ours, abs=1e-7)
        assert layers[norm] == np.ceil(norms.layers_to_meet(norm, 4.0, 256, 0.1))
