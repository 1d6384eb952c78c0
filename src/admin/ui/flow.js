// Requests on their way: from clients through the queue of a pool to a backend. A dot is a sample of the requests that
// the last second's changes tell of; nothing is asked of the daemon for it.
import {keyOf} from "./live.js";
import {count, el, setText} from "./format.js";
import {contextOf} from "./charts.js";

const maxDots = 60;          // that begin in a second
const maxRows = 16;          // backends; those of a pool that find no place share a row
const maxPools = 6;
const reselectAfter = 10;    // seconds that the rows stay, where there are more backends than rows
const [rowHeight, top] = [26, 22];
const [toQueue, toBackend, maxQueued] = [600, 700, 3000];  // ms of a dot's way
const still = matchMedia("(prefers-reduced-motion: reduce)");

const busiest = (list, rate, size) =>
  list.map((each, i) => ({each, i})).sort((a, b) => (rate(b.each) ?? 0) - (rate(a.each) ?? 0) || a.i - b.i)
    .slice(0, size).sort((a, b) => a.i - b.i).map(({each}) => each);
/** How many rows each pool gets, by how many backends it has: what small ones leave is for the others. */
function rowsOf(counts) {
  const rows = [];
  let left = maxRows;
  [...counts.keys()].sort((a, b) => counts[a] - counts[b]).forEach((i, done) => {
    rows[i] = Math.max(1, Math.min(counts[i], Math.floor(left / (counts.length - done))));
    left -= rows[i];
  });
  return rows;
}

/** The text, or as much of it as has room. */
function fitting(context, text, width) {
  let shown = text;
  while (shown.length > 2 && context.measureText(shown).width > width) shown = shown.slice(0, -2) + "…";
  return shown;
}

const sum = (list, of) => list.reduce((total, each) => total + (of(each) || 0), 0);
const kindOf = (state) => state === "up" ? "up" : ["draining", "starting"].includes(state) ? "changing" : "out";

export class Flow {
  #rows = [];      // {pool, keys, label, kind, rate, errors, inFlight, credit, failed}
  #pools = [];     // {name, rate, waiting, held}
  #dots = [];      // {row, age, held, failed}
  #chosen = null;  // keys by row, and until when they stay
  #scale = 1;      // dots by request
  #last = 0;
  #frame = 0;
  #paused = false;
  #stale = false;
  #inView = false;

  constructor({canvas, legend, note, pause, details, table}) {
    Object.assign(this, {canvas, note, pause, details, table});
    this.swatches = Object.fromEntries(["up", "changing", "out"].map((kind) => [kind, legend.querySelector("." + kind)]));
    pause.addEventListener("click", () => {
      this.#paused = !this.#paused;
      setText(pause, this.#paused ? "Go on" : "Pause");
      this.draw();
    });
    details.addEventListener("toggle", () => this.#fillTable());
    still.addEventListener("change", () => this.#adapt());
    new IntersectionObserver(([entry]) => {
      this.#inView = entry.isIntersecting;
      this.draw();
    }).observe(canvas);
    this.#adapt();
  }

  /** Takes the rates of the last second. */
  update(state) {
    this.#stale = false;
    this.#choose(state);
    const before = new Map(this.#rows.map((row) => [row.pool + "\n" + row.label, row]));
    this.#rows = this.#chosen.rows.map(({pool, keys, label}) => {
      const backends = keys.map((key) => state.backends.get(key)).filter((each) => each);
      const {credit = Math.random(), failed = 0} = before.get(pool + "\n" + label) ?? {};
      const kinds = new Set(backends.map((each) => kindOf(each.state)));
      return {pool, keys, label, credit, failed, kind: kinds.size === 1 ? [...kinds][0] : "up",
        state: backends.length === 1 ? backends[0].state : `${backends.filter((each) => each.state === "up").length} up`,
        rate: sum(backends, (each) => each.picksPerSecond), errors: sum(backends, (each) => each.errorsPerSecond),
        inFlight: sum(backends, (each) => each.in_flight)};
    });
    this.#pools = this.#chosen.pools.map((name) => {
      const rate = sum(this.#rows.filter((row) => row.pool === name), (row) => row.rate);
      const waiting = state.pools.get(name)?.waiting ?? 0;
      // Little's law: how long each waits is how many wait, divided by how many begin in a second.
      return {name, rate, waiting, held: waiting ? Math.min(maxQueued, 1000 * waiting / Math.max(rate, 0.1)) : 0};
    });
    const total = sum(this.#rows, (row) => row.rate);
    this.#scale = Math.min(1, maxDots / Math.max(total, 1));
    this.#describe(total);
    this.#fillTable();
    this.canvas.style.height = this.#height() + "px";  // also out of view: what is below must not jump when it comes in
    this.draw();
  }

  #height() { return top + this.#rows.length * rowHeight + 6; }

  /** No dot begins any more until the next update: what happens is not known. */
  stop() {
    this.#stale = true;
  }

  draw() {
    if (!this.#inView || document.hidden) return;
    if (this.#paused || still.matches) this.#paint();
    else if (!this.#frame) this.#frame = requestAnimationFrame((now) => this.#next(now));
  }

  #adapt() {
    this.pause.hidden = still.matches;
    this.details.open = still.matches;
    this.#dots = [];
    this.draw();
  }

  /** Chooses what has a row of its own. The rows stay for a while, so that they can be watched. */
  #choose(state) {
    const signature = [...state.backends.keys()].join("\n");
    const now = state.overview.second ?? 0;
    if (this.#chosen?.signature === signature && (!this.#chosen.until || now < this.#chosen.until)) return;
    const byPool = Map.groupBy(state.backends.values(), (each) => each.pool);
    const rateOf = (name) => sum(byPool.get(name) ?? [], (each) => each.picksPerSecond);
    const pools = busiest([...state.pools.keys()], rateOf, maxPools);
    const sizes = rowsOf(pools.map((pool) => byPool.get(pool)?.length ?? 0));
    const rows = pools.flatMap((pool, i) => {
      const backends = byPool.get(pool) ?? [], size = sizes[i];
      const own = backends.length <= size ? backends : busiest(backends, (each) => each.picksPerSecond, size - 1);
      const others = backends.filter((each) => !own.includes(each));
      const rowsOfPool = own.map((each) => ({pool, keys: [keyOf(each)], label: each.id}));
      if (others.length) rowsOfPool.push({pool, keys: others.map(keyOf), label: `${others.length} ${own.length ? "others" : "backends"}`});
      return rowsOfPool;
    });
    const partial = pools.length < state.pools.size || rows.some(({keys}) => keys.length > 1);
    const same = this.#chosen?.rows.map((row) => row.label).join("\n") === rows.map((row) => row.label).join("\n");
    if (!same) this.#dots = [];
    this.#chosen = {rows, pools, signature, hidden: state.pools.size - pools.length, until: partial ? now + reselectAfter : 0};
  }

  #describe(total) {
    const one = this.#scale === 1 ? "one request" : `${count(Math.max(2, Math.round(1 / this.#scale)))} requests`;
    const {hidden} = this.#chosen;
    setText(this.note, (still.matches ? "" : `a dot is ${one}; `) + `${count(total)} requests per second` +
      (hidden ? `; the ${maxPools} busiest pools of ${maxPools + hidden}` : ""));
    const pools = this.#pools.map(({name, rate, waiting}) => `${name}: ${count(rate)} requests per second, ${count(waiting)} waiting`);
    this.canvas.setAttribute("aria-label", "Requests from clients to backends. " + pools.join("; ") + ". The table below has all rates.");
  }

  #fillTable() {
    if (!this.details.open) return;
    const titles = ["Pool", "Waiting", "Backend", "State", "Requests/s", "Errors/s", "In flight"];
    const waiting = new Map(this.#pools.map((pool) => [pool.name, pool.waiting]));
    const rows = this.#rows.map((row) => el("tr", {},
      el("td", {}, row.pool), el("td", {className: "n"}, count(waiting.get(row.pool))), el("td", {}, row.label), el("td", {}, row.state),
      ...[row.rate, row.errors, row.inFlight].map((value) => el("td", {className: "n"}, count(value)))));
    this.table.replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, ...titles.map((title, i) => el("th", {scope: "col", className: i === 1 || i > 3 ? "n" : ""}, title)))),
      el("tbody", {}, ...rows)));
  }

  #next(now) {
    this.#frame = 0;
    const passed = Math.min(now - this.#last, 100);
    this.#last = now;
    if (!this.#stale) this.#begin(passed);
    const held = new Map(this.#pools.map((pool) => [pool.name, pool.held]));
    for (const dot of this.#dots) dot.age += passed;
    // A dot leaves the queue when those that wait now have left it, also if it came when more did.
    this.#dots = this.#dots.filter((dot) => {
      dot.held = Math.min(dot.held, held.get(this.#rows[dot.row]?.pool) ?? 0);
      return dot.row < this.#rows.length && dot.age < toQueue + dot.held + toBackend;
    });
    this.#paint();
    this.draw();
  }

  #begin(passed) {
    this.#rows.forEach((row, i) => {
      row.credit += row.rate * this.#scale * passed / 1000;
      for (; row.credit >= 1; --row.credit) {
        row.failed += Math.min(1, row.errors / row.rate);
        const failed = row.failed >= 1;
        if (failed) --row.failed;
        const {held} = this.#pools.find((pool) => pool.name === row.pool);
        this.#dots.push({row: i, age: 0, held: held * (0.5 + Math.random() / 2), failed});
      }
    });
  }

  #paint() {
    const {canvas} = this, width = canvas.parentElement.clientWidth;
    if (!width || !this.#rows.length) return;
    const height = this.#height();
    canvas.style.width = width + "px";
    const context = contextOf(canvas, width, height);
    const colors = {text: getComputedStyle(canvas).color, back: getComputedStyle(canvas.parentElement).backgroundColor};
    for (const [kind, swatch] of Object.entries(this.swatches)) colors[kind] = getComputedStyle(swatch).backgroundColor;
    const color = (name) => colors[name];
    const narrow = width < 620;
    const places = {client: narrow ? 14 : 70, queue: Math.round(width * (narrow ? 0.28 : 0.4)), backend: width - (narrow ? 170 : 300)};
    const rowY = (i) => top + (i + 0.5) * rowHeight;
    const queueY = new Map(this.#pools.map(({name}) => {
      const own = this.#rows.map((row, i) => row.pool === name ? rowY(i) : null).filter((y) => y !== null);
      return [name, own.length ? (own[0] + own.at(-1)) / 2 : top];
    }));
    const clientY = top + this.#rows.length * rowHeight / 2;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.#paintWays(context, {places, rowY, queueY, clientY, color});
    this.#paintNodes(context, {places, rowY, queueY, clientY, color, width, narrow});
    for (const dot of this.#dots) this.#paintDot(context, dot, {places, rowY, queueY, clientY, color});
  }

  #paintWays(context, {places, rowY, queueY, clientY, color}) {
    const most = Math.max(1, ...this.#pools.map(({rate}) => rate));
    const way = (fromX, fromY, toX, toY, rate) => {
      context.lineWidth = rate > 0 ? 1 + 5 * Math.sqrt(rate / most) : 1;
      context.setLineDash(rate > 0 ? [] : [3, 4]);
      context.beginPath();
      context.moveTo(fromX, fromY);
      const middle = (fromX + toX) / 2;
      context.bezierCurveTo(middle, fromY, middle, toY, toX, toY);
      context.stroke();
    };
    context.strokeStyle = color("text");
    context.globalAlpha = 0.25;
    for (const {name, rate} of this.#pools) way(places.client, clientY, places.queue, queueY.get(name), rate);
    this.#rows.forEach((row, i) => way(places.queue, queueY.get(row.pool), places.backend, rowY(i), row.rate));
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  #paintNodes(context, {places, rowY, queueY, clientY, color, width, narrow}) {
    const text = (value, x, y, limit) => context.fillText(value, x, y, limit);
    context.fillStyle = color("text");
    context.textAlign = "left";
    text("clients", narrow ? 4 : 12, 9);
    text(narrow ? "queue" : "pool and its queue", places.queue - 30, 9);
    text("backend: state, requests/s" + (narrow ? "" : ", in flight"), places.backend - (narrow ? 20 : 0), 9, width - places.backend + 20);
    context.beginPath();
    context.arc(places.client, clientY, 6, 0, 7);
    context.fill();
    for (const {name, waiting} of this.#pools) {
      const y = queueY.get(name);
      context.fillStyle = color(waiting ? "changing" : "text");
      context.fillRect(places.queue - 3, y - 10, 6, 20);
      context.textAlign = "center";
      const label = fitting(context, name, narrow ? 70 : 220) + (waiting ? `: ${count(waiting)} waiting` : "");
      context.lineWidth = 4;
      context.strokeStyle = color("back");
      context.strokeText(label, places.queue, y - 17);  // keeps it readable before ways
      text(label, places.queue, y - 17);
    }
    context.textAlign = "left";
    this.#rows.forEach((row, i) => {
      context.fillStyle = color(row.kind);
      context.fillRect(places.backend - 4, rowY(i) - 5, 8, 10);
      context.fillStyle = color("text");
      const what = row.state === "up" ? "" : ` ${row.state},`;
      const more = narrow ? "" : `, ${count(row.inFlight)} in flight`;
      text(`${row.label}:${what} ${count(row.rate)}/s${more}`, places.backend + 9, rowY(i), width - places.backend - 11);
    });
  }

  #paintDot(context, dot, {places, rowY, queueY, clientY, color}) {
    const row = this.#rows[dot.row], y = queueY.get(row.pool);
    const between = (fromX, fromY, toX, toY, share) => {
      // The curve of the way: a cubic Bézier with both handles in the middle.
      const [x, y] = [1.5 * share * (1 - share) + share ** 3, share * share * (3 - 2 * share)];
      return [fromX + (toX - fromX) * x, fromY + (toY - fromY) * y];
    };
    let place;
    if (dot.age < toQueue) place = between(places.client, clientY, places.queue, y, dot.age / toQueue);
    else if (dot.age < toQueue + dot.held) place = [places.queue - 8 - 14 * (1 - (dot.age - toQueue) / dot.held), y];
    else place = between(places.queue, y, places.backend, rowY(dot.row), (dot.age - toQueue - dot.held) / toBackend);
    context.fillStyle = color(dot.failed ? "out" : row.kind);
    if (dot.failed) {
      context.fillRect(place[0] - 4, place[1] - 4, 8, 8);
    } else {
      context.beginPath();
      context.arc(place[0], place[1], 3.5, 0, 7);
      context.fill();
    }
  }
}
