// Lines over time, on canvases.
import {el, setText, clock} from "./format.js";

/** Makes the bitmap of a canvas as fine as the screen; returns its context, in CSS pixels. */
export function contextOf(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Rounds up to 1, 2 or 5 times a power of ten. */
export function niceMax(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= value * 0.999);
}

/** Draws the values of a ring from left (`seconds` before `end`) to right; gaps stay open. */
export function drawLine(context, ring, {end, seconds, width, height, max, dash = []}) {
  context.setLineDash(dash);
  context.beginPath();
  let open = false;
  for (let i = 0; i < seconds; ++i) {
    const value = ring.at(end - seconds + 1 + i);
    if (Number.isNaN(value)) { open = false; continue; }
    const x = i * width / (seconds - 1), y = height - 1 - Math.min(value / max, 1) * (height - 2);
    if (open) context.lineTo(x, y); else { context.moveTo(x, y); context.lineTo(x + 0.5, y); }
    open = true;
  }
  context.stroke();
}

/** A titled chart with one line per entry of `lines`: {name, label}. */
export class Chart {
  #canvas = el("canvas", {className: "chart"});
  #max = el("span", {className: "note"});
  #lines;
  #hover = null;  // x, 0 to 1

  constructor(parent, samples, {title, lines, text}) {
    this.samples = samples;
    this.text = text;
    this.#lines = lines.map(({name, label, dash}, i) => {
      const swatch = el("i", {className: "swatch line-" + i});
      const value = el("b");
      return {name, dash, swatch, value, entry: el("span", {}, swatch, label ? label + " " : "", value)};
    });
    const legend = el("div", {className: "legend"}, ...this.#lines.map((line) => line.entry));
    this.when = el("span", {className: "note"});
    const caption = el("figcaption", {}, el("span", {}, title, " ", this.when), this.#max);
    parent.append(el("figure", {className: "panel"}, caption, legend, this.#canvas));
    this.#canvas.setAttribute("aria-hidden", "true");  // the legend has the values
    this.#canvas.addEventListener("pointermove", (event) => {
      this.#hover = event.offsetX / this.#canvas.clientWidth;
      this.draw();
    });
    this.#canvas.addEventListener("pointerleave", () => {
      this.#hover = null;
      this.draw();
    });
  }

  draw() {
    const {end, daemon, window} = this.samples;
    const [width, height] = [this.#canvas.clientWidth, this.#canvas.clientHeight];
    if (!end || !width) return;
    const context = contextOf(this.#canvas, width, height);
    let top = 0;
    for (const {name} of this.#lines) {
      for (let second = end - window + 1; second <= end; ++second) top = Math.max(top, daemon[name].at(second) || 0);
    }
    const max = niceMax(top);
    setText(this.#max, this.text(max));
    const at = this.#hover === null ? end : end - window + 1 + Math.round(this.#hover * (window - 1));
    context.lineWidth = 1.5;
    for (const {name, dash, swatch, value} of this.#lines) {
      context.strokeStyle = getComputedStyle(swatch).color;
      drawLine(context, daemon[name], {end, seconds: window, width, height, max, dash});
      setText(value, this.text(daemon[name].at(at)));
    }
    setText(this.when, this.#hover === null ? "" : clock(at));
    if (this.#hover !== null) {
      context.fillStyle = getComputedStyle(this.#canvas).color;
      context.fillRect(this.#hover * width, 0, 1, height);
    }
  }
}
