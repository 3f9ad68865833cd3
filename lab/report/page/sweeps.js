// SPDX-License-Identifier: Apache-2.0
// The kinds of figures that sweeps have: heat maps, differences of them, trials. As in figures.js.
"use strict";
(function () {
  const { axis, decades, extent, layout, lineTrace, plain, shown, isNumber, styleOf } = spectralclipFigures.parts;
  const theme = spectralclipFigures.theme;

  // ---- grids: cells lie between borders that the model gives, so that they are even on a logarithmic axis ----
  const cellMap = (figure, take) =>
    figure.y.values.map((y, row) => figure.x.values.map((x, column) => take(row, column)));
  const cellsWhere = (figure, holds) =>
    figure.y.values.flatMap((y, row) =>
      figure.x.values.filter((x, column) => holds(row, column)).map((x) => ({ x, y }))
    );
  const cellText = (figure, row, column, lines) =>
    [
      `${plain(figure.x.title)} = ${shown(figure.x.values[column])}`,
      `${plain(figure.y.title)} = ${shown(figure.y.values[row])}`,
      ...lines,
    ].join("<br>");
  const valueText = (value, state) => (state === "lost" ? "diverged or failed" : shown(value));

  function mapTrace(figure, z, more) {
    return { type: "heatmap", x: figure.x.borders, y: figure.y.borders, z, xgap: 1, ygap: 1, ...more };
  }
  function markTrace(cells, label, marker) {
    return {
      type: "scatter",
      mode: "markers",
      x: cells.map((cell) => cell.x),
      y: cells.map((cell) => cell.y),
      hoverinfo: "skip",
      marker,
      meta: { label },
    };
  }
  function lostTraces(figure, isLost) {
    const color = theme().lost;
    const mask = cellMap(figure, (row, column) => (isLost(row, column) ? 1 : null));
    const look = { colorscale: [[0, color], [1, color]], showscale: false, hoverinfo: "skip" };
    const cross = { symbol: "x-thin", size: 8, line: { color: theme().cross, width: 2 } };
    return [mapTrace(figure, mask, look), markTrace(cellsWhere(figure, isLost), "diverged or failed", cross)];
  }
  const hasCells = (trace) => (trace.z ? trace.z.flat().some(isNumber) : trace.x.length > 0);
  const colorBar = (title) => ({
    title: { text: plain(title), side: "right" },
    thickness: 12,
    outlinewidth: 0,
    tickfont: { size: 11 },
  });
  function gridLayout(figure) {
    const gridAxis = (description) => {
      const ends = [description.borders[0], description.borders.at(-1)];
      return axis(description, {
        range: description.log ? ends.map(Math.log10) : ends,
        showgrid: false,
        ...(description.log ? decades(description.values) : {}),
      });
    };
    return layout({ xaxis: gridAxis(figure.x), yaxis: gridAxis(figure.y) });
  }

  const heatmap = {
    draw(figure) {
      const z = cellMap(figure, (row, column) => {
        const value = figure.value[row][column];
        return value > 0 ? Math.log10(value) : null;
      });
      const text = cellMap(figure, (row, column) => {
        const value = valueText(figure.value[row][column], figure.state[row][column]);
        return cellText(figure, row, column, [`${plain(figure.metric)}: ${value}`]);
      });
      const best = Math.min(...figure.value.flat().filter(isNumber));
      const star = cellsWhere(figure, (row, column) => figure.value[row][column] === best).slice(0, 1);
      const [zmin, zmax] = figure.colours.map(Math.log10);
      const look = { text, hoverinfo: "text", colorscale: "Viridis", reversescale: true, zmin, zmax };
      const traces = [
        mapTrace(figure, z, { ...look, colorbar: colorBar("log10 " + figure.metric) }),
        ...lostTraces(figure, (row, column) => figure.state[row][column] === "lost"),
        markTrace(star, "best", { symbol: "star", size: 15, color: "#fff", line: { color: "#000", width: 1.5 } }),
      ];
      return { traces: traces.filter(hasCells), layout: gridLayout(figure) };
    },
  };

  // A cell that only one side trained has no ratio: it gets the full colour of that side, and a dot.
  const gap = {
    draw(figure) {
      const largest = Math.max(1e-6, ...figure.gap.flat().filter(isNumber).map(Math.abs));
      const onlyOne = (row, column) => figure.gap[row][column] === null && figure.better[row][column] !== 0;
      const noneOf = (row, column) =>
        figure.first_state[row][column] === "lost" && figure.second_state[row][column] === "lost";
      const z = cellMap(figure, (row, column) => {
        if (!onlyOne(row, column)) return figure.gap[row][column];
        return figure.better[row][column] === 2 ? largest : -largest;
      });
      const line = (side, name, row, column) =>
        `${plain(name)}: ${valueText(figure[side][row][column], figure[side + "_state"][row][column])}`;
      const text = cellMap(figure, (row, column) =>
        cellText(figure, row, column, [
          line("first", figure.names[0], row, column),
          line("second", figure.names[1], row, column),
        ])
      );
      const [blue, red] = theme().ends;
      const look = {
        text,
        hoverinfo: "text",
        zmin: -largest,
        zmax: largest,
        colorscale: [[0, blue], [0.5, theme().middle], [1, red]],
        colorbar: colorBar("log10 ratio"),
      };
      const traces = [
        mapTrace(figure, z, look),
        ...lostTraces(figure, noneOf),
        markTrace(cellsWhere(figure, onlyOne), "only one trained", { symbol: "circle", size: 6, color: theme().ink }),
      ];
      return { traces: traces.filter(hasCells), layout: gridLayout(figure) };
    },
  };

  // ---- trials ----
  // Where trials without a value stand: above all others, at the upper edge.
  function edgeOf(trials) {
    const [low, high] = extent([trials.value]);
    return high ? high * Math.pow(Math.max(high / low, 1.1), 0.08) : 1;
  }
  function trialTraces(trials, x, axes) {
    const usable = trials.trial.map((_, i) => i).filter((i) => isNumber(x[i]));
    const isFinished = (i) => isNumber(trials.value[i]);
    const text = (i) => `trial ${trials.trial[i]}: ${isFinished(i) ? shown(trials.value[i]) : plain(trials.status[i])}`;
    const points = (chosen, y, marker, meta) => ({
      type: "scatter",
      mode: "markers",
      x: chosen.map((i) => x[i]),
      y: chosen.map(y),
      text: chosen.map(text),
      hoverinfo: "text+x",
      marker,
      meta: { ...meta, point: true },
      ...axes,
    });
    const cross = { symbol: "x-thin", size: 8, line: { color: styleOf(1).color, width: 2 } };
    return [
      points(usable.filter(isFinished), (i) => trials.value[i], { color: styleOf(0).color, size: 7, opacity: 0.75 }, {
        label: "trial", style: 0, symbol: "circle",
      }),
      points(usable.filter((i) => !isFinished(i)), () => edgeOf(trials), cross, {
        label: "diverged or failed", style: 1, symbol: "x",
      }),
    ].filter(hasCells);
  }
  const trials = {
    draw(figure) {
      const best = lineTrace({ label: "best so far", style: 2 }, figure.trials.trial, figure.trials.best);
      best.mode = "lines";
      best.line = { color: styleOf(2).color, width: 2, shape: "hv" };
      best.meta.plain = true;
      return {
        traces: trialTraces(figure.trials, figure.trials.trial, {}).concat(best),
        layout: layout({ xaxis: axis(figure.x), yaxis: axis(figure.y, decades(extent([figure.trials.value]))) }),
      };
    },
  };
  const columnsFor = (figure, width) => Math.min(figure.parameters.length, width < 560 ? 1 : width < 900 ? 2 : 3);
  function bestMark(parameter, trials, axes) {
    const value = Math.min(...trials.value.filter(isNumber));
    const place = trials.value.indexOf(value);
    const cells = place < 0 ? [] : [{ x: parameter.values[place], y: value }];
    const look = { symbol: "star", size: 13, color: styleOf(4).color, line: { color: theme().ink, width: 1 } };
    const mark = markTrace(cells, "best", look);
    mark.meta = { label: "best", style: 4, point: true, symbol: "star" };
    return { ...mark, ...axes };
  }
  const parameters = {
    height: (figure, width) => 300 * Math.ceil(figure.parameters.length / columnsFor(figure, width)),
    draw(figure, chosen, width) {
      const columns = columnsFor(figure, width);
      const rows = Math.ceil(figure.parameters.length / columns);
      const result = layout({ grid: { rows, columns, pattern: "independent", xgap: 0.16, ygap: 0.28 } });
      const traces = figure.parameters.flatMap((parameter, place) => {
        const suffix = place === 0 ? "" : String(place + 1);
        const axes = { xaxis: "x" + suffix, yaxis: "y" + suffix };
        const title = place % columns === 0 ? figure.y.title : "";
        result["xaxis" + suffix] = axis(parameter, parameter.log ? decades(parameter.values) : {});
        result["yaxis" + suffix] = axis({ title, log: figure.y.log }, decades(extent([figure.trials.value])));
        return [...trialTraces(figure.trials, parameter.values, axes), bestMark(parameter, figure.trials, axes)];
      });
      return { traces: traces.filter(hasCells), layout: result };
    },
  };

  Object.assign(spectralclipFigures.kinds, { heatmap, gap, trials, parameters });
})();
