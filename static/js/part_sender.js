// Sends a file in parts, several at a time: pauses, retries, resumes. Knows the API, not the page.
//
//   const sender = new SwitchyardPartSender({ upload, file, csrf, digestUrl, told });
//   const operation = await sender.run();   told({sent, note}) is called along the way
(function () {
  "use strict";

  const API = "/api/v1";
  const AT_ONCE = 3;
  const LONGEST_WAIT_MS = 30000;

  class Problem extends Error {
    constructor(status, body) {
      super(body.detail || `The server answered ${status}.`);
      this.status = status;
      this.reason = body.reason || "";
      this.fix = body.help || "";
    }
  }

  async function call(method, path, csrf, body) {
    const response = await fetch(`${API}${path}`, {
      method,
      credentials: "same-origin",
      headers: { "X-CSRFToken": csrf, "Content-Type": "application/json", Accept: "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    let parsed = {};
    try {
      parsed = text ? JSON.parse(text) : {};
    } catch {
      parsed = {};
    }
    if (!response.ok) throw new Problem(response.status, parsed);
    return parsed;
  }

  function canDigest() {
    return Boolean(window.crypto && crypto.subtle);
  }

  async function hexOf(blob) {
    if (!canDigest()) return "";
    const digest = await crypto.subtle.digest("SHA-256", await blob.arrayBuffer());
    return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  class PartSender {
    constructor({ upload, file, csrf, digestUrl, told }) {
      this.upload = upload;
      this.file = file;
      this.csrf = csrf;
      this.told = told;
      this.paused = false;
      this.discarded = false;
      this.sent = upload.received_bytes;
      this.underway = new Map(); // part number → bytes sent so far
      this.requests = new Set();
      this.wake = () => {};
      // Each part carries its digest where the browser can compute one; where it cannot (plain http
      // to another machine), the whole file's digest is computed in a worker instead.
      this.stopHashing = () => {};
      this.digest = canDigest() ? Promise.resolve("") : this.hashFile(digestUrl);
    }

    hashFile(url) {
      return new Promise((resolve) => {
        const worker = new Worker(url);
        this.stopHashing = () => worker.terminate();
        worker.addEventListener("message", (event) => {
          if ("hex" in event.data || "problem" in event.data) {
            worker.terminate();
            resolve(event.data.hex || "");
          }
        });
        worker.addEventListener("error", () => resolve(""));
        worker.postMessage(this.file);
      });
    }

    async run() {
      let missing = this.upload.missing_parts;
      while (missing.length && !this.discarded) {
        await this.sendAll([...missing]);
        if (this.discarded) return null;
        const seen = await this.patiently(() => call("GET", `/uploads/${this.upload.id}`, this.csrf));
        this.sent = seen.received_bytes;
        missing = seen.missing_parts;
      }
      if (this.discarded) return null;
      if (!canDigest()) this.tell("Computing the digest of the whole file…");
      const sha256 = await this.digest;
      if (this.discarded) return null;
      this.tell("Handing over to the checks…");
      return this.patiently(() =>
        call("POST", `/uploads/${this.upload.id}:complete`, this.csrf, { sha256 }),
      );
    }

    async sendAll(queue) {
      const lane = async () => {
        while (queue.length && !this.discarded) {
          await this.whilePaused();
          if (this.discarded) return;
          const number = queue.shift();
          if (number !== undefined) await this.patiently(() => this.sendPart(number));
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, lane));
    }

    async sendPart(number) {
      const start = (number - 1) * this.upload.part_size;
      const blob = this.file.slice(start, Math.min(start + this.upload.part_size, this.file.size));
      const sha256 = await hexOf(blob);
      await this.whilePaused();
      if (this.discarded) return;
      await this.put(number, blob, sha256);
      this.sent += blob.size;
    }

    put(number, blob, sha256) {
      return new Promise((resolve, reject) => {
        const request = new XMLHttpRequest(); // fetch does not tell how much of a body has gone
        this.requests.add(request);
        const over = (settle) => {
          this.requests.delete(request);
          this.underway.delete(number);
          settle();
        };
        request.open("PUT", `${API}/uploads/${this.upload.id}/parts/${number}`);
        request.setRequestHeader("X-CSRFToken", this.csrf);
        request.setRequestHeader("Content-Type", "application/octet-stream");
        if (sha256) request.setRequestHeader("X-Part-SHA256", sha256);
        request.upload.addEventListener("progress", (event) => {
          this.underway.set(number, event.loaded);
          this.tell("");
        });
        request.addEventListener("load", () => {
          if (request.status >= 200 && request.status < 300) return over(resolve);
          let body = {};
          try {
            body = JSON.parse(request.responseText);
          } catch {
            body = {};
          }
          return over(() => reject(new Problem(request.status, body)));
        });
        request.addEventListener("error", () => over(() => reject(new Problem(0, {}))));
        request.addEventListener("abort", () => over(() => reject(new Problem(-1, {}))));
        request.send(blob);
      });
    }

    // Tries again for as long as the failure can pass by itself: no network, server restarting,
    // a part damaged on the way.
    async patiently(attempt) {
      for (let failures = 0; ; failures += 1) {
        await this.whilePaused();
        if (this.discarded) return null;
        try {
          return await attempt();
        } catch (problem) {
          const status = problem instanceof Problem ? problem.status : 0;
          if (status === -1) continue; // paused or discarded
          const passing =
            status === 0 || status >= 500 || status === 429 || problem.reason === "PART_DIGEST_MISMATCH" || problem.reason === "PART_TOO_SHORT";
          if (!passing || (status !== 0 && failures >= 8)) throw problem;
          const wait = Math.min(LONGEST_WAIT_MS, 1000 * 2 ** Math.min(failures, 5));
          this.tell(`Connection interrupted; trying again in ${Math.round(wait / 1000)} s.`);
          await new Promise((resolve) => setTimeout(resolve, wait));
        }
      }
    }

    async whilePaused() {
      while (this.paused && !this.discarded) {
        await new Promise((resolve) => (this.wake = resolve));
      }
    }

    pause() {
      this.paused = true;
      for (const request of [...this.requests]) request.abort();
      this.tell("Paused. What arrived is kept.");
    }

    resume() {
      this.paused = false;
      this.wake();
      this.tell("");
    }

    async discard() {
      this.discarded = true;
      this.stopHashing();
      for (const request of [...this.requests]) request.abort();
      this.wake();
      await call("DELETE", `/uploads/${this.upload.id}`, this.csrf);
    }

    tell(note) {
      const underway = [...this.underway.values()].reduce((sum, bytes) => sum + bytes, 0);
      this.told({ sent: Math.min(this.file.size, this.sent + underway), note });
    }
  }

  window.SwitchyardPartSender = PartSender;
  window.SwitchyardUploadApi = { call, hexOf };
})();
