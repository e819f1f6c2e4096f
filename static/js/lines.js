// Lines over time → Plotly traces and shapes: unbroken pieces, stacked layers, bands, marks, gaps.
// No state and no page: board.js hands in what it has.
(function () {
  "use strict";

  const { faint } = window.SwitchyardFigures;
  const BRIDGED_STEPS = 5; // so many steps without a request do not tear a percentile's line
  const LEGEND_ROW = 20;
  const MARK_COLORS = {
    promote: "var(--good-line)",
    abort: "var(--bad-line)",
    rollback: "var(--bad-line)",
    restart: "var(--bad-line)",
    load_failed: "var(--bad-line)",
    runtime_lost: "var(--bad-line)",
    start: "var(--canary-line)",
    step: "var(--canary-line)",
  };

  // Plotly shows milliseconds in the viewer's zone and names an axis' ends in it, without saying so.
  const fromAxis = (shown) => new Date(typeof shown === "number" ? shown : shown.replace(" ", "T")).getTime();

  // The moments of a board: x in ms, the step between them, intervals nothing is known of.
  class Shape {
    constructor(x, step, unknown) {
      this.x = x;
      this.step = step;
      this.unknown = unknown;
    }

    // Indices that belong to one unbroken piece of a line. Short rests without a value and missed
    // ticks are bridged; what is unknown never is.
    runs(values) {
      const runs = [];
      let run = null;
      for (let i = 0; i < values.length; i += 1) {
        if (values[i] === null || values[i] === undefined) continue;
        const before = run && run[run.length - 1];
        const steps = run ? Math.round((this.x[i] - this.x[before]) / this.step) : 0;
        if (run && steps <= BRIDGED_STEPS && !this.isUnknown(this.x[before], this.x[i])) run.push(i);
        else runs.push((run = [i]));
      }
      return runs;
    }

    isUnknown(from, to) {
      if (to - from <= this.step * 1.5) return false;
      return this.unknown.some(([start, end]) => start < to && end > from);
    }

    // One point alone would be invisible: it becomes a short dash.
    edges(run) {
      const half = run.length === 1 ? this.step * 0.4 : 0;
      return half ? [[run[0], -half], [run[0], half]] : run.map((index) => [index, 0]);
    }

    path(runs, heights, values) {
      const [x, y, customdata] = [[], [], []];
      for (const run of runs) {
        if (x.length) {
          x.push(x[x.length - 1]);
          y.push(null);
          customdata.push(null);
        }
        for (const [index, shift] of this.edges(run)) {
          x.push(this.x[index] + shift);
          y.push(heights[index]);
          customdata.push(values[index]);
        }
      }
      return { x, y, customdata };
    }

    area(runs, upper, lower) {
      const [x, y] = [[], []];
      const put = ([index, shift], heights) => {
        x.push(this.x[index] + shift);
        y.push((heights && heights[index]) || 0);
      };
      for (const run of runs) {
        const edges = this.edges(run);
        if (x.length) {
          x.push(x[x.length - 1]);
          y.push(null);
        }
        for (const edge of edges) put(edge, upper);
        for (const edge of edges.reverse()) put(edge, lower);
      }
      return { x, y };
    }
  }

  // -- Traces -----------------------------------------------------------------------------------

  function tracesOf(spec, lines, shape) {
    return spec.stacked ? stackedTraces(spec, lines, shape) : plainTraces(spec, lines, shape);
  }

  function plainTraces(spec, lines, shape) {
    const traces = spec.data.map((trace, index) => ({
      ...trace,
      legendgroup: trace.meta.key,
      ...shape.path(shape.runs(lines[index]), lines[index], lines[index]),
    }));
    const bands = spec.bands.map((band) => {
      const of = (key) => lines[spec.data.findIndex((trace) => trace.meta.key === key)];
      const [lower, upper] = [of(band.lower), of(band.upper)];
      return fill(shape.area(shape.runs(upper), upper, lower), band.color, 0.13);
    });
    return [...bands, ...traces];
  }

  // Top layer first, so that a layer without height does not paint over the one below it.
  function stackedTraces(spec, lines, shape) {
    const drawn = shown(lines);
    const tops = stack(drawn.map((index) => lines[index]));
    const traces = drawn.flatMap((index, layer) => {
      const trace = spec.data[index];
      const runs = shape.runs(tops[layer]);
      return [
        { ...trace, line: { ...trace.line, width: 1 }, ...shape.path(runs, tops[layer], lines[index]) },
        fill(shape.area(runs, tops[layer], tops[layer - 1]), trace.line.color, 0.35),
      ];
    });
    return traces.reverse();
  }

  // Layers that stay at zero all the time are left out, unless all do.
  function shown(lines) {
    const all = lines.map((_, index) => index);
    const busy = all.filter((index) => lines[index].some((value) => value > 0));
    return busy.length ? busy : all;
  }

  function stack(lines) {
    const tops = lines.map(() => []);
    for (let i = 0; i < (lines[0] || []).length; i += 1) {
      const nothing = lines.every((values) => values[i] === null);
      let sum = 0;
      lines.forEach((values, index) => {
        sum += values[i] || 0;
        tops[index].push(nothing ? null : sum);
      });
    }
    return tops;
  }

  function fill(area, color, opacity) {
    return {
      type: "scatter", mode: "lines", line: { width: 0 }, fill: "toself", fillcolor: faint(color, opacity),
      hoverinfo: "skip", showlegend: false, ...area,
    };
  }

  // -- Marks and gaps ---------------------------------------------------------------------------

  const markColor = (mark) => MARK_COLORS[mark.kind] || "var(--idle-line)";

  function markTrace(marks) {
    return {
      type: "scatter", mode: "markers", yaxis: "y2", showlegend: false, name: "",
      x: marks.map((mark) => mark.ms),
      y: marks.map(() => 0.97),
      text: marks.map((mark) => `${mark.kind.replaceAll("_", " ")}: ${mark.text}`),
      marker: { symbol: "triangle-down", size: 8, color: marks.map(markColor) },
      hovertemplate: "%{text}<extra></extra>",
    };
  }

  function markRule(mark) {
    return {
      type: "line", x0: mark.ms, x1: mark.ms, yref: "paper", y0: 0, y1: 1,
      line: { color: markColor(mark), width: 1, dash: "dot" },
    };
  }

  function unknownBands(unknown) {
    return unknown.map(([start, end]) => ({
      type: "rect", layer: "below", line: { width: 0 }, fillcolor: faint("var(--idle-line)", 0.12),
      x0: start, x1: end, yref: "paper", y0: 0, y1: 1,
    }));
  }

  function unknownLabels(unknown, from, to) {
    const seen = unknown.map(([start, end]) => [Math.max(start, from), Math.min(end, to)]);
    return seen.filter(([start, end]) => end - start > (to - from) * 0.2).map(([start, end]) => ({
      x: (start + end) / 2, yref: "paper", y: 0.5, showarrow: false,
      text: "not measured", font: { size: 12, color: "var(--ink-soft)" },
    }));
  }

  // -- Layout -----------------------------------------------------------------------------------

  // How many rows the legend will take, guessed from its words.
  function legendRows(spec, lines, width) {
    if (!spec.layout.showlegend) return 0;
    const named = spec.stacked ? shown(lines) : lines.map((_, index) => index);
    if (spec.stacked && named.length > 2 && !lines.flat().some((value) => value > 0)) return 0;
    const needed = named.reduce((sum, index) => sum + 38 + spec.data[index].name.length * 6.5, 0);
    return Math.max(1, Math.ceil(needed / Math.max(width - 40, 160)));
  }

  // An axis of nothing but zeros would reach to one, which for a share is 100%.
  function yaxisOf(spec, lines) {
    const { autorangeoptions, ...axis } = spec.layout.yaxis;
    const flat = !lines.some((values) => values.some((value) => value > 0));
    return flat ? { ...axis, range: [0, autorangeoptions.include[1]], autorange: false } : spec.layout.yaxis;
  }

  function layoutOf(spec, lines, rows) {
    const margin = { ...spec.layout.margin, b: spec.layout.margin.b + rows * LEGEND_ROW };
    const legend = {
      ...spec.layout.legend,
      yref: "container", y: 0, yanchor: "bottom",
      traceorder: spec.stacked ? "reversed" : "normal",
      itemclick: spec.stacked ? false : "toggle",
      itemdoubleclick: false,
    };
    return { ...spec.layout, margin, legend, yaxis: yaxisOf(spec, lines), showlegend: rows > 0 };
  }

  window.SwitchyardLines = {
    Shape, fromAxis, layoutOf, legendRows, markRule, markTrace, tracesOf, unknownBands, unknownLabels,
  };
})();
