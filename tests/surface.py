"""Good calls of the public functions, each argument by name: what the tests of bad inputs spoil."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from attnflow import (
    attention,
    claims,
    densities,
    differences,
    gaussian,
    geometry,
    langevin,
    line,
    lipschitz,
    norms,
    schemes,
    sphere,
    transport,
)
from attnflow.trained import certificate, sinks

I = np.eye(2)  # noqa: E741
X = np.array([[0.5, 0.0], [0.0, 1.0], [-1.0, -0.5], [0.25, 0.25]])
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
W = np.full(4, 0.25)
LAYER = attention.SoftmaxAttention(I, I, I)
BELL = densities.Gaussian(0.0, 1.0)
MIX = densities.GaussianMixture([0.5, 0.5], [-1.0, 1.0], [1.0, 2.0])
PLANE = densities.Gaussian([0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]])
TIMES = [0.0, 0.5, 1.0]
ROW = claims.check("a.b", predicted=1.0, measured=1.0, tol=0.1)


class Call(NamedTuple):
    """A function with arguments for which it has an answer."""

    name: str
    function: Callable[..., Any]
    good: Mapping[str, Any]


def _layers() -> list[Call]:
    out = []
    for kind in ("Softmax", "L2", "Sinkhorn", "Unnormalised"):
        make = getattr(attention, f"{kind}Attention")
        layer = make(I, I, I)
        out.append(Call(f"{kind}Attention", make, {"Q": I, "K": I, "V": I}))
        measure = {"x": X, "weights": W}
        out += [
            Call(f"{kind}.matrix", layer.matrix, measure),
            Call(f"{kind}.velocity", layer.velocity, measure),
            Call(f"{kind}.field", layer.field, {"points": X[:2], **measure}),
            Call(f"{kind}.causal", make(I, I, I, causal=True).matrix, measure),
        ]
    both = attention.MultiHead([LAYER, LAYER], W=[I, I])
    return [
        *out,
        Call("Sinkhorn.eps", attention.SinkhornAttention,
             {"Q": I, "K": -I, "V": I, "eps": 1.0, "tol": 1e-6}),
        Call("MultiHead", attention.MultiHead, {"heads": [LAYER, LAYER], "W": [I, I]}),
        Call("MultiHead.velocity", both.velocity, {"x": X, "weights": W}),
        Call("MultiHead.field", both.field, {"points": X, "x": X, "weights": W}),
    ]  # fmt: skip


def _measures() -> list[Call]:
    bridge = transport.self_bridge(X, 0.5)
    return [
        Call("self_bridge", transport.self_bridge,
             {"x": X, "eps": 0.5, "weights": W, "tol": 1e-6, "method": "dense"}),
        Call("Bridge.conditional_mean", bridge.conditional_mean, {"points": X}),
        Call("self_bridges", transport.self_bridges,
             {"x": [X, X], "eps": 0.5, "weights": W, "tol": 1e-6}),
        Call("pair_bridge", transport.pair_bridge,
             {"x": X, "y": X + 1, "eps": 0.5, "a": W, "b": W, "tol": 1e-6, "method": "dense"}),
        Call("PairBridge.conditional_mean", transport.pair_bridge(X, X, 0.5).conditional_mean,
             {"points": X}),
        Call("sinkhorn", transport.sinkhorn, {"scores": np.arange(8.0).reshape(2, 4), "b": W}),
        Call("w2", transport.w2, {"x": X, "y": X + 1, "a": W, "b": W}),
        Call("wp", transport.wp, {"x": X, "y": X + 1, "p": 3.0, "a": W, "b": W}),
        Call("Gaussian", densities.Gaussian, {"mean": [0.0, 1.0], "cov": I}),
        Call("GaussianMixture", densities.GaussianMixture,
             {"weights": [0.5, 0.5], "means": [-1.0, 1.0], "covs": [1.0, 2.0]}),
        *(Call(f"density.{f}", getattr(d, f), {"x": x}) for d, x in ((MIX, [0.0, 1.0]), (PLANE, X))
          for f in ("pdf", "logpdf", "score")),
        Call("density.heat", MIX.heat, {"t": 0.5}),
        Call("density.cdf", MIX.cdf, {"x": [0.0, 1.0]}),
        Call("density.quantile_map", MIX.quantile_map, {"x": [0.0, 1.0], "t": 0.5}),
        Call("density.sample", MIX.sample, {"n": 3, "rng": np.random.default_rng(0)}),
        Call("symmetric_kl", langevin.symmetric_kl, {"density": BELL, "eps": 0.5}),
        Call("path_divergence", langevin.path_divergence, {"density": BELL, "eps": 0.5}),
        Call("bridge_step", schemes.bridge_step, {"x": X, "eps": 1.0, "weights": W}),
        Call("euler_step", schemes.euler_step, {"x": X, "eps": 1.0, "score": PLANE.score}),
        Call("uniform_error", schemes.uniform_error,
             {"density": BELL, "eps": 0.5, "T": 1.0, "scheme": "bridge"}),
        Call("score_error", schemes.score_error, {"density": BELL, "eps": 0.5}),
        Call("iterate", schemes.iterate, {"x": X, "eps": 1.0, "depth": 1, "weights": W}),
        Call("general_step", schemes.general_step,
             {"x": X, "eps": 1.0, "theta": 2.0, "surrogate": W}),
        Call("line_grid", line.line_grid,
             {"density": BELL, "eps": 0.5, "half_width": 9.0, "resolution": 3.5}),
        Call("on_grid", differences.on_grid, {"values": [0.0, 1.0, 4.0], "h": 1.0}),
    ]  # fmt: skip


def _closed_forms() -> list[Call]:
    three = {"Q": I, "K": I, "V": -I, "cov0": I}
    return [
        *(Call(f, getattr(gaussian, f), {"cov": I, "eps": 0.5})
          for f in ("bridge_gain", "bridge_step_cov", "euler_step_cov", "one_step_w2",
                    "langevin_path_kl")),
        Call("bures_w2", gaussian.bures_w2, {"cov0": I, "cov1": 2 * I}),
        Call("entropic_cost", gaussian.entropic_cost, {"cov0": I, "cov1": 2 * I, "eps": 0.5}),
        Call("langevin_symmetric_kl", gaussian.langevin_symmetric_kl, {"var": 1.0, "eps": 0.5}),
        *(Call(f"covariance_flow.{kind}", gaussian.covariance_flow,
               {"kind": kind, **three, "t": 0.5, "mean0": [0.0, 1.0]})
          for kind in ("softmax", "sinkhorn")),
        Call("blow_up_time", gaussian.blow_up_time, three),
    ]  # fmt: skip


def _dynamics() -> list[Call]:
    short = {"n": 4, "d": 2, "betas": [1.0], "times": TIMES, "delta": 0.1}
    return [
        Call("sphere.velocity", sphere.velocity, {"x": UNIT, "beta": 1.0}),
        Call("sphere.energy", sphere.energy, {"x": UNIT, "beta": 1.0}),
        Call("field_jacobian", sphere.field_jacobian, {"x": UNIT, "beta": 1.0, "weights": None}),
        Call("saddle_bound", sphere.saddle_bound, {"x": UNIT, "beta": 1.0}),
        Call("critical_points", sphere.critical_points,
             {"n": 3, "d": 2, "beta": 1.0, "draws": 1, "rng": np.random.default_rng(0)}),
        Call("described", sphere.described, {"x": UNIT, "beta": 1.0}),
        Call("exponential_modes", sphere.exponential_modes, {"beta": 1.0, "d": 3, "count": 4}),
        Call("pair_modes", sphere.pair_modes, {"x": UNIT, "count": 3}),
        Call("sphere.flow", sphere.flow, {"x0": UNIT, "beta": 1.0, "times": TIMES}),
        Call("gram_flow", sphere.gram_flow, {"G0": UNIT @ UNIT.T, "beta": 1.0, "times": TIMES}),
        Call("sphere.gamma", sphere.gamma, {"beta": 1.0, "n": 4, "times": TIMES}),
        Call("hitting_time", sphere.hitting_time, {"beta": 1.0, "n": 4, "delta": 0.1}),
        Call("sphere.response", sphere.response, {"beta": 1.0, "n": 4, "times": TIMES}),
        Call("sphere.velocities", sphere.velocities, {"x": UNIT[None], "beta": 1.0}),
        Call("cluster_times", sphere.cluster_times,
             {"x0": UNIT[None], "beta": 1.0, "horizon": 1.0, "delta": 0.1}),
        Call("meeting_times", sphere.meeting_times,
             {"times": [0.0, 1.0], "states": np.stack([UNIT, UNIT])[:, None], "delta": 0.1}),
        Call("sphere.merges", sphere.merges,
             {"angles": [0.0, 1.0], "beta": 9.0, "masses": [1.0, 2.0], "horizon": 5.0}),
        Call("sphere.gathering", sphere.gathering,
             {"angles": [[0.0, 1.0]], "beta": 9.0, "delta": 0.1, "horizon": 5.0, "tol": 1e-6,
              "max_iter": 900}),
        Call("sphere.coalesce", sphere.coalesce, {"angles": [0.0, 1.0], "masses": [1.0, 2.0]}),
        Call("pair_log_time", sphere.pair_log_time,
             {"beta": 9.0, "angle": 1.0, "m1": 1.0, "m2": 2.0}),
        Call("pair_place", sphere.pair_place, {"beta": 9.0, "angle": 1.0, "m1": 1.0, "m2": 2.0}),
        Call("captures", sphere.captures, {"points": [0.0, 1.0], "length": 6.0}),
        Call("park", sphere.park, {"points": [0.0, 1.0], "radius": 0.5, "length": 6.0}),
        Call("parking_density", sphere.parking_density, {"tries": 2.0}),
        Call("phase_diagram", sphere.phase_diagram, {**short, "realisations": 2, "seed": 0}),
        Call("norms.velocity", norms.velocity, {"norm": "pre", "x": X, "beta": 1.0}),
        Call("norms.flow", norms.flow, {"norm": "peri", "x0": X, "beta": 1.0, "times": TIMES}),
        Call("norms.layers", norms.layers,
             {"norm": "nGPT", "x0": UNIT, "beta": 1.0, "depth": 2, "step": 0.5}),
        Call("norms.reading", norms.reading, {"gap": 0.5, "beta": 1.0, "n": 4}),
        Call("sphere_time", norms.sphere_time, {"beta": 1.0, "n": 4, "delta": 0.1, "start": 0.2}),
        Call("norms.size", norms.size, {"beta": 1.0, "n": 4, "delta": 0.1, "start": 0.2}),
        Call("norms.meeting_time", norms.meeting_time,
             {"norm": "pre", "beta": 1.0, "n": 4, "delta": 0.1, "start": 0.2, "radius": 2.0}),
        Call("log_meeting_time", norms.log_meeting_time,
             {"norm": "pre", "beta": 1.0, "n": 4, "delta": 0.1, "start": 0.2, "radius": 2.0}),
        Call("norms.curve", norms.curve,
             {"norm": "pre", "beta": 1.0, "n": 4, "times": TIMES, "start": 0.2, "radius": 2.0}),
        Call("norms.diagram", norms.diagram,
             {"norm": "pre", "n": 4, "betas": [1.0], "times": [0.5, 1.0]}),
        Call("last_phase", norms.last_phase, {"norm": "pre", "beta": 1.0, "n": 4, "radius": 2.0}),
        Call("equiangular_layers", norms.equiangular_layers,
             {"norm": "pre", "beta": 1.0, "n": 4, "depth": 3, "step": 0.5, "radius": 2.0}),
        Call("layers_to_meet", norms.layers_to_meet,
             {"norm": "pre", "beta": 1.0, "n": 4, "delta": 0.1, "step": 0.5, "most": 100}),
        Call("layers_to_time", norms.layers_to_time, {"norm": "pre", "step": 0.5, "radius": 2.0}),
        Call("critical_beta", norms.critical_beta, {"n": 4, "start": 0.2}),
        Call("sphere_law", norms.sphere_law, {"beta": 1.0, "n": 4, "delta": 0.1}),
        Call("limit_below", norms.limit_below, {"norm": "pre", "n": 4, "delta": 0.1}),
        Call("window_exponent", norms.window_exponent, {"norm": "pre", "shift": 0.5}),
        Call("rescaled_flow", geometry.rescaled_flow,
             {"attention": LAYER, "z0": X, "times": TIMES}),
        Call("limit", geometry.limit, {"attention": LAYER, "z": X, "tol": 1e-3}),
        Call("averaging_layers", geometry.averaging_layers,
             {"attention": LAYER, "z0": X, "depth": 2}),
    ]  # fmt: skip


def _constants() -> list[Call]:
    ball = {"A": -2 * I, "V": I, "R": 1.0}
    one = {"A": -2 * I, "R": 1.0}
    return [
        Call("jvp", lipschitz.jvp, {"layer": LAYER, "x": X, "e": X}),
        Call("vjp", lipschitz.vjp, {"layer": LAYER, "x": X, "u": X}),
        Call("local_constant", lipschitz.local_constant, {"layer": LAYER, "x": X, "tol": 1e-2}),
        Call("upper_bound", lipschitz.upper_bound, {**ball, "n": 8}),
        Call("lower_bound", lipschitz.lower_bound, {**one, "n": 8}),
        Call("mean_field_upper", lipschitz.mean_field_upper, ball),
        Call("mean_field_lower", lipschitz.mean_field_lower, one),
        Call("adversarial", lipschitz.adversarial, {**one, "n": 8}),
        Call("exponent", lipschitz.exponent, {"A": -2 * I}),
        Call("one_leader", lipschitz.one_leader, {**one, "n": 8}),
        Call("exponent_lower_bound", lipschitz.exponent_lower_bound, {**one, "n": 8}),
        Call("exponent_upper_bound", lipschitz.exponent_upper_bound, {**ball, "n": 8}),
        Call("two_leaders", lipschitz.two_leaders, {**ball, "n": 8}),
        Call("two_leaders_bound", lipschitz.two_leaders_bound, {**ball, "n": 8}),
        Call("places", lipschitz.places, {**ball, "n": 8}),
        Call("sharp_constant", lipschitz.sharp_constant, {"A": -2 * I}),
        Call("sharp_upper_bound", lipschitz.sharp_upper_bound, {**ball, "n": 8}),
        Call("sigmoid_upper_bound", lipschitz.sigmoid_upper_bound, {**ball, "n": 8}),
        Call("sigmoid_leaders", lipschitz.sigmoid_leaders, {**one, "n": 8, "leaders": 2}),
        Call("sigmoid_leaders_bound", lipschitz.sigmoid_leaders_bound,
             {**ball, "n": 8, "leaders": 2}),
        Call("SigmoidLinearised", lipschitz.SigmoidLinearised, {"layer": LAYER, "x": X}),
        Call("worse", lipschitz.worse, {"layer": LAYER, "x": X, "R": 1.0}),
        Call("certificate", certificate.certificate, {"layer": LAYER, "x": X}),
        Call("softmax_bound", certificate.softmax_bound, {"layer": LAYER, "x": X}),
        Call("unseen_bound", sinks.unseen_bound, {"layer": LAYER, "x": X, "place": 0}),
        Call("split", sinks.split, {"layer": LAYER, "x": X, "tol": 1e-2}),
    ]  # fmt: skip


def _statements() -> list[Call]:
    row = {"predicted": 1.0, "measured": 1.0, "tol": 0.1, "relation": "==", "case": "one"}
    return [
        Call("check", claims.check,
             {"id": "a.b", **row, "interval": (0.9, 1.1), "hypotheses": {"n > 1": True}}),
        Call("control", claims.control, {"id": "a.b", "removes": "it", **row}),
        Call("ledger", claims.ledger, {"runs": [ROW], "claims": ["a.b"]}),
    ]  # fmt: skip


CALLS = [
    *_layers(), *_measures(), *_closed_forms(), *_dynamics(), *_constants(), *_statements(),
]  # fmt: skip
