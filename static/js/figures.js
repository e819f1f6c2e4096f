// Draws figures with Plotly. Colours come as var(--token) and get the current theme's values here,
// again whenever the theme is switched.
//
// <figure data-figure="id"> with <script type="application/json" id="id">{data, layout}</script>
// and <div data-figure-plot> is drawn by itself; board.js draws through SwitchyardFigures.draw.
(function () {
  "use strict";

  const NUMBERS = new Set(["x", "y", "customdata"]); // long arrays without a colour in them
  const CONFIG = { displayModeBar: false, responsive: true, showTips: false };
  const drawn = new Map(); // plot element → { data, layout } as given
  let tokens = new Map();

  function token(name) {
    if (!tokens.has(name)) tokens.set(name, window.SwitchyardTheme.token(name));
    return tokens.get(name);
  }

  function resolved(value, key) {
    if (typeof value === "string") {
      return value.includes("var(")
        ? value.replace(/var\((--[a-z0-9-]+)\)/g, (whole, name) => token(name) || whole)
        : value;
    }
    if (value === null || typeof value !== "object" || NUMBERS.has(key)) return value;
    if (Array.isArray(value)) return value.map((item) => resolved(item));
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, resolved(item, name)]));
  }

  // "var(--token)" or "#rrggbb" → rgba with the given opacity.
  function faint(color, opacity) {
    const hex = resolved(color).replace("#", "");
    const full = hex.length === 3 ? [...hex].map((digit) => digit + digit).join("") : hex;
    const parts = [0, 2, 4].map((start) => parseInt(full.slice(start, start + 2), 16));
    return `rgba(${parts.join(",")},${opacity})`;
  }

  function draw(element, figure, config = {}) {
    const empty = element.querySelector(":scope > .figure-empty");
    if (empty) empty.remove();
    drawn.set(element, figure);
    return window.Plotly.react(element, resolved(figure.data), resolved(figure.layout), { ...CONFIG, ...config });
  }

  function clear(element, text) {
    if (drawn.delete(element)) window.Plotly.purge(element);
    const empty = document.createElement("div");
    empty.className = "figure-empty";
    empty.textContent = text;
    element.replaceChildren(empty);
  }

  function drawEmbedded() {
    for (const [element] of drawn) {
      if (!element.isConnected) {
        window.Plotly.purge(element);
        drawn.delete(element);
      }
    }
    for (const box of document.querySelectorAll("[data-figure]")) {
      const source = document.getElementById(box.dataset.figure);
      const element = box.querySelector("[data-figure-plot]");
      if (!source || !element || drawn.has(element)) continue;
      const figure = JSON.parse(source.textContent);
      if (touched()) figure.layout = { ...figure.layout, dragmode: false };
      draw(element, figure);
    }
  }

  // Dragging to zoom would take the page's scrolling away from a finger.
  function touched() {
    return window.matchMedia("(pointer: coarse)").matches;
  }

  window.addEventListener("switchyard:theme", () => {
    tokens = new Map();
    window.dispatchEvent(new Event("switchyard:figures-recolour"));
    for (const [element, figure] of drawn) {
      if (!element.closest("[data-board]")) draw(element, figure);
    }
  });

  document.addEventListener("htmx:afterSettle", drawEmbedded);
  window.SwitchyardFigures = { draw, clear, faint, touched };
  drawEmbedded();
})();
