// Keyboard shortcuts: "/" search, "g" and a letter to go, "?" help, Esc leaves a field.
// Links name their letter in data-go; dialogs close on Esc by themselves.
(function () {
  "use strict";

  let goUntil = 0;

  function typing(target) {
    return target.closest("input, textarea, select, [contenteditable]") !== null;
  }

  function search() {
    const fields = [...document.querySelectorAll("#main [data-search], [data-search]")];
    const field = fields.find((each) => each.offsetParent !== null);
    if (field) {
      field.focus();
      field.select();
    }
    return Boolean(field);
  }

  function help() {
    const dialog = document.getElementById("keys");
    if (dialog && !dialog.open) dialog.showModal();
  }

  function go(letter) {
    const link = document.querySelector(`[data-go="${CSS.escape(letter)}"]`);
    if (link) window.location.assign(link.href);
    return Boolean(link);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.key === "Escape") {
      goUntil = 0;
      if (typing(event.target)) event.target.blur();
      return;
    }
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    let handled = false;
    if (performance.now() < goUntil) {
      goUntil = 0;
      handled = go(event.key.toLowerCase());
    } else if (event.key === "g") {
      goUntil = performance.now() + 1500;
      handled = true;
    } else if (event.key === "/") {
      handled = search();
    } else if (event.key === "?") {
      help();
      handled = true;
    }
    if (handled) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) help();
  });
})();
