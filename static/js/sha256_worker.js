// SHA-256 of a whole file, block by block, in a worker: the Web Crypto API needs the file in one
// piece, and is missing on plain http. Message in: a File. Messages out: {done: 0..1}, {hex}.
"use strict";

const K = new Uint32Array(64);
const START = new Uint32Array(8);
(function constants() {
  // The first 32 bits of the fractional parts of cube and square roots of primes.
  let found = 0;
  for (let number = 2; found < 64; number += 1) {
    let prime = true;
    for (let factor = 2; factor * factor <= number; factor += 1) {
      if (number % factor === 0) prime = false;
    }
    if (!prime) continue;
    if (found < 8) START[found] = (Math.sqrt(number) % 1) * 2 ** 32;
    K[found] = (Math.cbrt(number) % 1) * 2 ** 32;
    found += 1;
  }
})();

class Sha256 {
  constructor() {
    this.state = Uint32Array.from(START);
    this.words = new Uint32Array(64);
    this.rest = new Uint8Array(0);
    this.length = 0;
  }

  update(bytes) {
    this.length += bytes.length;
    let data = bytes;
    if (this.rest.length) {
      data = new Uint8Array(this.rest.length + bytes.length);
      data.set(this.rest);
      data.set(bytes, this.rest.length);
    }
    const whole = data.length - (data.length % 64);
    for (let at = 0; at < whole; at += 64) this.block(data, at);
    this.rest = data.slice(whole);
  }

  block(data, at) {
    const w = this.words;
    for (let i = 0; i < 16; i += 1) {
      const j = at + i * 4;
      w[i] = (data[j] << 24) | (data[j + 1] << 16) | (data[j + 2] << 8) | data[j + 3];
    }
    for (let i = 16; i < 64; i += 1) {
      const x = w[i - 15];
      const y = w[i - 2];
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16] + s0 + w[i - 7] + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = this.state;
    for (let i = 0; i < 64; i += 1) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    const state = this.state;
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
  }

  hex() {
    const bits = this.length * 8;
    const tail = new Uint8Array(this.rest.length < 56 ? 64 : 128);
    tail.set(this.rest);
    tail[this.rest.length] = 0x80;
    const view = new DataView(tail.buffer);
    view.setUint32(tail.length - 8, Math.floor(bits / 2 ** 32));
    view.setUint32(tail.length - 4, bits >>> 0);
    for (let at = 0; at < tail.length; at += 64) this.block(tail, at);
    return [...this.state].map((word) => word.toString(16).padStart(8, "0")).join("");
  }
}

const BLOCK = 4 * 1024 * 1024;

self.addEventListener("message", async (event) => {
  const file = event.data;
  const digest = new Sha256();
  try {
    for (let at = 0; at < file.size; at += BLOCK) {
      digest.update(new Uint8Array(await file.slice(at, at + BLOCK).arrayBuffer()));
      self.postMessage({ done: Math.min(1, (at + BLOCK) / file.size) });
    }
    self.postMessage({ hex: digest.hex() });
  } catch (error) {
    self.postMessage({ problem: String(error) });
  }
});
