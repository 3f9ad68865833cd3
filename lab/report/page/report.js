// SPDX-License-Identifier: Apache-2.0
// Builds the page from the model that the program wrote into it (element #model) and has its figures drawn (figures.js,
// sweeps.js). Texts come from files of others: they enter the page as text, never as HTML.
"use strict";
(function () {
  const model = JSON.parse(document.getElementById("model").textContent);
  const { kinds } = spectralclipFigures;
  const { shown, isNumber, styleOf } = spectralclipFigures.parts;
  const state = (window.spectralclipReport = { figures: [], errors: [], done: false });
  window.addEventListener("error", (event) => state.errors.push(String(event.message)));
  window.addEventListener("unhandledrejection", (event) => state.errors.push(String(event.reason)));

  function element(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (typeof value === "function") node.addEventListener(name, value);
      else if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined)); // strings become text
    return node;
  }

  // ---- controls ----
  function rangeControl(control, place, choose) {
    const output = element("output", {}, shown(control.range[place]));
    const input = element("input", { type: "range", min: 0, max: control.range.length - 1, step: 1, value: place });
    const say = () => {
      output.textContent = shown(control.range[input.value]);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    say();
    input.addEventListener("input", () => {
      say();
      choose(Number(input.value));
    });
    return element("label", {}, control.label, input, output);
  }
  function selectControl(control, place, choose) {
    const options = control.options.map((text, i) => element("option", { selected: i === place ? "" : null }, text));
    const select = element("select", { change: () => choose(select.selectedIndex) }, ...options);
    return element("label", {}, control.label, select);
  }
  function showControls(drawing) {
    const kind = kinds[drawing.figure.kind];
    const controls = kind.controls ? kind.controls(drawing.figure, drawing.chosen, model) : [];
    const focused = drawing.controls.contains(document.activeElement) && document.activeElement.parentNode.dataset.name;
    const nodes = controls.map((control) => {
      const values = control.values || (control.options || control.range).map((_, i) => i);
      const place = Math.max(0, values.indexOf(drawing.chosen[control.name] ?? values[0]));
      drawing.chosen[control.name] = values[place];
      const choose = (index) => {
        drawing.chosen[control.name] = values[index];
        if (control.name === "run" || control.name === "layer") showControls(drawing); // other layers, other steps
        return guarded(drawing);
      };
      const node = (control.range ? rangeControl : selectControl)(control, place, choose);
      node.dataset.name = control.name;
      return node;
    });
    drawing.controls.replaceChildren(...nodes);
    for (const node of nodes) if (node.dataset.name === focused) node.querySelector("select, input").focus();
  }

  // ---- legend: HTML, so that it can be reached by keyboard and never covers the plot ----
  const dashArrays = {
    solid: "none", dash: "6 4", dot: "2 3", dashdot: "6 3 2 3", longdash: "10 4", longdashdot: "10 3 2 3",
  };
  const shapes = {
    circle: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    square: "M-3.5-3.5h7v7h-7z",
    diamond: "M0-5L5 0 0 5-5 0z",
    "triangle-up": "M0-5L5 4H-5z",
    "triangle-down": "M0 5L5-4H-5z",
    x: "M-4-2l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",
    star: "M0-5.5l1.6 3.6 3.9.4-2.9 2.6.8 3.9L0 3l-3.4 2 .8-3.9-2.9-2.6 3.9-.4z",
    cross: "M-1.5-5h3v3.5H5v3H1.5V5h-3V1.5H-5v-3h3.5z",
  };
  function drawn(tag, attributes) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }
  function swatch(trace) {
    const meta = trace.meta;
    const { color, symbol } = styleOf(meta.style);
    const node = drawn("svg", { width: 30, height: 14, "aria-hidden": "true" });
    if (meta.bar) node.append(drawn("rect", { x: 6, y: 1, width: 18, height: 12, fill: color }));
    if (!meta.bar && !meta.point) {
      const dash = dashArrays[trace.line.dash] || "none";
      node.append(drawn("line", { x2: 30, y1: 7, y2: 7, stroke: color, "stroke-width": 2, "stroke-dasharray": dash }));
    }
    if (!meta.bar && !meta.plain)
      node.append(drawn("path", { d: shapes[meta.symbol || symbol], transform: "translate(15 7)", fill: color }));
    return node;
  }
  function showLegend(drawing, traces) {
    const entries = new Map();
    for (const trace of traces)
      if (trace.meta && isNumber(trace.meta.style) && !entries.has(trace.meta.label)) entries.set(trace.meta.label, trace);
    const focused = drawing.legend.contains(document.activeElement) ? document.activeElement.textContent : null;
    const byStyle = [...entries].sort(([, a], [, b]) => a.meta.style - b.meta.style);
    const buttons = byStyle.map(([label, trace]) => {
      const toggle = () => {
        if (!drawing.hidden.delete(label)) drawing.hidden.add(label);
        return guarded(drawing);
      };
      const pressed = String(!drawing.hidden.has(label));
      return element("button", { type: "button", "aria-pressed": pressed, click: toggle }, swatch(trace), label);
    });
    drawing.legend.replaceChildren(...buttons.map((button) => element("li", {}, button)));
    for (const button of buttons) if (button.textContent === focused) button.focus();
  }

  // ---- drawing ----
  const drawings = [];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // Plotly's own bar would offer to send the chart to its maker's cloud: here every button is named.
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: window.matchMedia("(pointer: coarse)").matches ? false : "hover",
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  };
  let printing = false;

  async function draw(drawing) {
    const { figure, plot, chosen } = drawing;
    const kind = kinds[figure.kind];
    spectralclipFigures.useTheme(dark.matches && !printing ? "dark" : "light");
    drawing.width = plot.clientWidth;
    if (kind.height) plot.style.height = kind.height(figure, drawing.width) + "px";
    const { traces, layout } = kind.draw(figure, chosen, drawing.width, model);
    showLegend(drawing, traces);
    showTable(drawing);
    for (const trace of traces) if (trace.meta && drawing.hidden.has(trace.meta.label)) trace.visible = false;
    await Plotly.react(plot, traces, layout, config);
    note(drawing);
  }
  async function guarded(drawing) {
    try {
      await draw(drawing);
    } catch (error) {
      state.errors.push(`${drawing.figure.id}: ${error}`);
      drawing.plot.replaceChildren(element("p", { class: "warning" }, "This figure could not be drawn: " + error));
    }
  }
  async function drawAll() {
    for (const drawing of drawings) await guarded(drawing);
  }

  // What was really drawn, for tests and the curious: window.spectralclipReport and element #report-state.
  function pointsIn(trace) {
    if (trace.z) return trace.z.flat().filter(isNumber).length;
    return trace.x.filter((x, i) => x !== null && trace.y[i] !== null).length;
  }
  function note({ figure, plot }) {
    const visible = plot.data.filter((trace) => trace.visible !== false);
    const marks = ".scatterlayer > .trace, .barlayer > .trace, .heatmaplayer > .hm";
    const entry = {
      id: figure.id,
      kind: figure.kind,
      traces: visible.length,
      points: visible.reduce((sum, trace) => sum + pointsIn(trace), 0),
      drawn: plot.querySelectorAll(marks).length,
    };
    state.figures = state.figures.filter((one) => one.id !== figure.id).concat(entry);
    publish();
  }
  function publish() {
    let node = document.getElementById("report-state");
    if (!node) document.body.append((node = element("script", { type: "application/json", id: "report-state" })));
    node.textContent = JSON.stringify(state);
  }

  // ---- tables ----
  const hasNumber = (cell) => cell.sort !== undefined;
  function compareCells(a, b) {
    if (hasNumber(a) && hasNumber(b)) return a.sort - b.sort;
    if (hasNumber(a) !== hasNumber(b)) return hasNumber(a) ? -1 : 1; // what has no number comes last
    return a.text.localeCompare(b.text, undefined, { numeric: true });
  }
  const scrolling = (node, label) =>
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, node);
  function rowNode(row, table) {
    const isBest = Boolean(table.best) && row[0].text === table.best;
    const cells = row.map((cell, i) => {
      const kind = hasNumber(cell) ? "number" : cell.text.length > 24 ? "wide" : null;
      const badge = isBest && i === 0 ? element("span", { class: "badge" }, "best") : null;
      return element("td", { class: kind }, cell.text, badge);
    });
    return element("tr", { class: isBest ? "best" : null }, ...cells);
  }
  function sortableTable(table, label) {
    const body = element("tbody");
    const fill = (rows) => body.replaceChildren(...rows.map((row) => rowNode(row, table)));
    const heads = table.columns.map((column, index) => {
      const button = element("button", { type: "button", click: () => sortBy(index) }, column);
      return element("th", { scope: "col" }, button);
    });
    function sortBy(index) {
      const descending = heads[index].getAttribute("aria-sort") === "ascending";
      for (const head of heads) head.removeAttribute("aria-sort");
      heads[index].setAttribute("aria-sort", descending ? "descending" : "ascending");
      const sign = descending ? -1 : 1;
      fill([...table.rows].sort((a, b) => sign * compareCells(a[index], b[index])));
    }
    fill(table.rows);
    return scrolling(element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body), label);
  }
  function plainTable(columns, rows, label) {
    const cell = (text, i) => (i === 0 ? element("th", { scope: "row" }, text) : element("td", {}, text));
    const heads = columns.map((column) => element("th", { scope: "col" }, column));
    const lines = rows.map((row) => element("tr", {}, ...row.map(cell)));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...lines));
    return scrolling(table, label);
  }
  function showTable(drawing) {
    const { figure, chosen } = drawing;
    const table = figure.table || (figure.views && figure.views[chosen.view || 0].table);
    if (!table || drawing.shownTable === table) return;
    drawing.shownTable = table;
    drawing.table.replaceChildren(sortableTable(table, figure.title));
  }
  function settingsNode({ labels, differing, same }) {
    if (differing.length + same.length === 0) return null;
    const parts = [];
    if (differing.length > 0)
      parts.push(element("p", {}, "What differs:"), plainTable(["setting", ...labels], differing, "Settings that differ"));
    if (same.length > 0)
      parts.push(
        element("p", {}, labels.length > 1 ? "The same for all:" : "All settings:"),
        plainTable(["setting", "value"], same, "Settings that are the same for all")
      );
    return element("details", {}, element("summary", {}, "Settings"), ...parts);
  }

  // ---- commands ----
  // A page opened from a file may be denied the clipboard; then by selection.
  async function copied(text, node) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      window.getSelection().selectAllChildren(node);
      return document.execCommand("copy");
    }
  }
  function copyButton(text, node) {
    const button = element("button", { type: "button" }, "Copy");
    button.addEventListener("click", async () => {
      button.textContent = (await copied(text, node)) ? "Copied" : "Selected: copy by hand";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    return button;
  }
  function reproduceNode(commands) {
    if (commands.length === 0)
      return element("p", { class: "reproduce" }, "How to reproduce: the runs do not say by which command they were made.");
    const text = commands.join("\n");
    const code = element("pre", { tabindex: 0 }, element("code", {}, text));
    const button = copyButton(text, code);
    if (commands.length <= 2) return element("div", { class: "reproduce" }, "How to reproduce:", code, button);
    const summary = element("summary", {}, `How to reproduce (${commands.length} commands)`);
    return element("details", { class: "reproduce" }, summary, code, button);
  }

  // ---- the page ----
  const byId = (id) => document.getElementById(id);
  const partId = (name) => "part-" + name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const within = (list, part) => list.filter((one) => one.part === part);

  function figureNode(figure) {
    const drawing = {
      figure,
      chosen: kinds[figure.kind].start ? kinds[figure.kind].start(figure) : {},
      hidden: new Set(),
      width: 0,
      plot: element("div", { class: "plot", role: "img", "aria-label": figure.label }),
      controls: element("div", { class: "controls" }),
      legend: element("ul", { class: "legend", "aria-label": "Curves; press one to hide or show it" }),
      table: element("div"),
    };
    drawings.push(drawing);
    showControls(drawing);
    const titleId = figure.id + "-title";
    return element(
      "figure",
      { class: "figure", id: figure.id, "data-figure": figure.id, "aria-labelledby": titleId },
      element("h3", { id: titleId }, figure.title),
      drawing.controls,
      drawing.plot,
      drawing.legend,
      element("figcaption", {}, figure.caption),
      drawing.table,
      reproduceNode(figure.commands)
    );
  }
  function partNode(name) {
    const tables = within(model.tables, name).flatMap((table) => [
      element("h3", { id: table.id }, "Final results"),
      sortableTable(table, "Final results of " + name),
      element("p", { class: "reproduce" }, table.caption),
    ]);
    const settings = within(model.settings, name).map(settingsNode).filter(Boolean);
    const figures = within(model.figures, name).filter((figure) => figure !== lead).map(figureNode);
    const head = element("h2", { id: partId(name) }, name);
    return element("section", { "aria-labelledby": partId(name) }, head, ...tables, ...settings, ...figures);
  }
  // The first screen: what the summary says in words, as a picture.
  const lead = model.figures.length > 0 && model.figures[0].kind === "curves" ? model.figures[0] : null;
  function contentsNode(names) {
    const link = (id, text) => element("a", { href: "#" + id }, text);
    const items = names.map((name) => {
      const tables = within(model.tables, name).map((table) => link(table.id, "Final results"));
      const figures = within(model.figures, name).map((figure) => link(figure.id, figure.title));
      const list = element("ul", {}, ...[...tables, ...figures].map((one) => element("li", {}, one)));
      return element("li", {}, link(partId(name), name), list);
    });
    return element("details", { open: "" }, element("summary", {}, "Contents"), element("ul", {}, ...items));
  }
  function emptyNode() {
    return element(
      "div",
      { class: "warning" },
      element("p", {}, "There is nothing to draw yet: runs were found, but none of them has recorded anything."),
      element(
        "p",
        {},
        "A run writes metrics.jsonl every record.log_every steps, layers.jsonl every record.layers_every and " +
          "spectra.jsonl every record.spectra_every (0: never). Make this report again once it has got that far."
      )
    );
  }
  function showWarnings() {
    if (model.warnings.length === 0) return;
    const items = model.warnings.map((text) => element("li", {}, text));
    byId("warnings").append(element("strong", {}, "Not everything could be read:"), element("ul", {}, ...items));
    byId("warnings").hidden = false;
  }
  function fillPage() {
    const names = [...new Set([...model.tables, ...model.figures].map((one) => one.part))];
    byId("title").textContent = model.title;
    const sentences = model.summary.map((sentence) => element("p", {}, sentence));
    byId("summary").append(...sentences.slice(0, 1));
    byId("more").append(...sentences.slice(1));
    showWarnings();
    if (lead) byId("lead").append(figureNode(lead));
    byId("contents").append(contentsNode(names));
    if (model.figures.length === 0) byId("content").append(emptyNode());
    byId("content").append(...names.map(partNode));
    const { runs, sweeps } = model.counts;
    const version = model.version ? `; spectralclip ${model.version}` : "";
    byId("foot").append(element("p", {}, `${runs} runs, ${sweeps} sweeps${version}.`));
    if (model.command) byId("foot").append(element("p", {}, "Made by ", element("code", {}, model.command)));
  }

  // A figure at a time, so that the page can be read and scrolled meanwhile.
  async function start() {
    fillPage();
    for (const drawing of drawings) {
      await guarded(drawing);
      await new Promise((resume) => setTimeout(resume, 0));
    }
    state.done = true;
    publish();
    const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (target) target.scrollIntoView();
  }
  function redrawResized() {
    for (const drawing of drawings)
      if (kinds[drawing.figure.kind].height && drawing.plot.clientWidth !== drawing.width) guarded(drawing);
  }
  function print(now) {
    printing = now;
    return drawAll();
  }
  let waiting = 0;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(redrawResized, 150);
  });
  dark.addEventListener("change", drawAll);
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  start();
})();
