// Keeps a rollout's page as it is on the server: on each live frame the parts are fetched again and
// merged into the page. Nodes stay where they are, so focus, hover and half-made clicks survive.
(function () {
  "use strict";

  const PARTS = ["rollout-state", "rollout-abort", "rollout-body", "rollout-history"];
  const QUIET_MS = 1000; // between two fetches
  const FALLBACK_MS = 5000; // without a live connection
  const page = document.querySelector("[data-rollout]");
  if (!page) return;

  let fetching = false;
  let wanted = false;
  let fetchedAt = 0;
  let timer = 0;

  function refresh() {
    if (fetching || document.visibilityState === "hidden") {
      wanted = true;
      return;
    }
    const wait = fetchedAt + QUIET_MS - performance.now();
    if (wait > 0) {
      clearTimeout(timer);
      timer = setTimeout(refresh, wait);
      return;
    }
    wanted = false;
    fetching = true;
    fetchedAt = performance.now();
    fetch(page.dataset.fragment, { headers: { "X-Requested-With": "rollout.js" }, redirect: "error" })
      .then((response) => (response.ok ? response.text() : Promise.reject(response.status)))
      .then(merge)
      .catch(() => undefined) // the lamp of the live connection shows that something is wrong
      .finally(() => {
        fetching = false;
        if (wanted) refresh();
      });
  }

  function merge(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const id of PARTS) {
      const before = document.getElementById(id);
      const after = fresh.getElementById(id);
      if (before && after) mergeNode(before, after);
    }
  }

  function mergeNode(before, after) {
    if (before.nodeType !== after.nodeType || before.nodeName !== after.nodeName) {
      before.replaceWith(document.importNode(after, true));
      return;
    }
    if (before.nodeType !== Node.ELEMENT_NODE) {
      if (before.nodeValue !== after.nodeValue) before.nodeValue = after.nodeValue;
      return;
    }
    if (before.nodeName === "FORM" && before.querySelector("[aria-busy='true']")) return; // being sent
    mergeAttributes(before, after);
    const olds = [...before.childNodes];
    const news = [...after.childNodes];
    news.forEach((child, index) => {
      if (index < olds.length) mergeNode(olds[index], child);
      else before.appendChild(document.importNode(child, true));
    });
    olds.slice(news.length).forEach((child) => child.remove());
  }

  function mergeAttributes(before, after) {
    for (const { name, value } of [...after.attributes]) {
      if (before.getAttribute(name) !== value) before.setAttribute(name, value);
    }
    for (const { name } of [...before.attributes]) {
      if (!after.hasAttribute(name)) before.removeAttribute(name);
    }
  }

  if ("ended" in page.dataset) return;
  if (window.SwitchyardLive) window.SwitchyardLive.subscribe(`rollout:${page.dataset.rollout}`, refresh);
  setInterval(() => {
    if (performance.now() - fetchedAt > FALLBACK_MS) refresh();
  }, FALLBACK_MS);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") refresh();
  });
})();
