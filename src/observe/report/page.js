"use strict";
// Chooses what is shown; Vega draws it. Texts of runs reach the page as text nodes alone.
{
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const specs = read("specs");
  const report = read("data");
  const element = (id) => document.getElementById(id);
  const made = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const config = {
    axis: {
      labelColor: "#4c5661", titleColor: "#5a6673", titleFontWeight: 400, labelFontSize: 11, titleFontSize: 12, domainColor: "#98a2ad",
      tickColor: "#98a2ad", gridColor: "#e8ecf0", titlePadding: 8, labelFont: "system-ui, sans-serif", titleFont: "system-ui, sans-serif",
    },
    legend: {
      labelColor: "#4c5661", titleColor: "#5a6673", titleFontWeight: 400, titleFontSize: 12, labelFontSize: 11,
      labelFont: "system-ui, sans-serif", titleFont: "system-ui, sans-serif",
    },
  };
  const viridis = vega.scheme("viridis");
  // Dark to light ends before yellow, which a thin line on white does not show.
  const color_of = (color) => (typeof color === "number" ? viridis(0.05 + 0.75 * color) : color);
  const hidden_runs = new Set();

  const tooltip = made("div", undefined, { id: "vg-tooltip-element", role: "tooltip" });
  document.body.append(tooltip);
  const show_tooltip = (_handler, event, _item, value) => {
    tooltip.classList.toggle("visible", Boolean(value));
    if (!value) return;
    tooltip.textContent = Object.entries(value).map(([name, text]) => (name ? `${name}: ${text}` : text)).join("\n");
    tooltip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - tooltip.offsetWidth - 8)}px`;
    tooltip.style.top = `${Math.min(event.clientY + 14, window.innerHeight - tooltip.offsetHeight - 8)}px`;
  };

  const views = new Map();  // container -> view
  // A view of a specification in a container, in place of the one that was there.
  const draw = (container, spec) => {
    views.get(container)?.finalize();
    container.replaceChildren();
    const view = new vega.View(vega.parse(spec, config, { ast: true }), {
      expr: vega.expressionInterpreter, renderer: "canvas", container, hover: true, tooltip: show_tooltip,
    });
    views.set(container, view);
    view.run();
    return view;
  };
  const copy = (kind) => structuredClone(specs[kind]);
  const named = (list, name) => list.find((one) => one.name === name);
  const number = (value) =>
    value === null || value === undefined ? "–" : Math.abs(value) >= 1e4 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2)
      : String(Number(value.toPrecision(4)));

  // The largest of a chart's positive numbers by the smallest.
  const spread_of = (chart) => {
    const known = chart.series.flatMap((one) => one.y).filter((value) => value > 0);
    return known.reduce((a, b) => Math.max(a, b), 0) / known.reduce((a, b) => Math.min(a, b), Infinity);
  };

  // Curves -------------------------------------------------------------------------------------------------------
  const lines_spec = (chart, log) => {
    const spec = copy("lines");
    named(spec.data, "series").values = chart.series.map((one, s) => ({
      s, label: one.label, color: color_of(one.color), dash: one.dash ?? [], width: one.width ?? 1.6, opacity: one.opacity ?? 1,
      dots: one.x.length <= 40,
    }));
    named(spec.data, "points").values = chart.series.flatMap((one, s) =>
      one.x.map((x, i) => ({ s, x, y: log && !(one.y[i] > 0) ? null : one.y[i] })));
    const y = named(spec.scales, "y");
    if (log) Object.assign(y, { type: "log", nice: false });
    if (chart.zero && !log) y.zero = true;
    if (chart.domain && !log) Object.assign(y, { domain: chart.domain, nice: false });
    const axis = spec.axes[0];
    axis.title = chart.y;
    if (chart.percent) axis.format = "~%";
    if (log) Object.assign(axis, { gridOpacity: 0.6, tickCount: spread_of(chart) < 100 ? 10 : 4 });
    return spec;
  };

  // One entry for all series of a group; it shows what they are at the step pointed at, else at the end.
  const add_legend = (figure, chart, state) => {
    const legend = made("div", undefined, { class: "legend" });
    const groups = new Map();
    chart.series.forEach((one, s) => {
      const group = one.group ?? one.label;
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(s);
    });
    const step = made("span", "", { class: "step" });
    state.entries = [];
    for (const [group, members] of groups) {
      const one = chart.series[members[0]];
      const button = made("button", undefined, { type: "button", "aria-pressed": "true" });
      const key = made("i", undefined, { class: !one.dash ? "" : one.dash[0] < 3 ? "dotted" : "dashed" });
      key.style.setProperty("--key", color_of(one.color));
      const value = made("b");
      button.append(key, made("span", group), value);
      button.addEventListener("click", () => {
        const off = !members.every((s) => state.off.has(s));
        members.forEach((s) => (off ? state.off.add(s) : state.off.delete(s)));
        state.update();
      });
      state.entries.push({ members, button, value });
      legend.append(button);
    }
    legend.append(step);
    state.step = step;
    figure.append(legend);
  };

  const is_hidden = (chart, state, s) => state.off.has(s) || hidden_runs.has(chart.series[s].run);
  const last_known = (one) => {
    for (let i = one.y.length - 1; i >= 0; --i) if (one.y[i] !== null) return { x: one.x[i], y: one.y[i] };
    return null;
  };

  const lines = (figure, chart) => {
    const state = { off: new Set(), log: Boolean(chart.log) && spread_of(chart) > 10 };
    add_legend(figure, chart, state);
    const container = made("div", undefined, { class: "chart" });
    figure.append(container);
    const read_out = () => {
      const near = state.view.data("nearest");
      for (const { members, value } of state.entries) {
        const points = near.length > 0 ? near.filter((point) => members.includes(point.s))
          : members.map((s) => last_known(chart.series[s])).filter(Boolean);
        const low = Math.min(...points.map((point) => point.y));
        const high = Math.max(...points.map((point) => point.y));
        const text = (y) => (chart.percent ? `${number(100 * y)} %` : number(y));
        value.textContent = points.length === 0 ? "–" : text(low) === text(high) ? text(low) : `${text(low)} to ${text(high)}`;
      }
      state.step.textContent = near.length > 0 ? `step ${Math.round(state.view.signal("at")).toLocaleString("en")}` : "at the end";
    };
    state.update = () => {
      const hidden = chart.series.map((_one, s) => s).filter((s) => is_hidden(chart, state, s));
      for (const { members, button } of state.entries) {
        button.setAttribute("aria-pressed", String(!members.every((s) => is_hidden(chart, state, s))));
      }
      state.view.signal("hidden", hidden).run();
    };
    const redraw = () => {
      state.view = draw(container, lines_spec(chart, state.log));
      state.view.addDataListener("nearest", read_out);
      state.update();
      read_out();
    };
    if (chart.may_log) {
      const button = made("button", "log", { type: "button", "aria-pressed": String(state.log), title: "logarithmic axis" });
      button.addEventListener("click", () => {
        state.log = !state.log;
        button.setAttribute("aria-pressed", String(state.log));
        redraw();
      });
      figure.querySelector("figcaption").append(button);
    }
    redraw();
    return state;
  };

  // Heat maps ----------------------------------------------------------------------------------------------------
  const heat = (figure, chart) => {
    const spec = copy("heat");
    named(spec.data, "cells").values = chart.rows.flatMap((r, i) => chart.values[i]
      .map((v, c) => ({ r, v, x0: chart.begins[c], x1: chart.begins[c + 1] ?? chart.end }))
      .filter(({ v }) => v !== null && (!chart.log || v > 0)));
    named(spec.scales, "x").domain = [chart.begins[0], chart.end];
    named(spec.scales, "y").domain = chart.rows;
    const color = named(spec.scales, "color");
    if (chart.log) Object.assign(color, { type: "log", domain: { data: "cells", field: "v" } });
    if (chart.log) Object.assign(spec.legends[0], { tickCount: 4, format: "~g" });
    spec.legends[0].title = chart.legend;
    spec.height = Math.max(60, Math.min(chart.rows.length * (chart.rows.length > 40 ? 9 : 16), 900));
    const container = made("div", undefined, { class: "chart" });
    figure.append(container);
    const view = draw(container, spec);
    view.addSignalListener("row", (_name, row) => choose_head(row));
    return { container };
  };

  const charts = [];
  const fill = (figure, chart) => {
    for (const node of [...figure.children].slice(1)) node.remove();
    figure.querySelector("figcaption button")?.remove();
    if (!chart || chart.missing !== undefined) {
      figure.append(made("p", `Missing: ${chart?.missing ?? "nothing is known of it"}`, { class: "missing" }));
      return;
    }
    const state = chart.kind === "heat" ? heat(figure, chart) : lines(figure, chart);
    if (state.update) charts.push({ figure, state });
  };

  // Attention maps -----------------------------------------------------------------------------------------------
  const chosen = { run: 0, layer: 0, head: 0, token: 0 };
  const maps = () => report.runs[chosen.run].maps;
  // In ten-thousandths; below 0: the mask drops the key.
  const cell = (q, k) => maps().weights[chosen.layer * maps().heads + chosen.head][q * maps().tokens.length + k];
  const weight = (q, k) => Math.max(0, cell(q, k)) / 1e4;
  let map_view, bars_view;

  const options = (select, labels) => {
    select.replaceChildren(...labels.map((label, i) => made("option", label, { value: i })));
  };

  const show_token = () => {
    const { tokens, entropies, heads } = maps();
    const q = chosen.token;
    const row = tokens.map((_token, k) => weight(q, k));
    const largest = Math.max(...row, 1e-9);
    element("strip").querySelectorAll("button").forEach((button, k) => {
      button.setAttribute("aria-pressed", String(k === q));
      button.style.setProperty("--weight", (row[k] / largest).toFixed(3));
      button.classList.toggle("dark", row[k] / largest > 0.6);
      button.title = `token ${k}: weight ${row[k].toFixed(4)}`;
    });
    element("token").value = q;
    const order = row.map((_w, k) => k).filter((k) => row[k] > 0).sort((a, b) => row[b] - row[a] || a - b).slice(0, 5);
    const entropy = entropies[chosen.layer * heads + chosen.head][q];
    element("readout").textContent = order.length === 0 ? `Token ${q} “${tokens[q]}” reads nothing in layer ${chosen.layer}, head ${chosen.head}.`
      : `Token ${q} “${tokens[q]}” in layer ${chosen.layer}, head ${chosen.head}: most to token ${order[0]} “${tokens[order[0]]}” ` +
        `(${row[order[0]].toFixed(4)}); entropy ${entropy.toFixed(2)} nats.`;
    element("top").tBodies[0].replaceChildren(...order.map((k) => {
      const line = made("tr");
      line.append(made("td", k, { class: "number" }), made("td", tokens[k], { class: "value" }), made("td", row[k].toFixed(4), { class: "number" }));
      return line;
    }));
    // A click on the map has set it already, in a run of the view that still goes on.
    if (map_view.signal("query") !== q) map_view.signal("query", q).runAsync();
    bars_view.data("weights", row.map((w, k) => ({ k, w })).filter(({ k }) => k < bars_view.signal("tokens").length)).run();
  };

  const show_head = () => {
    const { tokens } = maps();
    element("layer").value = chosen.layer;
    element("head").value = chosen.head;
    const cells = [];
    tokens.forEach((_q, q) => tokens.forEach((_k, k) => cell(q, k) >= 0 && cells.push({ q, k, w: weight(q, k) })));
    map_view.data("weights", cells).run();
    show_token();
  };

  const choose_token = (q) => {
    if (q === chosen.token) return;
    chosen.token = q;
    show_token();
  };

  // The head of a row of a heat map, "L1 H0".
  const choose_head = (row) => {
    const found = /^L(\d+) H(\d+)$/.exec(row ?? "");
    if (!found || !maps().tokens || Number(found[1]) >= maps().layers || Number(found[2]) >= maps().heads) return;
    chosen.layer = Number(found[1]);
    chosen.head = Number(found[2]);
    show_head();
    element("maps").scrollIntoView({ behavior: "smooth" });
  };

  const show_maps = () => {
    const { tokens, layers, heads, missing } = maps();
    element("no-maps").hidden = Boolean(tokens);
    element("some-maps").hidden = !tokens;
    element("no-maps").textContent = `Missing: ${missing}`;
    if (!tokens) return;
    chosen.layer = Math.min(chosen.layer, layers - 1);
    chosen.head = Math.min(chosen.head, heads - 1);
    chosen.token = tokens.length - 1;
    options(element("layer"), Array.from({ length: layers }, (_one, i) => i));
    options(element("head"), Array.from({ length: heads }, (_one, i) => i));
    options(element("token"), tokens.map((token, i) => `${i}  ${token}`));
    element("strip").replaceChildren(...tokens.flatMap((token, k) => {
      const button = made("button", token, { type: "button" });
      button.addEventListener("click", () => choose_token(k));
      return token === "\u21b5" ? [button, made("br")] : [button];
    }));
    for (const kind of ["map", "bars"]) {
      const spec = copy(kind);
      named(spec.signals, "tokens").value = tokens;
      const view = draw(element(kind), spec);
      if (kind === "map") map_view = view; else bars_view = view;
    }
    map_view.addSignalListener("query", (_name, q) => choose_token(q));
    show_head();
  };

  for (const id of ["layer", "head"]) {
    element(id).addEventListener("change", () => {
      chosen[id] = Number(element(id).value);
      show_head();
    });
  }
  element("token").addEventListener("change", () => choose_token(Number(element("token").value)));

  // Runs ---------------------------------------------------------------------------------------------------------
  const show_run = (index) => {
    chosen.run = index;
    const run = report.runs[index];
    for (const node of document.querySelectorAll(".of-run")) node.textContent = report.runs.length > 1 ? `of ${run.name}` : "";
    for (const figure of document.querySelectorAll("[data-run-chart]")) fill(figure, run.charts[figure.dataset.runChart]);
    show_maps();
  };

  for (const figure of document.querySelectorAll("[data-chart]")) fill(figure, report.charts[figure.dataset.chart]);
  if (report.runs.length > 1) {
    element("runs").hidden = false;
    report.runs.forEach((run, index) => {
      const label = made("label");
      const box = made("input", undefined, { type: "checkbox" });
      box.checked = true;
      label.style.setProperty("--run", run.color);
      box.addEventListener("change", () => {
        if (box.checked) hidden_runs.delete(index); else hidden_runs.add(index);
        charts.filter(({ figure }) => figure.dataset.chart).forEach(({ state }) => state.update());
      });
      label.append(box, made("span", undefined, { class: "chip" }), made("span", run.name));
      element("toggles").append(label);
    });
    options(element("run"), report.runs.map((run) => run.name));
    element("run").addEventListener("change", () => show_run(Number(element("run").value)));
  }
  show_run(0);
}
