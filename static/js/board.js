// A board: charts that share one window of time, fetched once and then kept going by live frames.
//
// <section data-board="/live/figures/?…" data-range="15m" data-topic="fleet">, see
// templates/telemetry/_live_panel.html. The first board of a page keeps its range, its zoom and
// whether it is paused in the URL, and feeds the [data-golden] numbers.
(function () {
  "use strict";

  const { draw, clear, touched } = window.SwitchyardFigures;
  const {
    Shape, fromAxis, layoutOf, legendRows, markRule, markTrace, tracesOf, unknownBands, unknownLabels,
  } = window.SwitchyardLines;
  const LATE_MS = 5000;
  const READING_MS = 4000;
  const QUIET_MS = 2500;
  const DEVICE_KEY = /^(cpu_|memory_|gpu_)/;
  const POINTS = 600; // about what a chart can show; steps of a wider window are not drawn one by one
  const NO_REQUESTS = "No requests in this time.";

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
      this.tickAt = 0; // our time of the newest frame of the clock, whatever it said
      this.toldAt = 0; // our time of the newest frame of our own topic
      this.skew = 0; // our clock minus the server's
      this.loadedAt = 0;
      this.loading = null;
      this.snapshots = 0;
      this.seen = new IntersectionObserver((entries) => this.looked(entries), { rootMargin: "200px" });
      this.readUrl();
      this.bindControls();
      this.load();
      const topic = section.dataset.topic;
      this.clock = topic.startsWith("model:") ? "fleet" : topic; // told every second, traffic or not
      const stops = [...new Set([topic, this.clock])].map((name) =>
        window.SwitchyardLive.subscribe(name, (frame) => this.hear(name, frame)),
      );
      this.stop = () => stops.forEach((stop) => stop());
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
        figure = { box, element: box.querySelector(".board-plot"), visible: false, waiting: true, pointedAt: -READING_MS };
        figure.element.addEventListener("pointermove", () => {
          figure.pointedAt = performance.now();
        });
        figure.element.addEventListener("pointerleave", () => {
          figure.pointedAt = -READING_MS;
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

    hear(topic, frame) {
      if (frame.type === "error" || !frame.data.telemetry) return;
      const told = frame.data.telemetry;
      if (topic === this.clock) {
        this.tickAt = performance.now();
        if (frame.type === "snapshot") this.reconnected();
        if (topic !== this.section.dataset.topic) {
          this.hearClock(frame, told);
          return;
        }
      }
      if (frame.type === "delta") this.toldAt = performance.now();
      this.take(frame, told, this.partOf(told));
    }

    // Not the first snapshot: the socket was away, so the charts miss a piece.
    reconnected() {
      this.snapshots += 1;
      if (this.snapshots > 1 && performance.now() - this.loadedAt > 2000) this.load();
    }

    // A model of which nothing is told does nothing; the frames of the fleet keep its charts going.
    // They are taken a tick late, so that the model's own frame of the same second goes first.
    hearClock(frame, told) {
      const before = this.pending;
      this.pending = frame.type === "delta" ? { frame, told } : null;
      if (!before || performance.now() - this.toldAt < QUIET_MS) return;
      const known = this.scope ? Boolean((before.told.runtimes[this.scope] || {}).known) : before.told.known;
      const devices = Object.entries(before.told.values).filter(([key]) => DEVICE_KEY.test(key));
      const part = { known, values: Object.fromEntries(devices), partial: false };
      this.take(before.frame, { ...before.told, marks: [] }, part);
    }

    take(frame, told, part) {
      const unheard = Object.entries(told.runtimes).filter(([, state]) => state.known === false && state.reason);
      const concerned = this.scope ? unheard.filter(([name]) => name === this.scope) : unheard;
      this.notice(
        "runtimes",
        concerned.map(([name, state]) => `${name} does not answer: ${state.reason}.`).join(" "),
      );
      if (part.known) this.heardAt = Math.max(this.heardAt, told.at);
      if (this.owner && part.golden) showGolden(part.golden, part.known);
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
      const news = this.remark(told.marks);
      this.trim(told.at);
      if (part.known) this.hasData = true;
      // What a mark tells of may have changed who is stable, so the lines are named anew.
      const changed = news || this.newcomer(part.values);
      if (changed && performance.now() - this.loadedAt > 1500) this.load();
      else this.drawAll();
    }

    remark(marks) {
      const known = new Set(this.marks.map((mark) => mark.id));
      const fresh = marks.filter((mark) => !known.has(mark.id));
      this.marks.push(...fresh.map((mark) => ({ ...mark, ms: Date.parse(mark.at) })));
      return fresh.length > 0;
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
      this.from = oldest;
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
      const read = performance.now() - figure.pointedAt < READING_MS; // holds still under the pointer
      if (!must && (read || element._dragging)) return;
      const end = this.x[this.x.length - 1];
      if (!must && end - figure.drawnTo < (end - this.from) / POINTS) return; // less than a pixel
      figure.waiting = false;
      figure.drawnTo = end;
      const lines = spec.data.map((trace) => this.series.get(trace.meta.key));
      const anything = lines.some((values) => values.some((value) => value !== null));
      if (!anything) {
        clear(element, spec.empty || (this.x.length ? NO_REQUESTS : "Nothing was measured in this time."));
        return;
      }
      draw(element, this.figureOf(spec, lines, element.clientWidth), { doubleClick: false });
      if (!element.bound) {
        element.bound = true;
        element.on("plotly_relayout", (change) => this.relayouted(change));
        element.on("plotly_doubleclick", () => this.setZoom(null));
      }
    }

    figureOf(spec, lines, width) {
      const shape = new Shape(this.x, this.step, this.unknown);
      const [from, to] = this.window();
      return {
        data: [...tracesOf(spec, lines, shape), markTrace(this.marks)],
        layout: {
          ...layoutOf(spec, lines, legendRows(spec, lines, width)),
          shapes: [...unknownBands(this.unknown), ...this.marks.map(markRule)],
          annotations: unknownLabels(this.unknown, from, to),
          dragmode: touched() ? false : "zoom",
          uirevision: "kept",
          xaxis: { ...spec.layout.xaxis, range: [from, to], autorange: false },
        },
      };
    }

    window() {
      if (this.zoom) return this.zoom;
      const end = this.x[this.x.length - 1];
      return [this.span ? Math.max(end - this.span, this.from) : this.from, end];
    }

    relayouted(change) {
      if (change["xaxis.range[0]"] === undefined) return;
      const zoom = [fromAxis(change["xaxis.range[0]"]), fromAxis(change["xaxis.range[1]"])];
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
      const silent = performance.now() - Math.max(this.tickAt, this.loadedAt) > LATE_MS; // no socket: ask
      if (this.refresh ? sinceLoad >= this.refresh : silent) this.load();
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
