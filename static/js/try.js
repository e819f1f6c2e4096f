// "Try it": a picture becomes the inputs of a v2 request, in the browser.
(function () {
  "use strict";

  for (const zone of document.querySelectorAll("[data-picture]")) {
    const file = zone.querySelector("input[type=file]");
    const form = zone.closest("form");
    const choose = () => file.click();
    zone.addEventListener("click", (event) => {
      if (event.target !== file) choose();
    });
    zone.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose();
      }
    });
    zone.addEventListener("dragover", (event) => {
      event.preventDefault();
      zone.classList.add("over");
    });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      if (event.dataTransfer.files.length) show(zone, form, event.dataTransfer.files[0]);
    });
    file.addEventListener("change", () => {
      if (file.files.length) show(zone, form, file.files[0]);
    });
  }

  // A box for each input: what is typed there goes into the request below.
  for (const fields of document.querySelectorAll("[data-try-fields]")) {
    const text = fields.closest("form").querySelector("textarea[name=inputs]");
    fields.addEventListener("input", (event) => {
      const index = Number(event.target.dataset.tryField);
      let entries;
      try {
        entries = JSON.parse(text.value);
      } catch {
        return; // the request was edited by hand and is not JSON now
      }
      if (!Array.isArray(entries) || !entries[index]) return;
      const entry = entries[index];
      entry.data = typed(event.target.value, entry);
      text.value = JSON.stringify(entries, null, 2);
    });
  }

  function typed(value, entry) {
    const count = entry.shape.reduce((product, size) => product * size, 1);
    if (entry.datatype === "BYTES") {
      return count === 1 ? [value] : value.split(",").map((word) => word.trim());
    }
    const words = value.split(",").map((word) => word.trim());
    if (entry.datatype === "BOOL") return words.map((word) => word === "true" || word === "1");
    return words.filter((word) => word !== "").map(Number);
  }

  async function show(zone, form, chosen) {
    let picture;
    try {
      picture = await createImageBitmap(chosen);
    } catch {
      window.Switchyard.toast("This file is not a picture the browser can read.", "bad");
      return;
    }
    const height = Number(zone.dataset.height);
    const width = Number(zone.dataset.width);
    const canvas = zone.querySelector("canvas");
    canvas.width = width;
    canvas.height = height;
    canvas.hidden = false;
    const context = canvas.getContext("2d", { willReadFrequently: true });
    // Short side to 8/7 of the target, then the centre: what picture classifiers are tested with.
    const ratio = Math.max(width / picture.width, height / picture.height) * (256 / 224);
    const w = picture.width * ratio;
    const h = picture.height * ratio;
    context.imageSmoothingQuality = "high";
    context.drawImage(picture, (width - w) / 2, (height - h) / 2, w, h);
    const pixels = context.getImageData(0, 0, width, height).data;
    const mean = Number(form.querySelector("[data-picture-mean]").value);
    const scale = Number(form.querySelector("[data-picture-scale]").value) || 1;
    const data = new Array(3 * height * width);
    for (let i = 0; i < height * width; i += 1) {
      for (let channel = 0; channel < 3; channel += 1) {
        const value = (pixels[4 * i + channel] - mean) / scale;
        data[channel * height * width + i] = Math.round(value * 1e5) / 1e5; // short to send
      }
    }
    const entry = { name: zone.dataset.picture, datatype: "FP32", shape: [1, 3, height, width], data };
    form.querySelector("textarea[name=inputs]").value = JSON.stringify([entry]);
    form.requestSubmit();
  }
})();
