// Backends by time, colored by one metric. Seconds without a value stay empty.
import {clock} from "./format.js";
import {contextOf, niceMax} from "./charts.js";
import {metrics} from "./samples.js";

// Viridis, which stays readable without color vision.
const stops = ["440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"]
  .map((hex) => [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)));

/** 256 colors as pixels of an ImageData. */
const colors = Uint32Array.from({length: 256}, (_, i) => {
  const place = i / 255 * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2), share = place - low;
  const [r, g, b] = stops[low].map((each, c) => Math.round(each + (stops[low + 1][c] - each) * share));
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
});

export function drawScale(canvas) {
  const image = new ImageData(256, 1);
  new Uint32Array(image.data.buffer).set(colors);
  canvas.width = 256;
  canvas.height = 1;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

const labelWidth = 180;
const maxCanvasHeight = 8192;  // pixels, as every browser can have

export class HeatMap {
  #cursor = null;  // {row, column} of the cell that is described
  #bitmap = document.createElement("canvas");
  #due = false;  // a frame is asked for
  keys = [];

  /** `describe` gets the text of the cell under the cursor; `scaled` the largest value of the scale. */
  constructor(canvas, samples, {describe, scaled}) {
    this.canvas = canvas;
    this.samples = samples;
    this.describe = describe;
    this.scaled = scaled;
    canvas.addEventListener("pointermove", (event) => {
      const left = this.#left();
      const column = Math.floor((event.offsetX - left) / (canvas.clientWidth - left) * samples.window);
      this.#move(Math.floor(event.offsetY / this.#rowHeight()), column);
    });
    canvas.addEventListener("pointerleave", () => this.#move(-1, -1));
    canvas.addEventListener("keydown", (event) => {
      const length = samples.window;
      const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -5], ArrowRight: [0, 5], Home: [0, -length], End: [0, length]}[event.key];
      if (!step) return;
      event.preventDefault();
      const {row, column} = this.#cursor ?? {row: 0, column: length - 1};
      const limit = (value, max) => Math.max(0, Math.min(max, value));
      this.#move(limit(row + step[0], this.keys.length - 1), limit(column + step[1], length - 1));
      this.canvas.parentElement.scrollTop = Math.max(0, this.#cursor.row * this.#rowHeight() - 200);
    });
  }

  #rowHeight() {
    const rows = Math.max(1, this.keys.length);
    const wanted = Math.max(3, Math.min(20, Math.floor(360 / rows)));
    return Math.min(wanted, maxCanvasHeight / (devicePixelRatio || 1) / rows);
  }
  #left() { return this.#rowHeight() >= 12 ? Math.min(labelWidth, 0.35 * this.canvas.parentElement.clientWidth) : 0; }

  #move(row, column) {
    const inside = row >= 0 && row < this.keys.length && column >= 0 && column < this.samples.window;
    this.#cursor = inside ? {row, column} : null;
    this.describe(inside ? this.#description() : "");
    this.draw();
  }

  #description() {
    const {samples, keys} = this, {row, column} = this.#cursor;
    const second = samples.end - samples.window + 1 + column;
    const [pool, id] = keys[row].split("\n");
    const value = samples.ring(keys[row]).at(second);
    return `${pool} / ${id}, ${clock(second)}: ${Number.isNaN(value) ? "no value" : metrics[samples.metric].text(value)}`;
  }

  /** Draws with the next frame, however often it is called before. */
  draw() {
    if (!this.#due) requestAnimationFrame(() => { this.#due = false; this.#paint(); });
    this.#due = true;
  }

  #paint() {
    const {samples, keys, canvas} = this;
    const width = canvas.parentElement.clientWidth, rowHeight = this.#rowHeight(), left = this.#left();
    const height = Math.max(1, keys.length * rowHeight);
    if (!samples.end || !width) return;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    const length = samples.window, begin = samples.end - length + 1;
    const rings = keys.map((key) => samples.ring(key));
    const {max: fixed} = metrics[samples.metric];
    let top = 0;
    if (!fixed) for (const ring of rings) for (let i = 0; i < length; ++i) top = Math.max(top, ring.at(begin + i) || 0);
    const max = fixed ?? niceMax(top);
    this.scaled(max);

    const image = new ImageData(length, Math.max(1, keys.length));
    const pixels = new Uint32Array(image.data.buffer);
    rings.forEach((ring, row) => {
      for (let i = 0; i < length; ++i) {
        const value = ring.at(begin + i);
        if (!Number.isNaN(value)) pixels[row * length + i] = colors[Math.max(0, Math.min(255, Math.round(value / max * 255)))];
      }
    });
    this.#bitmap.width = image.width;
    this.#bitmap.height = image.height;
    this.#bitmap.getContext("2d").putImageData(image, 0, 0);
    const context = contextOf(canvas, width, height);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.#bitmap, left, 0, width - left, height);
    context.fillStyle = context.strokeStyle = getComputedStyle(canvas).color;
    if (left) {
      context.font = "12px system-ui, sans-serif";
      context.textBaseline = "middle";
      keys.forEach((key, row) => context.fillText(key.split("\n")[1], 2, (row + 0.5) * rowHeight, left - 8));
    }
    if (this.#cursor) {
      const {row, column} = this.#cursor;
      const x = left + column / length * (width - left);
      context.fillRect(x, 0, 1, height);
      context.strokeRect(left + 0.5, row * rowHeight + 0.5, width - left - 1, rowHeight - 1);
    }
  }
}
