// One socket for the page: connects when something subscribes, backs off, notices gaps, keeps ages.
//
// Scripts:   const stop = SwitchyardLive.subscribe("fleet", (frame) => …)
// Templates: <section data-live-topic="job:op_1">
//              <b data-live-field="phase"></b>
//              <progress data-live-value="progress"></progress>
//            and the element gets the DOM events "live" (every frame) and "live-state" (data.state
//            changed), both usable as hx-trigger.
(function () {
  "use strict";

  const STALE_SECONDS = 5;
  const PING_MS = 10000;
  const SILENCE_MS = 25000; // no frame and no pong for so long: the connection is dead
  const listeners = new Map(); // topic → Set of callbacks
  const sequences = new Map(); // topic → last number seen
  const latest = new Map(); // topic → last frame
  let socket = null;
  let attempt = 0;
  let heardAt = 0;
  let retryTimer = 0;
  let signedOut = false;

  // -- Connection ---------------------------------------------------------------------------

  function connect() {
    clearTimeout(retryTimer);
    if (signedOut || socket || listeners.size === 0) return;
    const scheme = window.location.protocol === "https:" ? "wss" : "ws";
    const opened = new WebSocket(`${scheme}://${window.location.host}/ws/live/`);
    socket = opened;
    show("waiting", "Connecting to live data");
    opened.addEventListener("open", () => {
      heardAt = performance.now();
      send({ type: "subscribe", topics: [...listeners.keys()] });
    });
    opened.addEventListener("message", (event) => {
      if (socket !== opened) return;
      attempt = 0;
      heardAt = performance.now();
      show("open", "Live");
      receive(JSON.parse(event.data));
    });
    opened.addEventListener("close", (event) => {
      if (socket === opened) closed(event.code);
    });
  }

  function closed(code) {
    socket = null;
    sequences.clear();
    if (code === 4401) {
      signedOut = true;
      show("closed", "You are signed out; reload the page to sign in again");
      return;
    }
    if (listeners.size === 0) {
      show("idle", "No live data on this page");
      return;
    }
    attempt += 1;
    const wait = Math.min(15000, 500 * 2 ** Math.min(attempt - 1, 5)) * (0.7 + Math.random() * 0.6);
    show("closed", `Live data interrupted, trying again in ${Math.max(1, Math.round(wait / 1000))} s`);
    retryTimer = setTimeout(connect, wait);
  }

  function send(message) {
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  }

  setInterval(() => {
    if (!socket || socket.readyState !== WebSocket.OPEN) return;
    if (performance.now() - heardAt > SILENCE_MS) {
      const dead = socket;
      closed(0);
      dead.close();
      return;
    }
    send({ type: "ping" });
  }, PING_MS);

  window.addEventListener("online", () => {
    attempt = 0;
    connect();
  });

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") connect();
  });

  // -- Frames -------------------------------------------------------------------------------

  function receive(frame) {
    if (frame.type === "pong") return;
    if (frame.type === "error") {
      for (const callback of [...(listeners.get(frame.topic) || [])]) callback(frame);
      return;
    }
    const last = sequences.get(frame.topic);
    if (frame.type === "delta" && frame.seq !== last + 1) {
      sequences.delete(frame.topic);
      send({ type: "subscribe", topics: [frame.topic] }); // a gap: start again from a snapshot
      return;
    }
    sequences.set(frame.topic, frame.seq);
    latest.set(frame.topic, frame);
    for (const callback of [...(listeners.get(frame.topic) || [])]) callback(frame);
  }

  function subscribe(topic, callback) {
    let callbacks = listeners.get(topic);
    if (!callbacks) {
      callbacks = new Set();
      listeners.set(topic, callbacks);
      send({ type: "subscribe", topics: [topic] });
    } else if (latest.has(topic)) {
      callback(latest.get(topic));
    }
    callbacks.add(callback);
    connect();
    return () => {
      callbacks.delete(callback);
      if (callbacks.size === 0 && listeners.get(topic) === callbacks) {
        listeners.delete(topic);
        latest.delete(topic);
        sequences.delete(topic);
        send({ type: "unsubscribe", topics: [topic] });
      }
    };
  }

  function show(state, text) {
    for (const lamp of document.querySelectorAll("[data-live-state]")) {
      if (lamp.dataset.state === state && lamp.title === text) continue;
      lamp.dataset.state = state;
      lamp.title = text;
      const words = lamp.querySelector("[data-live-state-text]");
      if (words) words.textContent = text;
    }
  }

  // -- Elements bound by attributes -----------------------------------------------------------

  const formats = {
    percent: (value) => `${Number((value * 100).toPrecision(3))}%`,
    number: (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 }),
    ms: (value) => `${Number(value.toPrecision(3))} ms`,
    rate: (value) => `${value.toLocaleString("en", { maximumSignificantDigits: 3 })}/s`,
    word: (value) => String(value).replaceAll("_", " ").toLowerCase(),
  };

  function dig(data, path) {
    return path.split(".").reduce((value, key) => (value == null ? value : value[key]), data);
  }

  function paint(box, frame) {
    if (frame.type === "error") return;
    for (const field of box.querySelectorAll("[data-live-field]")) {
      const value = dig(frame.data, field.dataset.liveField);
      const format = formats[field.dataset.liveFormat];
      const known = value !== null && value !== undefined && value !== "";
      field.textContent = known ? (format ? format(value) : String(value)) : "–";
    }
    for (const bar of box.querySelectorAll("[data-live-value]")) {
      const value = dig(frame.data, bar.dataset.liveValue);
      if (typeof value === "number") bar.value = value;
    }
    for (const age of box.querySelectorAll("[data-live-age]")) age.dataset.ageOf = frame.at;
    const state = frame.data.state;
    box.dispatchEvent(new CustomEvent("live", { detail: frame, bubbles: false }));
    if (state !== undefined && box.dataset.liveStateWord !== state) {
      const first = box.dataset.liveStateWord === undefined;
      box.dataset.liveStateWord = state;
      if (!first) box.dispatchEvent(new CustomEvent("live-state", { detail: frame }));
    }
  }

  const bound = new Map(); // element → stop

  function bind() {
    for (const [box, stop] of bound) {
      if (!box.isConnected) {
        stop();
        bound.delete(box);
      }
    }
    for (const box of document.querySelectorAll("[data-live-topic]")) {
      if (!bound.has(box)) {
        bound.set(
          box,
          subscribe(box.dataset.liveTopic, (frame) => paint(box, frame)),
        );
      }
    }
  }

  document.addEventListener("DOMContentLoaded", bind);
  document.addEventListener("htmx:afterSettle", bind);
  if (document.readyState !== "loading") bind();

  // -- Ages and moments -----------------------------------------------------------------------

  function coarse(seconds) {
    if (seconds < 1) return "now";
    if (seconds < 90) return `${Math.floor(seconds)} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
    return `${Math.round(seconds / 86400)} d`;
  }

  function tick() {
    const now = Date.now();
    for (const label of document.querySelectorAll("[data-age-of]")) {
      const at = Date.parse(label.dataset.ageOf);
      if (Number.isNaN(at)) continue;
      const seconds = Math.max(0, (now - at) / 1000);
      const holder = label.closest("[data-stale-after], [data-live-topic]") || label;
      const limit = Number(holder.dataset.staleAfter || STALE_SECONDS);
      label.textContent = seconds < 1 ? "data just now" : `data ${coarse(seconds)} old`;
      holder.classList.toggle("stale", seconds > limit);
    }
    for (const time of document.querySelectorAll("time.rel-time")) {
      const at = Date.parse(time.dateTime);
      if (Number.isNaN(at)) continue;
      const seconds = (now - at) / 1000;
      const words = coarse(Math.abs(seconds));
      const text = words === "now" ? words : seconds > 0 ? `${words} ago` : `in ${words}`;
      if (time.textContent !== text) time.textContent = text;
      if (!time.dataset.local) {
        time.dataset.local = "1";
        time.title = new Date(at).toLocaleString(undefined, {
          dateStyle: "medium",
          timeStyle: "medium",
        });
      }
    }
  }

  setInterval(tick, 1000);
  tick();

  window.SwitchyardLive = { subscribe };
})();
