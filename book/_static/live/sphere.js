// Laboratory: tokens on the sphere. Move beta, the number of tokens and the mask; see them gather.
(function () {
  "use strict";
  var live = window.attnflow;
  live.labs.sphere = function (root) {
    var stage = live.canvas(0.92, "Tokens on a sphere, moving under attention"), curve = live.canvas(0.92, "The energy over time");
    var panels = live.element("div", { class: "af-lab-panels" }, [stage, curve]);
    root.append(panels);
    var x, t, energies, turn = { yaw: 0.5, tilt: 0.35 };
    var controls = live.controls(root, "sphere", {
      beta: { label: "inverse temperature β", min: 0.1, max: 20, step: 0.1, value: 4 },
      n: { label: "tokens n", min: 2, max: 64, step: 1, value: 32 },
      speed: { label: "speed", min: 0.1, max: 20, step: 0.1, value: 1.5 },
      mask: { label: "mask", choices: ["encoder", "decoder"], value: "encoder" },
      norm: { label: "weights", choices: ["softmax (SA)", "unnormalised (USA)"], value: "softmax (SA)" },
      seed: { label: "start", min: 0, max: 99, step: 1, value: 7 },
    }, function (key) { if (key !== "speed" && key !== "beta") restart(); else energies = [[t, live.sphereEnergy(x, controls.values.beta)]]; draw(); });

    function settings() { return { causal: controls.values.mask === "decoder", usa: controls.values.norm.startsWith("un") }; }
    function restart() {
      x = live.spherePoints(controls.values.n, 3, controls.values.seed);
      t = 0;
      energies = [[0, live.sphereEnergy(x, controls.values.beta)]];
    }
    function frame(seconds) {
      var beta = controls.values.beta, left = seconds * controls.values.speed, how = settings();
      // without a denominator the field is up to e^beta large: steps follow it
      var most = 0.05 / (how.usa ? Math.max(1, Math.exp(beta) / x.length) : 1), steps = Math.min(40, Math.ceil(left / most));
      for (var k = 0; k < steps; k++) x = live.sphereStep(x, beta, Math.min(left / steps, most), how);
      t += Math.min(left, steps * most);
      energies.push([t, live.sphereEnergy(x, beta)]);
      if (energies.length > 2000) energies = energies.filter(function (_, i) { return i % 2 === 0; });
    }
    function draw() { drawSphere(); drawCurve(); }
    function drawSphere() {
      var it = stage.prepare(), c = it.context, colours = live.colours(), r = Math.min(it.width, it.height) * 0.44, cx = it.width / 2, cy = it.height / 2;
      var cy1 = Math.cos(turn.yaw), sy1 = Math.sin(turn.yaw), ct = Math.cos(turn.tilt), st = Math.sin(turn.tilt);
      function project(a) {
        var u = cy1 * a[0] - sy1 * a[1], v = sy1 * a[0] + cy1 * a[1];
        return { u: u, w: ct * a[2] - st * v, depth: ct * v + st * a[2] };
      }
      c.strokeStyle = colours.muted;
      c.globalAlpha = 0.5;
      c.beginPath(); c.arc(cx, cy, r, 0, 2 * Math.PI); c.stroke();
      for (var ring = -2; ring <= 2; ring++) {
        c.globalAlpha = 0.16;
        c.beginPath();
        for (var s = 0; s <= 60; s++) {
          var h = ring / 3, p = project([Math.sqrt(1 - h * h) * Math.cos(s * Math.PI / 30), Math.sqrt(1 - h * h) * Math.sin(s * Math.PI / 30), h]);
          c.lineTo(cx + r * p.u, cy - r * p.w);
        }
        c.stroke();
      }
      var seen = x.map(function (a, i) { var p = project(a); p.i = i; return p; }).sort(function (a, b) { return b.depth - a.depth; });
      seen.forEach(function (p) {
        c.globalAlpha = p.depth > 0 ? 0.25 : 0.95;
        c.fillStyle = controls.values.mask === "decoder" && p.i === 0 ? colours.series[4] : colours.series[p.i % 5 === 4 ? 3 : 0];
        c.beginPath(); c.arc(cx + r * p.u, cy - r * p.w, p.depth > 0 ? 3.5 : 5, 0, 2 * Math.PI); c.fill();
      });
      c.globalAlpha = 1;
      c.fillStyle = colours.ink;
      c.font = "13px sans-serif";
      c.fillText("t = " + t.toFixed(1), 8, 18);
      c.fillText(live.clusters(x, 0.99) + " clusters", 8, 36);
    }
    function drawCurve() {
      var it = curve.prepare(), c = it.context, colours = live.colours(), beta = controls.values.beta;
      var left = 46, right = it.width - 12, top = 26, bottom = it.height - 30, end = Math.max(energies[energies.length - 1][0], 1);
      var best = Math.exp(beta) / (2 * beta), least = Math.min.apply(null, energies.map(function (e) { return e[1]; }));
      function px(e) { return left + (right - left) * e / end; }
      function py(e) { return bottom - (bottom - top) * (Math.log(e) - Math.log(least)) / Math.max(Math.log(best) - Math.log(least), 1e-9); }
      c.strokeStyle = colours.muted; c.fillStyle = colours.ink; c.font = "12px sans-serif";
      c.strokeRect(left, top, right - left, bottom - top);
      c.setLineDash([4, 4]); c.beginPath(); c.moveTo(left, py(best)); c.lineTo(right, py(best)); c.stroke(); c.setLineDash([]);
      c.fillText("energy E(t), logarithmic; dashed: one cluster", left, top - 9);
      c.fillText("t", right - 6, bottom + 18); c.fillText(end.toFixed(0), right - 26, bottom + 18); c.fillText("0", left, bottom + 18);
      c.strokeStyle = colours.series[1]; c.lineWidth = 2; c.beginPath();
      energies.forEach(function (e) { c.lineTo(px(e[0]), py(e[1])); });
      c.stroke(); c.lineWidth = 1;
    }
    var drag = null;
    stage.addEventListener("pointerdown", function (event) { drag = { x: event.clientX, y: event.clientY, yaw: turn.yaw, tilt: turn.tilt }; stage.setPointerCapture(event.pointerId); });
    stage.addEventListener("pointermove", function (event) {
      if (!drag) return;
      turn.yaw = drag.yaw + (event.clientX - drag.x) / 120;
      turn.tilt = drag.tilt + (event.clientY - drag.y) / 120;
      draw();
    });
    stage.addEventListener("pointerup", function () { drag = null; });
    stage.addEventListener("keydown", function (event) {
      var by = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      if (!by) return;
      turn.yaw += by[0]; turn.tilt += by[1]; event.preventDefault(); draw();
    });
    restart();
    live.player(root, controls, { restart: restart, frame: frame, draw: draw });
  };

  // Groups of tokens whose neighbours have an inner product above `near`.
  live.clusters = function (x, near) {
    var left = x.map(function (_, i) { return i; }), count = 0;
    while (left.length) {
      var grown = [left.pop()];
      count++;
      while (grown.length) {
        var here = grown.pop(), stay = [];
        left.forEach(function (j) { (live.dot(x[here], x[j]) > near ? grown : stay).push(j); });
        left = stay;
      }
    }
    return count;
  };
})();
