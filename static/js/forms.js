// Small manners for forms and buttons: confirm, copy, dismiss, no double submit. Every page works
// without this file.
(function () {
  "use strict";

  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text) made.textContent = text;
    return made;
  }

  // -- Toasts -------------------------------------------------------------------------------

  function toast(text, tone) {
    const box = document.getElementById("toasts");
    if (!box) return;
    const item = element("div", `toast toast-${tone || "idle"}`);
    const close = element("button", "button button-quiet button-small", "Close");
    close.type = "button";
    close.dataset.dismiss = "";
    item.append(element("span"), element("span", "", text), close);
    box.append(item);
    if (tone !== "bad") setTimeout(() => item.remove(), 8000);
  }

  // -- Copy ---------------------------------------------------------------------------------

  async function copy(button) {
    let text = button.dataset.copy;
    if (!text) {
      const box = button.closest(".code");
      const source = box && box.querySelector("pre");
      text = source ? source.textContent : "";
    } else if (text.startsWith("#") && document.querySelector(text)) {
      text = document.querySelector(text).textContent;
    }
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without TLS the clipboard API is missing; the old way still works after a click.
      const area = element("textarea", "visually-hidden", text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    const label = button.querySelector("span");
    const before = label && label.textContent;
    if (label) {
      label.textContent = "Copied";
      setTimeout(() => (label.textContent = before), 1500);
    }
    if (!label || label.classList.contains("visually-hidden")) toast("Copied.", "good");
  }

  // -- Confirm ------------------------------------------------------------------------------

  // <form data-confirm="Effect in a sentence." data-confirm-verb="Undeploy version 3">
  function confirmed(text, verb, danger) {
    return new Promise((resolve) => {
      const dialog = element("dialog", "dialog");
      const body = element("div", "panel-body");
      const row = element("div", "button-row");
      const yes = element("button", "button button-primary", verb);
      if (danger) yes.classList.add("button-danger");
      const no = element("button", "button", "Keep as it is");
      yes.type = no.type = "button";
      yes.addEventListener("click", () => dialog.close("yes"));
      no.addEventListener("click", () => dialog.close(""));
      row.append(yes, no);
      body.append(element("p", "", text), row);
      dialog.append(body);
      dialog.addEventListener("close", () => {
        dialog.remove();
        resolve(dialog.returnValue === "yes");
      });
      document.body.append(dialog);
      dialog.showModal();
      no.focus();
    });
  }

  const agreed = new WeakSet();

  function busy(form, submitter) {
    if (form.dataset.submitted && !form.hasAttribute("hx-post")) return false;
    form.dataset.submitted = "1";
    if (submitter) submitter.setAttribute("aria-busy", "true");
    return true;
  }

  document.addEventListener(
    "submit",
    async (event) => {
      const form = event.target;
      const submitter = event.submitter;
      const source = submitter && submitter.dataset.confirm ? submitter : form;
      if (source.dataset.confirm && !agreed.has(form)) {
        event.preventDefault();
        event.stopImmediatePropagation();
        const verb =
          source.dataset.confirmVerb || (submitter && submitter.textContent.trim()) || "Go ahead";
        const danger = source.hasAttribute("data-danger");
        if (await confirmed(source.dataset.confirm, verb, danger)) {
          agreed.add(form);
          form.requestSubmit(submitter || undefined);
          agreed.delete(form);
        }
        return;
      }
      if ((form.method || "").toLowerCase() === "post" && !busy(form, submitter)) {
        event.preventDefault();
      }
    },
    true,
  );

  // A page shown again by the back button must accept its forms again.
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form[data-submitted]")) {
      delete form.dataset.submitted;
    }
    for (const button of document.querySelectorAll("[aria-busy]")) {
      button.removeAttribute("aria-busy");
    }
  });

  document.addEventListener("click", (event) => {
    const copyButton = event.target.closest("[data-copy]");
    if (copyButton) copy(copyButton);
    const dismiss = event.target.closest("[data-dismiss]");
    if (dismiss) dismiss.closest(".toast, .notice").remove();
    const opener = event.target.closest("[data-open]");
    if (opener) document.querySelector(opener.dataset.open).showModal();
  });

  // <select data-submit-on-change> inside a GET form: filters without a button.
  document.addEventListener("change", (event) => {
    if (event.target.closest("[data-submit-on-change]")) event.target.form.requestSubmit();
  });

  // -- htmx ---------------------------------------------------------------------------------

  document.addEventListener("htmx:responseError", (event) => {
    const xhr = event.detail.xhr;
    if (xhr.status === 401) {
      window.location.reload(); // the session has ended: the server shows the login page
      return;
    }
    if (event.detail.elt.hasAttribute("data-quiet")) return;
    let text = `The server answered ${xhr.status}.`;
    const type = xhr.getResponseHeader("Content-Type") || "";
    if (type.includes("json")) {
      try {
        const problem = JSON.parse(xhr.responseText);
        text = [problem.detail, problem.help].filter(Boolean).join(" ");
      } catch {
        // keep the plain sentence
      }
    } else {
      const holder = element("template");
      holder.innerHTML = xhr.responseText;
      const notice = holder.content.querySelector(".notice");
      if (notice) text = notice.textContent.replace(/\s+/g, " ").trim();
    }
    if (event.detail.elt.id !== "verdict") toast(text, "bad");
  });

  document.addEventListener("htmx:sendError", (event) => {
    if (event.detail.elt.id === "verdict" || event.detail.elt.hasAttribute("data-quiet")) return;
    toast("The server does not answer. Nothing was changed; try again in a moment.", "bad");
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const form = event.detail.elt;
    if (form && form.dataset) delete form.dataset.submitted;
    for (const button of form.querySelectorAll ? form.querySelectorAll("[aria-busy]") : []) {
      button.removeAttribute("aria-busy");
    }
  });

  window.Switchyard = Object.assign(window.Switchyard || {}, { toast, confirmed });
})();
