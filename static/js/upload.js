// The upload page: chooses the file, starts or continues an upload, shows it, then the checks.
(function () {
  "use strict";

  const form = document.getElementById("upload-form");
  if (!form || !window.SwitchyardPartSender) return;
  const { call, hexOf } = window.SwitchyardUploadApi;
  const csrf = form.querySelector("[name=csrfmiddlewaretoken]").value;
  const limits = JSON.parse(document.getElementById("upload-limits").textContent);
  const digestUrl = document.currentScript
    ? document.currentScript.src.replace("upload.js", "sha256_worker.js")
    : "/static/js/sha256_worker.js";
  const zone = document.getElementById("drop-zone");
  const input = document.getElementById("file");
  const problemLine = document.getElementById("file-problem");
  const transfer = document.getElementById("transfer");
  const outcome = document.getElementById("outcome");
  document.documentElement.classList.add("sends-parts");
  const part = (name) => transfer.querySelector(`[data-transfer-${name}]`);
  let sender = null;

  // -- Words ----------------------------------------------------------------------------------

  function bytes(count) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let value = count;
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit += 1;
    }
    const shown = value >= 1000 || unit === 0 ? Math.round(value) : value.toPrecision(3);
    return `${shown} ${units[unit]}`;
  }

  function duration(seconds) {
    if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
    if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
    return `${(seconds / 3600).toFixed(1)} h`;
  }

  function refuse(text) {
    problemLine.hidden = !text;
    problemLine.querySelector("span").textContent = text || "";
    input.setAttribute("aria-invalid", text ? "true" : "false");
  }

  // -- Choosing -------------------------------------------------------------------------------

  function chosen(file) {
    refuse("");
    input.removeAttribute("data-hopeless");
    if (file) zone.querySelector("[data-drop-text]").textContent = file.name;
    zone.querySelector("[data-drop-hint]").textContent = file ? bytes(file.size) : ".onnx, .zip, .tar or .tar.gz";
    zone.toggleAttribute("data-chosen", Boolean(file));
    if (!file) return;
    if (file.size > limits.max_bytes) {
      refuse(`${bytes(file.size)} is over the limit of ${bytes(limits.max_bytes)}. Upload a smaller model, or ask the administrator to raise SWITCHYARD_MAX_UPLOAD_BYTES.`);
    } else if (file.size === 0) {
      refuse("The file is empty. Choose the exported model file.");
    } else if (/\.(pt|pth|pkl|pickle|joblib|ckpt)$/i.test(file.name)) {
      refuse('This kind of file can run code when opened and will be refused. Export the model to ONNX first: torch.onnx.export(model, example_inputs, "model.onnx", dynamo=True).');
    }
    if (!problemLine.hidden) input.setAttribute("data-hopeless", "");
    const name = document.getElementById("model");
    if (!name.value && problemLine.hidden) name.value = suggestedName(file.name);
  }

  function suggestedName(fileName) {
    const stem = fileName.replace(/\.(onnx|zip|tar|tgz|gz)$/i, "").replace(/\.tar$/i, "");
    const clean = stem.replace(/[^A-Za-z0-9_.-]+/g, "_").replace(/--+/g, "-").replace(/^[^A-Za-z0-9]+/, "");
    return clean === "model" ? "" : clean.slice(0, 100);
  }

  input.addEventListener("change", () => chosen(input.files[0]));

  // The whole page takes the drop: missing the zone must not open the file in the tab.
  let inside = 0;
  document.addEventListener("dragenter", (event) => {
    inside += 1;
    if (event.dataTransfer.types.includes("Files")) zone.classList.add("over");
  });
  document.addEventListener("dragleave", () => {
    inside -= 1;
    if (inside <= 0) zone.classList.remove("over");
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    inside = 0;
    zone.classList.remove("over");
    if (form.hidden || !event.dataTransfer.files.length) return;
    const files = new DataTransfer();
    files.items.add(event.dataTransfer.files[0]);
    input.files = files.files;
    chosen(input.files[0]);
  });

  // -- Starting and continuing ----------------------------------------------------------------

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    if (sender) return;
    const file = input.files[0];
    if (!problemLine.hidden && input.hasAttribute("data-hopeless")) {
      input.focus();
      return;
    }
    const button = form.querySelector("[type=submit]");
    button.disabled = true;
    try {
      const upload = await start(file);
      await follow(upload, file);
    } catch (problem) {
      refuse([problem.message, problem.fix].filter(Boolean).join(" "));
    } finally {
      button.disabled = false;
    }
  });

  async function start(file) {
    const fields = new FormData(form);
    const config = fields.get("config");
    const samples = fields.get("samples");
    const known = await unfinishedFor(file, fields.get("model"));
    if (known) return known;
    const upload = await call("POST", "/uploads", csrf, {
      model: fields.get("model"),
      filename: file.name,
      size_bytes: file.size,
      config: config && config.size ? await config.text() : "",
      note: fields.get("note"),
    });
    remember(upload, file);
    if (samples && samples.size) {
      const sent = await fetch(`/api/v1/uploads/${upload.id}/samples`, {
        method: "PUT",
        headers: { "X-CSRFToken": csrf, "Content-Type": "application/octet-stream", "X-File-Name": samples.name },
        body: samples,
      });
      if (!sent.ok) throw new Error((await sent.json()).detail);
    }
    return upload;
  }

  // A reload lost the page, not the upload: the same file for the same model goes on.
  async function unfinishedFor(file, model) {
    const listed = await call("GET", "/uploads?state=UPLOADING", csrf);
    for (const upload of listed.items) {
      const same = upload.model === model && upload.filename === file.name && upload.size_bytes === file.size;
      if (same && upload.part_size && remembered(upload, file) && (await isThisFile(upload, file))) return upload;
    }
    return null;
  }

  async function isThisFile(upload, file) {
    if (!upload.proof) return true; // nothing has arrived yet
    const start = (upload.proof.number - 1) * upload.part_size;
    const digest = await hexOf(file.slice(start, Math.min(start + upload.part_size, file.size)));
    return !digest || digest === upload.proof.sha256;
  }

  function remember(upload, file) {
    try {
      localStorage.setItem(`switchyard.upload.${upload.id}`, String(file.lastModified));
    } catch {
      // Private windows may refuse; the digest of a part tells the file as well.
    }
  }

  function remembered(upload, file) {
    try {
      const changed = localStorage.getItem(`switchyard.upload.${upload.id}`);
      return changed === null || changed === String(file.lastModified);
    } catch {
      return true;
    }
  }

  function forget(upload) {
    try {
      localStorage.removeItem(`switchyard.upload.${upload.id}`);
    } catch {
      // nothing was remembered
    }
  }

  for (const label of document.querySelectorAll("[data-continue]")) {
    label.hidden = false;
    label.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") label.querySelector("input").click();
    });
    label.querySelector("input").addEventListener("change", (event) => goOn(event.target));
  }

  async function goOn(chooser) {
    const file = chooser.files[0];
    if (!file || sender) return;
    try {
      const upload = await call("GET", `/uploads/${chooser.dataset.continueFile}`, csrf);
      if (file.size !== upload.size_bytes || !(await isThisFile(upload, file))) {
        window.Switchyard.toast(`${file.name} is not the file this upload was started with (${upload.filename}, ${bytes(upload.size_bytes)}). Choose that one, or discard the upload.`, "bad");
        chooser.value = "";
        return;
      }
      await follow(upload, file);
    } catch (problem) {
      window.Switchyard.toast([problem.message, problem.fix].filter(Boolean).join(" "), "bad");
    }
  }

  // -- Following ------------------------------------------------------------------------------

  async function follow(upload, file) {
    const meter = new Meter(upload.received_bytes, file.size);
    sender = new window.SwitchyardPartSender({ upload, file, csrf, digestUrl, told: (news) => meter.show(news) });
    show(upload, file);
    try {
      const operation = await sender.run();
      if (operation) watch(operation, upload);
    } catch (problem) {
      part("state").textContent = [problem.message, problem.fix].filter(Boolean).join(" ");
      document.getElementById("transfer-title").textContent = "Upload stopped";
      transfer.querySelector("[data-pause]").hidden = true;
    }
  }

  function show(upload, file) {
    form.hidden = true;
    const unfinished = document.getElementById("unfinished");
    if (unfinished) unfinished.hidden = true;
    transfer.hidden = false;
    part("file").textContent = `${file.name} for ${upload.model}`;
    const goesOn = upload.received_bytes > 0;
    part("state").textContent = goesOn ? `Going on where it stopped: ${bytes(upload.received_bytes)} are there already.` : "You may leave this page and come back; choose the same file then.";
    transfer.querySelector("[data-pause]").focus();
  }

  class Meter {
    constructor(already, total) {
      this.total = total;
      this.marks = [[performance.now(), already]];
      this.paintedAt = 0;
    }

    show({ sent, note }) {
      const now = performance.now();
      if (note) part("state").textContent = note;
      if (!note && now - this.paintedAt < 100) return;
      this.paintedAt = now;
      this.marks.push([now, sent]);
      while (this.marks.length > 2 && now - this.marks[0][0] > 5000) this.marks.shift();
      const [since, before] = this.marks[0];
      const rate = now > since ? ((sent - before) * 1000) / (now - since) : 0;
      part("bar").value = sent / this.total;
      part("amount").textContent = `${bytes(sent)} of ${bytes(this.total)}`;
      const left = rate > 0 && sent < this.total ? ` · about ${duration((this.total - sent) / rate)} left` : "";
      part("rate").textContent = sender && sender.paused ? "paused" : rate > 0 ? `${bytes(rate)}/s${left}` : "";
    }
  }

  transfer.querySelector("[data-pause]").addEventListener("click", (event) => {
    if (!sender) return;
    if (sender.paused) sender.resume();
    else sender.pause();
    event.target.textContent = sender.paused ? "Resume" : "Pause";
  });

  transfer.querySelector("[data-discard]").addEventListener("click", async () => {
    if (!sender) return;
    const sure = await window.Switchyard.confirmed("What has arrived is deleted.", "Discard this upload", true);
    if (!sure) return;
    await sender.discard();
    forget(sender.upload);
    window.location.reload();
  });

  // -- Checks ---------------------------------------------------------------------------------

  function watch(operation, upload) {
    forget(upload);
    transfer.hidden = true;
    outcome.hidden = false;
    document.getElementById("will-check").hidden = true;
    const [, , , , model, , number] = operation.target.split("/");
    outcome.querySelector("[data-outcome-hint]").textContent = `${decodeURIComponent(model)}, version ${number}`;
    document.getElementById("outcome-title").focus();
    const list = document.getElementById("outcome-list");
    const url = `/models/${model}/versions/${number}/checks/?outcome=1`;
    let timer = 0;
    let stop = () => {};
    async function refresh() {
      clearTimeout(timer);
      const response = await fetch(url, { credentials: "same-origin" });
      if (response.ok) list.innerHTML = await response.text();
      if (response.status === 286) {
        stop();
        const ready = Boolean(list.querySelector("[data-outcome=ready]"));
        document.getElementById("outcome-title").textContent = ready ? "Checked" : "Rejected";
        return;
      }
      timer = setTimeout(refresh, 2000); // in case live events do not get through
    }
    stop = window.SwitchyardLive.subscribe(`version:${decodeURIComponent(model)}/${number}`, () => {
      clearTimeout(timer);
      timer = setTimeout(refresh, 100);
    });
    refresh();
  }
})();
