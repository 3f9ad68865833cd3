// SPDX-License-Identifier: Apache-2.0
// The kinds of figures. Each is {draw(figure, chosen, width)} -> {traces, layout} for Plotly, and, where it has them,
// controls(figure, chosen) and height(figure, width). Nothing here touches the page. A trace carries in `meta` the label
// that it is switched by and, if it stands in the legend, its style. Texts come from files of others: Plotly, which reads
// a little HTML, gets them through plain().
"use strict";
const spectralclipFigures = (function () {
  // The hues of Okabe and Ito's colours, which stay apart for every kind of colour vision, dark enough to read on white
  // (3 : 1 at least; the first, which the best gets, 7 : 1); dashes and markers say it again. On a dark page lighter.
  const themes = {
    light: {
      ink: "#1b1f24", grid: "#e1e4e8", lost: "#c3c8ce", cross: "#4a5159",
      middle: "#f7f7f7", ends: ["#2166ac", "#b2182b"],
      curves: ["#00569E", "#B84A00", "#00775A", "#A63C82", "#8A6100", "#2F7FB5", "#000000", "#6B6500"],
    },
    dark: {
      ink: "#e6e9ec", grid: "#333a43", lost: "#4b535d", cross: "#c5ccd4",
      middle: "#22272e", ends: ["#5aa9e6", "#f0705a"],
      curves: ["#4aa8e0", "#f08a45", "#2cc498", "#e39cc4", "#E69F00", "#8fd0f5", "#f0f0f0", "#F0E442"],
    },
  };
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const markers = ["circle", "square", "diamond", "triangle-up", "x", "star", "triangle-down", "cross"];
  const patterns = ["", "/", ".", "x", "-", "\\", "+", "|"];
  let theme = themes.light;

  const cycle = (list, index) => list[index % list.length];
  const styleOf = (index) => ({
    color: cycle(theme.curves, index),
    dash: cycle(dashes, index),
    symbol: cycle(markers, index),
  });
  const faint = (color) => color + "33"; // a fifth of its strength

  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const isNumber = (value) => typeof value === "number";
  const shown = (value) => (isNumber(value) ? Number(value.toPrecision(4)).toString() : "–");
  // On a logarithmic axis only positive numbers have a place.
  const placed = (values, log) => (log ? values.map((value) => (value > 0 ? value : null)) : values);

  // Names without what they all share, cut at dots: network.W_0.weight, network.W_1.weight -> W_0, W_1.
  function shortNames(names) {
    if (names.length < 2) return names;
    const split = names.map((name) => name.split("."));
    const shortest = Math.min(...split.map((parts) => parts.length));
    const isShared = (place) => split.every((parts) => parts.at(place) === split[0].at(place));
    let front = 0;
    let back = 0;
    while (front < shortest - 1 && isShared(front)) ++front;
    while (back < shortest - 1 - front && isShared(-1 - back)) ++back;
    return split.map((parts) => parts.slice(front, parts.length - back).join("."));
  }

  // ---- axes and layout ----
  // Smallest and largest positive number of some lists; empty when there is none.
  function extent(lists) {
    let low = Infinity;
    let high = 0;
    for (const list of lists)
      for (const value of list)
        if (value > 0) {
          low = Math.min(low, value);
          high = Math.max(high, value);
        }
    return high > 0 ? [low, high] : [];
  }
  // Ticks of a logarithmic axis: powers of ten when there are enough, else 1, 2, 5; within one decade plain numbers.
  function decades(values) {
    const [low, high] = extent([values]);
    const span = high ? Math.log10(high / low) : 0;
    if (span > 0 && span < 1) return { nticks: 6, exponentformat: "none", tickformat: "~r" };
    return { dtick: span > 2.5 ? Math.ceil(span / 8) : "D2" };
  }
  function axis(description, more) {
    return {
      title: { text: plain(description.title || ""), standoff: 8 },
      type: description.log ? "log" : "linear",
      gridcolor: theme.grid,
      linecolor: theme.grid,
      zeroline: false,
      automargin: true,
      exponentformat: description.log ? "power" : "none",
      tickfont: { size: 12 },
      ...more,
    };
  }
  const touched = window.matchMedia("(pointer: coarse)");
  const margin = { l: 52, r: 12, t: 30, b: 48 }; // above: room for the bar of buttons
  function layout(more) {
    return {
      autosize: true,
      showlegend: false, // ours is HTML
      hovermode: "closest",
      dragmode: touched.matches ? false : "zoom", // a finger scrolls the page
      modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.cross, activecolor: theme.ink },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: theme.ink, family: "system-ui, sans-serif", size: 13 },
      margin: { ...margin },
      ...more,
    };
  }

  // ---- curves ----
  function lineTrace(curve, x, y) {
    const style = styleOf(curve.style);
    return {
      type: "scatter",
      mode: "lines+markers",
      x,
      y,
      name: plain(curve.label),
      line: { color: style.color, width: 2, dash: style.dash },
      marker: { color: style.color, symbol: style.symbol, size: 7, maxdisplayed: 12 },
      hovertemplate: "%{x:.6g}: %{y:.4g}<extra>%{fullData.name}</extra>",
      meta: { label: curve.label, style: curve.style },
    };
  }
  // Once along the upper border and back along the lower one.
  function bandTrace(curve, series, x, band, log) {
    if (band === "none" || !series.low) return null;
    const byDeviation = band === "deviation";
    const high = byDeviation ? series.mean.map((mean, i) => mean + series.deviation[i]) : series.high;
    const low = byDeviation ? series.mean.map((mean, i) => mean - series.deviation[i]) : series.low;
    const bottom = (i) => (log && !(low[i] > 0) ? (series.low[i] > 0 ? series.low[i] : series.mean[i]) : low[i]);
    const upper = x.map((at, i) => [at, high[i]]);
    const lower = x.map((at, i) => [at, bottom(i)]).reverse();
    const border = upper.concat(lower).filter(([, y]) => !log || y > 0);
    return {
      type: "scatter",
      mode: "lines",
      x: border.map(([at]) => at),
      y: border.map(([, y]) => y),
      fill: "toself",
      fillcolor: faint(styleOf(curve.style).color),
      line: { width: 0 },
      hoverinfo: "skip",
      meta: { label: curve.label },
    };
  }
  const viewControl = (figure) =>
    figure.views.length > 1
      ? [{ name: "view", label: "Quantity", options: figure.views.map((view) => view.label) }]
      : [];
  const bandControl = {
    name: "band",
    label: "Band",
    options: ["lowest to highest seed", "± one deviation", "none"],
    values: ["range", "deviation", "none"],
  };
  const smoothControl = {
    name: "smooth",
    label: "Smoothing",
    options: ["none", "light", "strong"],
    values: [0, 0.01, 0.05], // half of the window, as a share of the points
  };
  // Mean over a centred window, of logarithms on a logarithmic axis: a spike stays a spike of its own height there.
  function smoothed(values, share, log) {
    const half = share > 0 ? Math.max(1, Math.round(share * values.length)) : 0;
    if (half === 0) return values;
    const usable = (value) => isNumber(value) && (!log || value > 0);
    return values.map((value, i) => {
      const window = values.slice(Math.max(0, i - half), i + half + 1).filter(usable);
      if (!usable(value)) return value;
      const sum = window.reduce((total, one) => total + (log ? Math.log(one) : one), 0);
      return log ? Math.exp(sum / window.length) : sum / window.length;
    });
  }
  const smoothedSeries = (series, share, log) => {
    const result = { ...series };
    for (const key of ["mean", "low", "high"]) if (series[key]) result[key] = smoothed(series[key], share, log);
    return result;
  };
  const kMostBands = 5; // more of them cover each other
  const scaleControl = { name: "scale", label: "y axis", options: ["logarithmic", "linear"], values: ["log", "linear"] };

  const curves = {
    controls(figure, chosen, model) {
      const banded = (view) => view.curves.filter((curve) => model.series[curve.series].low).length;
      const most = Math.max(0, ...figure.views.map(banded));
      const hidden = { ...bandControl, options: ["none", ...bandControl.options.slice(0, 2)] };
      hidden.values = ["none", ...bandControl.values.slice(0, 2)];
      const bands = most === 0 ? [] : [most > kMostBands ? hidden : bandControl];
      return [...viewControl(figure), ...bands, smoothControl, scaleControl];
    },
    draw(figure, chosen, width, model) {
      const view = figure.views[chosen.view || 0];
      const log = chosen.scale !== "linear";
      const series = (curve) => smoothedSeries(model.series[curve.series], chosen.smooth || 0, log);
      const all = view.curves.map((curve) => ({ curve, series: series(curve) }));
      const x = (series) => series[figure.x.key];
      const bands = all.map(({ curve, series }) => bandTrace(curve, series, x(series), chosen.band, log));
      const lines = all.map(({ curve, series }) => lineTrace(curve, x(series), placed(series.mean, log)));
      const ends = all.flatMap(({ series }) => [x(series)[0], x(series).at(-1)]);
      const values = extent(all.map(({ series }) => series.mean));
      return {
        // The best comes first in the model and is drawn last, above the others.
        traces: [...bands.reverse(), ...lines.reverse()].filter((trace) => trace && trace.y.some(isNumber)),
        layout: layout({
          xaxis: axis(figure.x, figure.x.log ? decades(ends) : { rangemode: "tozero" }),
          yaxis: axis({ title: figure.y.title || view.label, log }, log ? decades(values) : {}),
        }),
      };
    },
  };

  // ---- layers ----
  const chosenLayer = (figure, chosen) => {
    const run = figure.runs[chosen.run || 0];
    return run.layers[Math.min(chosen.layer || 0, run.layers.length - 1)];
  };
  const runControls = (figure, chosen) => [
    { name: "run", label: "Run", options: figure.runs.map((run) => run.label) },
    { name: "layer", label: "Layer", options: figure.runs[chosen.run || 0].layers.map((layer) => layer.name) },
  ];
  const thresholds = {
    controls: runControls,
    draw(figure, chosen) {
      const layer = chosenLayer(figure, chosen);
      const sigma = lineTrace({ label: "sigma_max before clipping", style: 0 }, layer.step, placed(layer.sigma, true));
      const tau = lineTrace({ label: "threshold tau", style: 1 }, layer.step, placed(layer.tau, true));
      return {
        traces: layer.tau.some(isNumber) ? [sigma, tau] : [sigma],
        layout: layout({
          xaxis: axis(figure.x, { rangemode: "tozero" }),
          yaxis: axis(figure.y, decades(extent([layer.sigma, layer.tau]))),
        }),
      };
    },
  };
  // The first run, layer and step where the largest value was cut and the middle one left: a spectrum that was clipped,
  // not one that was scaled.
  function firstClipped(figure) {
    const cut = (stop, i) => stop.before[i] > stop.after[i] * (1 + 1e-4);
    const clipped = (stop) => cut(stop, 0) && !cut(stop, Math.floor(stop.before.length / 2));
    for (const [run, { layers }] of figure.runs.entries())
      for (const [layer, { stops }] of layers.entries()) {
        const stop = stops.findIndex(clipped);
        if (stop >= 0) return { run, layer, stop };
      }
    return {};
  }
  const spectra = {
    start: firstClipped,
    controls(figure, chosen) {
      const steps = chosenLayer(figure, chosen).stops.map((stop) => stop.step);
      return [...runControls(figure, chosen), { name: "stop", label: "Step", range: steps }];
    },
    draw(figure, chosen) {
      const stops = chosenLayer(figure, chosen).stops;
      const stop = stops[Math.min(chosen.stop || 0, stops.length - 1)];
      const trace = (label, style, values) => {
        const line = lineTrace({ label, style }, values.map((_, i) => i + 1), placed(values, true));
        line.marker.maxdisplayed = 40;
        return line;
      };
      return {
        traces: [trace("before clipping", 0, stop.before), trace("after clipping", 1, stop.after)],
        layout: layout({
          xaxis: axis(figure.x),
          yaxis: axis(figure.y, decades(extent([stop.before, stop.after]))),
        }),
      };
    },
  };
  const bars = {
    height: (figure) => 110 + figure.layers.length * (14 * figure.bars.length + 14),
    draw(figure) {
      const names = shortNames(figure.layers).map(plain);
      const percent = (share) => (isNumber(share) ? 100 * share : null);
      const traces = figure.bars.map((bar) => ({
        type: "bar",
        orientation: "h",
        y: names,
        x: bar.mean.map(percent),
        name: plain(bar.label),
        marker: {
          color: styleOf(bar.style).color,
          pattern: { shape: cycle(patterns, bar.style), solidity: 0.2, fgcolor: theme.middle, fillmode: "overlay" },
        },
        error_x: {
          type: "data",
          symmetric: false,
          color: theme.ink,
          thickness: 1,
          width: 2,
          array: bar.mean.map((share, i) => percent(bar.high[i]) - percent(share)),
          arrayminus: bar.mean.map((share, i) => percent(share) - percent(bar.low[i])),
        },
        text: figure.layers.map(plain),
        textposition: "none",
        hovertemplate: "%{text}: %{x:.3g} %<extra>%{fullData.name}</extra>",
        meta: { label: bar.label, style: bar.style, bar: true },
      }));
      return {
        traces,
        layout: layout({
          barmode: "group",
          bargap: 0.25,
          xaxis: axis({ title: "steps clipped, %" }, { rangemode: "tozero" }),
          yaxis: axis({ title: "" }, { autorange: "reversed", type: "category" }),
        }),
      };
    },
  };

  // ---- rates ----
  function whiskers(curve, color) {
    const distance = (to, from) => (isNumber(to) && isNumber(from) ? Math.abs(to - from) : 0);
    return {
      type: "data",
      symmetric: false,
      thickness: 1.2,
      width: 3,
      color,
      array: curve.measured.map((value, i) => distance(curve.high[i], value)),
      arrayminus: curve.measured.map((value, i) => distance(curve.low[i], value)),
    };
  }
  function rateTraces(curve) {
    const measured = lineTrace(curve, curve.K, placed(curve.measured, true));
    measured.line.dash = "solid";
    if (curve.low.some(isNumber)) measured.error_y = whiskers(curve, measured.line.color);
    if (!curve.bound.some(isNumber)) return [measured];
    const bound = lineTrace({ ...curve, label: curve.label + ", bound" }, curve.K, placed(curve.bound, true));
    bound.mode = "lines";
    bound.line.dash = "dash";
    bound.meta = { label: curve.label };
    return [measured, bound];
  }
  const rates = {
    controls: viewControl,
    draw(figure, chosen) {
      const drawn = figure.views[chosen.view || 0].curves;
      return {
        traces: drawn.flatMap(rateTraces),
        layout: layout({
          xaxis: axis(figure.x, decades(extent(drawn.map((curve) => curve.K)))),
          yaxis: axis(figure.y, decades(extent(drawn.flatMap((curve) => [curve.measured, curve.bound])))),
        }),
      };
    },
  };

  return {
    kinds: { curves, thresholds, spectra, bars, rates },
    parts: { axis, decades, extent, layout, lineTrace, plain, shown, isNumber, styleOf },
    theme: () => theme,
    themes,
    useTheme: (name) => (theme = themes[name]),
  };
})();
