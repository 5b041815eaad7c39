// The form of a chapter: the command to copy, or, where `attnflow serve` gave the page a token, a run.
(function () {
  function start(form) {
    var chapter = form.dataset.chapter, token = (document.querySelector("meta[name=attnflow-token]") || {}).content;
    var code = form.querySelector(".af-command code"), out = form.querySelector("output"), list = form.querySelector(".af-runs");
    var button = function (name) { return form.querySelector("[data-do=" + name + "]"); };
    var current = null, timer = 0;

    function changed() {
      var given = {};
      Array.from(form.elements).forEach(function (field) {
        if (field.name && field.value.trim() !== field.dataset.default) given[field.name] = field.value.trim();
      });
      return given;
    }
    function command() {
      var given = changed(), words = ["attnflow run " + chapter];
      Object.keys(given).forEach(function (name) {
        var value = given[name];
        words.push("-p " + (/^[\w.+-]+$/.test(value) ? name + "=" + value : "'" + name + "=" + value.replace(/'/g, "'\\''") + "'"));
      });
      code.textContent = words.join(" ");
    }
    function element(tag, text, attributes) {
      var made = document.createElement(tag);
      made.textContent = text || "";
      Object.keys(attributes || {}).forEach(function (name) { made.setAttribute(name, attributes[name]); });
      return made;
    }
    function ask(method, path, body) {
      var settings = { method: method, headers: { "X-Attnflow-Token": token || "" } };
      if (body) { settings.headers["Content-Type"] = "application/json"; settings.body = JSON.stringify(body); }
      return fetch(path, settings).then(function (answer) {
        return answer.json().then(function (told) { if (!answer.ok) throw new Error(told.error); return told; });
      });
    }
    function show(told) {
      current = told;
      var busy = ["waiting", "running", "rendering"].includes(told.state);
      button("cancel").hidden = !busy;
      button("run").disabled = busy;
      out.replaceChildren();
      if (busy) out.append(told.state === "running" ? "running: cell " + told.cell + " of " + told.cells : told.state, element("progress", "", { max: told.cells || 1, value: told.cell }));
      else if (told.state === "done") out.append(result(told));
      else out.append(told.state + (told.message ? ": " + told.message : ""));
      clearTimeout(timer);
      if (busy) timer = setTimeout(function () { ask("GET", "/api/runs/" + told.name).then(show, failed); }, 700);
      else past();
    }
    function failed(error) { out.replaceChildren(error.message); button("run").disabled = false; button("cancel").hidden = true; }
    function result(told) {
      var part = document.createElement("div"), table = element("table"), head = element("tr");
      var bad = told.rows.filter(function (row) { return !row.sound; }).length;
      part.append(element("a", "the page of this run", { href: told.page }), " (" + told.seconds.toFixed(0) + " s, key " + told.key + "): " +
        (bad ? bad + " of " + told.rows.length + " rows are NOT as they must" : "all " + told.rows.length + " rows are as they must"));
      ["", "at defaults", "now", "verdict"].forEach(function (text) { head.append(element("th", text)); });
      table.append(head);
      told.rows.forEach(function (row) {
        var line = element("tr", "", { class: row.sound ? "" : "af-unsound" });
        var name = element("td");
        name.append(element("a", (row.control ? "control: " : "") + row.claim, { href: told.page + "#" + row.anchor }));
        line.append(name, element("td", row.measured_at_defaults), element("td", row.measured),
          element("td", row.verdict === row.verdict_at_defaults ? row.verdict : row.verdict_at_defaults + " → " + row.verdict));
        table.append(line);
      });
      var frame = element("div", "", { class: "af-scroll" });
      frame.append(table);
      part.append(frame);
      return part;
    }
    function past() {
      ask("GET", "/api/runs").then(function (told) {
        var own = told.runs.filter(function (run) { return run.chapter === chapter && run.page; });
        list.replaceChildren();
        if (!own.length) return;
        list.append(element("strong", "past runs: "));
        own.forEach(function (run) {
          var words = Object.keys(run.changed).map(function (name) { return name + "=" + run.changed[name]; }).join(", ") || "defaults";
          list.append(element("a", words, { href: run.page }), " ");
        });
      }, function () {});
    }
    form.addEventListener("input", command);
    form.addEventListener("reset", function () { setTimeout(command); });
    button("copy").addEventListener("click", function () {
      (navigator.clipboard ? navigator.clipboard.writeText(code.textContent) : Promise.reject()).then(
        function () { out.textContent = "copied"; }, function () { getSelection().selectAllChildren(code); });
    });
    if (!token) return;
    button("run").hidden = false;
    form.querySelectorAll("[data-free]").forEach(function (field) { // a folder is named on the command line only
      field.disabled = true;
      field.title = "on the command line only";
    });
    form.addEventListener("submit", function (event) {
      event.preventDefault();
      ask("POST", "/api/runs", { chapter: chapter, parameters: changed() }).then(show, failed);
    });
    button("cancel").addEventListener("click", function () {
      if (current) ask("DELETE", "/api/runs/" + current.name).then(show, failed);
    });
    past();
  }
  window.addEventListener("DOMContentLoaded", function () { document.querySelectorAll(".af-rerun form").forEach(start); });
})();
