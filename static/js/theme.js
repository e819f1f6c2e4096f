// Applies the chosen theme and the folded rail before the first paint. The choice is a cookie, so
// the server writes it into the next page; this file only changes it.
(function () {
  "use strict";

  const root = document.documentElement;

  function remember(name, value) {
    document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax`;
  }

  function isDark() {
    const chosen = root.dataset.theme;
    if (chosen) return chosen === "dark";
    return window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function tell() {
    window.dispatchEvent(new CustomEvent("switchyard:theme", { detail: { dark: isDark() } }));
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-toggle]")) {
      const next = isDark() ? "light" : "dark";
      root.dataset.theme = next;
      remember("theme", next);
      tell();
    }
    if (event.target.closest("[data-rail-toggle]")) {
      const narrow = root.dataset.rail !== "narrow";
      if (narrow) root.dataset.rail = "narrow";
      else delete root.dataset.rail;
      remember("rail", narrow ? "narrow" : "wide");
      window.dispatchEvent(new Event("resize"));
    }
  });

  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);

  window.SwitchyardTheme = {
    isDark,
    // The value of a token such as "--stable-line", for charts.
    token: (name) => getComputedStyle(root).getPropertyValue(name).trim(),
  };
})();
