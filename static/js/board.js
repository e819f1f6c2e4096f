// A board: charts that share one window of time, fetched once and then kept going by live frames.
//
// <section data-board="/live/figures/?…" data-range="15m" data-topic="fleet">, see
// templates/telemetry/_live_panel.html. The first board of a page keeps its range, its zoom and
// whether it is paused in the URL, and feeds the [data-golden] numbers.
(function () {
  "use strict";

  const { draw, clear, faint, touched } = window.SwitchyardFigures;
  const LATE_MS = 5000;
  const BRIDGED_STEPS = 5; // so many steps without a request do not tear a percentile's line
  const NO_REQUESTS = "No requests in this time.";
  const MARK_COLORS = {
    promote: "var(--good-line)",
    abort: "var(--bad-line)",
    rollback: "var(--bad-line)",
    restart: "var(--bad-line)",
    load_failed: "var(--bad-line)",
    runtime_lost: "var(--bad-line)",
    step: "var(--canary-line)",
    start: "var(--canary-line)",
  };

  // Plotly writes dates in UTC; moved by the zone's offset they read as local time.
  const toLocal = (ms) => ms - new Date(ms).getTimezoneOffset() * 60000;
  function fromLocal(shown) {
    const local = typeof shown === "number" ? shown : Date.parse(`${shown.replace(" ", "T")}Z`);
    return local + new Date(local).getTimezoneOffset() * 60000;
  }

  class Board {
    constructor(section, owner) {
      this.section = section;
      this.owner = owner; // of the page's URL and golden numbers
      this.range = section.dataset.range;
      this.scope = section.dataset.scope || "";
      this.grid = section.querySelector("[data-board-grid]");
      this.figures = new Map(); // name → { spec, element, lines, waiting }
      this.x = [];
      this.series = new Map(); // key → values, as long as x
      this.marks = [];
      this.unknown = [];
      this.heardAt = 0; // server time of the newest data, ms
      this.skew = 0; // our clock minus the server's
      this.loadedAt = 0;
      this.loading = null;
      this.snapshots = 0;
      this.seen = new IntersectionObserver((entries) => this.looked(entries), { rootMargin: "200px" });
      this.readUrl();
      this.bindControls();
      this.load();
      this.stop = window.SwitchyardLive.subscribe(section.dataset.topic, (frame) => this.hear(frame));
      this.timer = setInterval(() => this.everySecond(), 1000);
      window.addEventListener("switchyard:figures-recolour", () => this.drawAll(true));
      document.addEventListener("visibilitychange", () => this.drawAll());
    }

    // -- What the person chose ----------------------------------------------------------------

    readUrl() {
      const asked = new URLSearchParams(this.owner ? window.location.search : "");
      this.paused = asked.get("paused") === "1";
      const [from, to] = [Number(asked.get("from")), Number(asked.get("to"))];
      this.zoom = from && to > from ? [from, to] : null;
    }

    writeUrl() {
      if (!this.owner) return;
      const url = new URL(window.location.href);
      const set = (name, value) => (value ? url.searchParams.set(name, value) : url.searchParams.delete(name));
      set("range", this.range);
      set("paused", this.paused ? "1" : "");
      set("from", this.zoom ? Math.round(this.zoom[0]) : "");
      set("to", this.zoom ? Math.round(this.zoom[1]) : "");
      window.history.replaceState(window.history.state, "", url);
    }

    bindControls() {
      this.pauseButton = this.section.querySelector("[data-board-pause]");
      this.resetButton = this.section.querySelector("[data-board-reset]");
      this.pauseButton.addEventListener("click", () => this.setPaused(!this.paused));
      this.resetButton.addEventListener("click", () => this.setZoom(null));
      if (this.owner) {
        for (const link of document.querySelectorAll("a[data-board-range]")) {
          link.addEventListener("click", (event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            this.setRange(link.dataset.boardRange);
          });
        }
      }
      this.showControls();
    }

    showControls() {
      this.pauseButton.textContent = this.paused ? "Resume" : "Pause";
      this.pauseButton.setAttribute("aria-pressed", String(this.paused));
      this.resetButton.hidden = !this.zoom;
      if (!this.owner) return;
      for (const link of document.querySelectorAll("a[data-board-range]")) {
        if (link.dataset.boardRange === this.range) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
      const field = document.querySelector("[data-board-range-field]");
      if (field) field.value = this.range;
    }

    setPaused(paused) {
      this.paused = paused;
      this.showControls();
      this.writeUrl();
      if (!paused) {
        if (this.step > 1000) this.load();
        this.drawAll(true);
      }
    }

    setRange(range) {
      this.range = range;
      this.zoom = null;
      this.coarse = undefined;
      this.showControls();
      this.writeUrl();
      this.load();
    }

    setZoom(zoom) {
      this.zoom = zoom;
      this.showControls();
      this.writeUrl();
      if (this.detailed || (zoom && this.coarse)) this.load(); // finer samples of the part looked at
      else this.drawAll(true);
    }

    // -- Data ---------------------------------------------------------------------------------

    async load() {
      const url = new URL(this.section.dataset.board, window.location.href);
      if (!url.searchParams.has("since")) url.searchParams.set("range", this.range);
      const detailed = Boolean(this.zoom) && this.coarse !== false;
      if (detailed) {
        url.searchParams.set("since", String(Math.round(this.zoom[0])));
        url.searchParams.set("until", String(Math.round(this.zoom[1])));
      }
      if (this.loading) this.loading.abort();
      const loading = new AbortController();
      this.loading = loading;
      this.loadedAt = performance.now();
      try {
        const answer = await fetch(url, {
          headers: { Accept: "application/json" },
          signal: loading.signal,
          redirect: "error",
        });
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        const served = Date.parse(answer.headers.get("Date"));
        const data = await answer.json();
        if (served) this.skew = Math.abs(Date.now() - served) < 2000 ? 0 : Date.now() - served;
        this.detailed = detailed;
        if (!detailed) this.coarse = data.x.step > 1000;
        this.adopt(data);
        this.notice("load", "");
      } catch (error) {
        if (error.name === "AbortError") return;
        this.notice("load", `The charts could not be fetched (${error.message}); trying again.`);
      } finally {
        if (this.loading === loading) this.loading = null;
      }
    }

    adopt(data) {
      this.live = data.live;
      this.refresh = data.refresh_seconds;
      this.step = data.x.step;
      this.span = data.span_ms;
      this.from = data.from;
      this.x = Array.from({ length: data.x.count }, (_, i) => data.x.first + i * data.x.step);
      this.unknown = data.unknown;
      this.marks = data.marks.map((mark) => ({ ...mark, ms: Date.parse(mark.at) }));
      this.series = new Map();
      const last = this.x[this.x.length - 1];
      const endsKnown = !this.unknown.some(([, end]) => end >= last);
      if (endsKnown) this.heardAt = Math.max(this.heardAt, Math.min(last, this.serverNow()));
      for (const spec of data.figures) this.place(spec);
      const wanted = new Set(data.figures.map((spec) => spec.name));
      for (const [name, figure] of this.figures) {
        if (!wanted.has(name)) {
          this.seen.unobserve(figure.element);
          figure.box.remove();
          this.figures.delete(name);
        }
      }
      for (const box of this.grid.querySelectorAll("[data-board-figure]")) {
        if (!wanted.has(box.dataset.boardFigure)) box.remove();
      }
      this.hasData = [...this.series.values()].some((values) => values.some((value) => value !== null));
      this.drawAll(true);
    }

    place(spec) {
      let figure = this.figures.get(spec.name);
      if (!figure) {
        const box = this.grid.querySelector(`[data-board-figure="${spec.name}"]`) || this.makeBox(spec);
        figure = { box, element: box.querySelector(".board-plot"), visible: false, waiting: true };
        figure.element.addEventListener("pointerenter", (event) => {
          figure.pointed = event.pointerType === "mouse";
        });
        figure.element.addEventListener("pointerleave", () => {
          figure.pointed = false;
          this.drawOne(figure);
        });
        this.figures.set(spec.name, figure);
        this.seen.observe(figure.element);
      }
      this.caption(figure.box, spec);
      figure.spec = spec;
      figure.waiting = true;
      for (const trace of spec.data) {
        this.series.set(trace.meta.key, trace.y);
        delete trace.y;
      }
    }

    makeBox(spec) {
      const box = document.createElement("figure");
      box.className = "panel board-figure";
      box.dataset.boardFigure = spec.name;
      box.innerHTML = '<figcaption><span></span></figcaption><div class="board-plot" role="img"></div>';
      box.querySelector(".board-plot").setAttribute("aria-label", spec.title);
      this.grid.append(box);
      return box;
    }

    caption(box, spec) {
      const caption = box.querySelector("figcaption");
      caption.querySelector("span").textContent = spec.title;
      let formula = caption.querySelector(".formula");
      if (!formula && spec.formula) {
        formula = document.createElement("span");
        formula.className = "formula";
        caption.append(formula);
      }
      if (!formula) return;
      formula.textContent = spec.note || "formula";
      formula.title = spec.formula;
    }

    // -- Frames -------------------------------------------------------------------------------

    hear(frame) {
      if (frame.type === "error" || !frame.data.telemetry) return;
      const told = frame.data.telemetry;
      if (frame.type === "snapshot") {
        this.snapshots += 1;
        // Not the first one: the socket was away, so the charts miss a piece.
        if (this.snapshots > 1 && performance.now() - this.loadedAt > 2000) this.load();
      }
      const unheard = Object.entries(told.runtimes).filter(([, state]) => state.known === false && state.reason);
      const concerned = this.scope ? unheard.filter(([name]) => name === this.scope) : unheard;
      this.notice(
        "runtimes",
        concerned.map(([name, state]) => `${name} does not answer: ${state.reason}.`).join(" "),
      );
      const part = this.partOf(told);
      this.heardAt = Math.max(this.heardAt, told.at);
      if (this.owner) showGolden(part.golden, part.known);
      if (frame.type !== "delta" || !this.live || this.detailed) return;
      if (this.x.length && told.at > this.x[this.x.length - 1]) this.append(told, part);
    }

    partOf(told) {
      if (!this.scope) return told;
      const state = told.runtimes[this.scope] || { known: false };
      return told.scopes[this.scope] || { known: state.known, values: {}, partial: false, golden: {} };
    }

    append(told, part) {
      const last = this.x[this.x.length - 1];
      this.x.push(told.at);
      for (const figure of this.figures.values()) {
        for (const trace of figure.spec.data) {
          this.series.get(trace.meta.key).push(this.valueOf(trace.meta, part, figure));
        }
        figure.waiting = true;
      }
      if (!part.known) {
        const open = this.unknown[this.unknown.length - 1];
        if (open && open[1] >= last) open[1] = told.at;
        else this.unknown.push([last, told.at]);
      }
      const known = new Set(this.marks.map((mark) => mark.id));
      for (const mark of told.marks) {
        if (!known.has(mark.id)) this.marks.push({ ...mark, ms: Date.parse(mark.at) });
      }
      this.trim(told.at);
      if (part.known) this.hasData = true;
      if (this.newcomer(part.values) && performance.now() - this.loadedAt > 3000) this.load();
      else this.drawAll();
    }

    valueOf(meta, part, figure) {
      if (meta.key in part.values) return part.values[meta.key];
      if (!part.known || part.partial) return null;
      if (!meta.key.startsWith("rest:")) return meta.idle;
      const shown = figure.spec.data.filter((trace) => trace.meta.key !== meta.key);
      const total = part.values[meta.key.slice(5)] || 0;
      const drawn = shown.reduce((sum, trace) => sum + (part.values[trace.meta.key] || 0), 0);
      return Math.max(total - drawn, 0);
    }

    // A version without a line, where all versions have one.
    newcomer(values) {
      const metric = "requests_per_second";
      const figure = this.figures.get(metric);
      if (!figure || this.series.has(`rest:${metric}`)) return false;
      return Object.keys(values).some((key) => key.startsWith(`${metric}|`) && !this.series.has(key));
    }

    trim(now) {
      if (!this.span) return;
      const oldest = now - this.span;
      let gone = 0;
      while (gone < this.x.length && this.x[gone] < oldest) gone += 1;
      if (gone === 0) return;
      this.x.splice(0, gone);
      for (const values of this.series.values()) values.splice(0, gone);
      this.unknown = this.unknown.filter(([, end]) => end > oldest);
      this.marks = this.marks.filter((mark) => mark.ms > oldest);
    }

    // -- Drawing ------------------------------------------------------------------------------

    looked(entries) {
      for (const entry of entries) {
        for (const figure of this.figures.values()) {
          if (figure.element === entry.target) figure.visible = entry.isIntersecting;
          if (figure.visible && figure.waiting) this.drawOne(figure);
        }
      }
    }

    drawAll(evenIfPaused = false) {
      if (document.visibilityState === "hidden" || (this.paused && !evenIfPaused)) return;
      for (const figure of this.figures.values()) {
        if (evenIfPaused) figure.waiting = true;
        this.drawOne(figure, evenIfPaused);
      }
      const empty = document.querySelector("[data-board-empty]");
      if (this.owner && empty && this.served()) empty.remove();
    }

    served() {
      for (const [key, values] of this.series) {
        if (key.startsWith("requests_per_second") && values.some((value) => value > 0)) return true;
      }
      return false;
    }

    drawOne(figure, must = false) {
      const { spec, element } = figure;
      if (!spec || !figure.visible || !figure.waiting) return;
      if (!must && (figure.pointed || element._dragging)) return; // holds still under the pointer
      figure.waiting = false;
      const lines = spec.data.map((trace) => this.series.get(trace.meta.key));
      const anything = lines.some((values) => values.some((value) => value !== null));
      if (!anything) {
        clear(element, spec.empty || (this.x.length ? NO_REQUESTS : "Nothing was measured in this time."));
        return;
      }
      draw(element, this.figureOf(spec, lines), { doubleClick: false });
      if (!element.bound) {
        element.bound = true;
        element.on("plotly_relayout", (change) => this.relayouted(change));
        element.on("plotly_doubleclick", () => this.setZoom(null));
      }
    }

    figureOf(spec, lines) {
      const tops = spec.stacked ? stack(lines) : lines;
      const data = [];
      spec.data.forEach((trace, index) => {
        const runs = this.runs(tops[index], trace.meta.idle);
        const group = { legendgroup: trace.meta.key };
        if (spec.stacked) {
          data.push({ ...fill(this.area(runs, tops[index], tops[index - 1]), trace.line.color, 0.3), ...group });
        }
        data.push({ ...trace, ...group, ...this.path(runs, tops[index], lines[index]) });
      });
      for (const band of spec.bands) {
        const at = (key) => spec.data.findIndex((trace) => trace.meta.key === key);
        const [lower, upper] = [lines[at(band.lower)], lines[at(band.upper)]];
        data.unshift(fill(this.area(this.runs(upper, null), upper, lower), band.color, 0.13));
      }
      data.push(this.markTrace());
      return { data, layout: this.layoutOf(spec) };
    }

    // Indices that belong to one unbroken piece of a line.
    runs(values, idle) {
      const runs = [];
      let run = null;
      for (let i = 0; i < values.length; i += 1) {
        if (values[i] === null || values[i] === undefined) continue;
        const before = run && run[run.length - 1];
        const steps = run ? Math.round((this.x[i] - this.x[before]) / this.step) : 0;
        const near = steps <= 1 || (steps <= BRIDGED_STEPS && (idle === null || i === before + 1));
        if (run && near && !this.isUnknown(this.x[before], this.x[i])) run.push(i);
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
          x.push(toLocal(this.x[index] + shift));
          y.push(heights[index]);
          customdata.push(values[index]);
        }
      }
      return { x, y, customdata };
    }

    area(runs, upper, lower) {
      const [x, y] = [[], []];
      for (const run of runs) {
        const edges = this.edges(run);
        if (x.length) {
          x.push(x[x.length - 1]);
          y.push(null);
        }
        for (const [index, shift] of edges) {
          x.push(toLocal(this.x[index] + shift));
          y.push(upper[index]);
        }
        for (const [index, shift] of [...edges].reverse()) {
          x.push(toLocal(this.x[index] + shift));
          y.push((lower && lower[index]) || 0);
        }
      }
      return { x, y };
    }

    window() {
      if (this.zoom) return this.zoom;
      const end = this.x[this.x.length - 1];
      return [this.span ? Math.max(end - this.span, this.from) : this.from, end];
    }

    layoutOf(spec) {
      const [from, to] = this.window();
      const shapes = [
        ...this.unknown.map(([start, end]) => ({
          type: "rect", layer: "below", line: { width: 0 }, fillcolor: faint("var(--idle-line)", 0.12),
          x0: toLocal(start), x1: toLocal(end), yref: "paper", y0: 0, y1: 1,
        })),
        ...this.marks.map((mark) => ({
          type: "line", x0: toLocal(mark.ms), x1: toLocal(mark.ms), yref: "paper", y0: 0, y1: 1,
          line: { color: markColor(mark), width: 1, dash: "dot" },
        })),
      ];
      const legend = { ...spec.layout.legend, itemclick: spec.stacked ? false : "toggle", itemdoubleclick: false };
      return {
        ...spec.layout,
        shapes,
        legend,
        dragmode: touched() ? false : "zoom",
        uirevision: "kept",
        xaxis: { ...spec.layout.xaxis, range: [toLocal(from), toLocal(to)], autorange: false },
      };
    }

    markTrace() {
      return {
        type: "scatter", mode: "markers", yaxis: "y2", showlegend: false, name: "",
        x: this.marks.map((mark) => toLocal(mark.ms)),
        y: this.marks.map(() => 0.97),
        text: this.marks.map((mark) => `${mark.kind}: ${mark.text}`),
        marker: { symbol: "triangle-down", size: 8, color: this.marks.map(markColor) },
        hovertemplate: "%{text}<extra></extra>",
      };
    }

    relayouted(change) {
      if (change["xaxis.range[0]"] === undefined) return;
      const zoom = [fromLocal(change["xaxis.range[0]"]), fromLocal(change["xaxis.range[1]"])];
      if (zoom[1] - zoom[0] >= 2000) this.setZoom(zoom);
      else this.drawAll(true);
    }

    // -- Every second -------------------------------------------------------------------------

    serverNow() {
      return Date.now() - this.skew;
    }

    everySecond() {
      if (!this.section.isConnected) {
        this.stop();
        clearInterval(this.timer);
        return;
      }
      const sinceLoad = (performance.now() - this.loadedAt) / 1000;
      const age = this.heardAt ? this.serverNow() - this.heardAt : null;
      const late = age === null ? !this.detailed : age > LATE_MS;
      this.showAge(age, late);
      if (document.visibilityState === "hidden" || this.loading || this.paused || this.detailed) return;
      const due = this.refresh ? sinceLoad >= this.refresh : late && sinceLoad >= 5;
      if (due || (this.x.length === 0 && sinceLoad >= 5)) this.load();
    }

    showAge(age, late) {
      const label = this.section.querySelector("[data-board-age]");
      const words = age === null ? "no data yet" : age < 2500 ? "live" : `data ${spanOf(age / 1000)} old`;
      label.textContent = this.paused ? `paused, ${words}` : words;
      label.classList.toggle("late", late && age !== null);
      this.section.classList.toggle("late", late && Boolean(this.hasData));
      const golden = this.owner && document.querySelector(".golden");
      if (golden) golden.classList.toggle("stale", late);
    }

    notice(about, text) {
      this.notices = { ...this.notices, [about]: text };
      const box = this.section.querySelector("[data-board-notice]");
      const all = Object.values(this.notices).filter(Boolean).join(" ");
      if (box.textContent !== all) box.textContent = all;
      box.hidden = !all;
    }
  }

  // -- Small things -----------------------------------------------------------------------------

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

  function markColor(mark) {
    return MARK_COLORS[mark.kind] || "var(--idle-line)";
  }

  function spanOf(seconds) {
    if (seconds < 90) return `${Math.floor(seconds)} s`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
  }

  const WRITE = {
    per_second: (value) => `${significant(value)}/s`,
    share: (value) => `${significant(value * 100)}%`,
    ms: (value) => (value < 1000 ? `${significant(value)} ms` : `${significant(value / 1000)} s`),
    count: (value) => significant(value),
  };

  function significant(value) {
    const digits = Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
    return value.toLocaleString("en", digits);
  }

  function showGolden(golden, known) {
    for (const place of document.querySelectorAll("[data-golden]")) {
      const value = golden[place.dataset.golden];
      const there = value !== null && value !== undefined;
      place.textContent = there ? WRITE[place.dataset.unit](value) : "–";
      place.classList.toggle("unknown", !there);
      place.dataset.known = String(known);
    }
  }

  function start() {
    document.querySelectorAll("[data-board]").forEach((section, index) => {
      if (section.started) return;
      section.started = true;
      section.boardOf = new Board(section, index === 0);
    });
  }

  document.addEventListener("htmx:afterSettle", start);
  start();
})();
