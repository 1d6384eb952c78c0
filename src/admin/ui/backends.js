// The table of backends, of which only the rows in view exist, and the card of one of them.
import {ask, keyOf} from "./live.js";
import {bytes, count, el, inUse, percent, period, seconds, setText, span} from "./format.js";
import {contextOf, drawLine, niceMax} from "./charts.js";
import {metrics} from "./samples.js";

const rowHeight = 30;
const maxSparkSeconds = 300;

const labelsOf = (backend) => Object.entries(backend.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");

/** The columns: `text` shows a backend, `by` sorts it (largest first for numbers). */
const columns = [
  {title: "State", text: (b) => b.state, by: (b) => b.state},
  {title: "Pool", text: (b) => b.pool, by: (b) => b.pool},
  {title: "Backend", by: (b) => b.id},
  {title: "For", text: (b) => span(b.ageSeconds), by: (b) => b.ageSeconds, number: true},
  {title: "In flight", text: (b) => count(b.in_flight), by: (b) => b.in_flight, number: true},
  {title: "Waiting", text: (b) => count(b.waiting), by: (b) => b.waiting, number: true},
  {title: "KV", text: (b) => percent(b.polled?.kv_cache_ratio), by: (b) => b.polled?.kv_cache_ratio, number: true},
  {title: "GPU", text: (b) => percent(b.polled?.gpu_utilization_ratio), by: (b) => b.polled?.gpu_utilization_ratio, number: true},
  {title: "TTFT", text: (b) => seconds(b.latency?.ttft_seconds), by: (b) => b.latency?.ttft_seconds, number: true},
  {title: "TPOT", text: (b) => seconds(b.latency?.tpot_seconds), by: (b) => b.latency?.tpot_seconds, number: true},
  {title: "Picks/s", text: (b) => count(b.picksPerSecond), by: (b) => b.picksPerSecond, number: true},
  {title: "Errors", text: (b) => count(b.errors_total), by: (b) => b.errors_total, number: true},
  {title: "Trend", className: "spark"},
  {title: "Why", text: (b) => b.reason ?? "", by: (b) => b.reason ?? "", className: "why"},
  {title: "", className: "action"},
];
const [backendColumn, sparkColumn, actionColumn] = [2, 12, 14];

function change(backend, action, body) {
  const path = `/api/v1/backends/${encodeURIComponent(backend.id)}/${action}?pool=${encodeURIComponent(backend.pool)}`;
  return ask(path, {method: "POST", body});
}

export class BackendTable {
  mayChange = false;
  #rows = [];
  #order = [];   // keys, as shown
  #sort = null;  // {column, descending}
  #filter = "";
  #selected = null;
  #busy = new Set();  // keys of backends that are being drained or undrained

  /** `failed` gets what went wrong with a change, or ""; `counted` how many are shown, and how many there are. */
  constructor({table, card, samples, failed, counted}) {
    Object.assign(this, {card, samples, failed, counted});
    this.scroll = table;
    this.#makeTable();
    this.scroll.addEventListener("scroll", () => requestAnimationFrame(() => this.#fill()));
    new ResizeObserver(() => this.#fill()).observe(table);
  }

  set filter(text) {
    this.#filter = text.trim().toLowerCase();
    this.scroll.scrollTop = 0;
    this.update(this.state, true);
  }

  /** Orders and fills the table again. The order stays while the pointer or the keyboard's focus is in it, so that no
   *  click hits another backend than the one that was aimed at. */
  update(state, now = false) {
    this.state = state;
    if (!state) return;
    this.#reorder(!now && inUse(this.body));
    this.#fill();
    this.#fillCard();
  }

  #makeTable() {
    this.headers = columns.map(({title, by, number, className = ""}, i) => {
      const content = by ? el("button", {type: "button", onclick: () => this.#sortBy(i)}, title) : title;
      return el("th", {scope: "col", className: number ? "n" : className}, content);
    });
    this.above = el("td", {colspan: columns.length});
    this.below = el("td", {colspan: columns.length});
    this.bottom = el("tr", {"aria-hidden": "true"}, this.below);
    this.body = el("tbody", {}, el("tr", {"aria-hidden": "true"}, this.above), this.bottom);
    this.table = el("table", {}, el("thead", {}, el("tr", {}, ...this.headers)), this.body);
    this.scroll.append(this.table);
  }

  #sortBy(column) {
    const again = this.#sort?.column === column;
    const descending = again ? !this.#sort.descending : Boolean(columns[column].number);
    this.#sort = {column, descending};
    this.headers.forEach((header) => header.removeAttribute("aria-sort"));
    this.headers[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    this.update(this.state, true);
  }

  #matches(backend) {
    const text = [backend.pool, backend.id, backend.state, backend.reason, labelsOf(backend), ...(backend.models ?? [])].join(" ");
    return text.toLowerCase().includes(this.#filter);
  }

  /** `stays`: what is shown keeps its order, and what is new comes after it. */
  #reorder(stays) {
    const {backends} = this.state;
    const places = new Map(stays ? this.#order.map((key, i) => [key, i]) : []);
    const place = (backend) => places.get(keyOf(backend)) ?? places.size;
    let list = [...backends.values()];
    if (this.#filter) list = list.filter((each) => place(each) < places.size || this.#matches(each));
    if (stays) {
      list.sort((a, b) => place(a) - place(b));
    } else if (this.#sort) {
      const {by, number} = columns[this.#sort.column], sign = this.#sort.descending ? -1 : 1;
      const value = (backend) => by(backend) ?? (number ? -Infinity : "");
      list.sort((a, b) => sign * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0));
    }
    this.#order = list.map(keyOf);
    this.counted(list.length, backends.size);
  }

  #makeRow() {
    const cells = columns.map(({number, className = ""}) => el("td", {className: number ? "n" : className}));
    const row = {cells, element: el("tr", {}, ...cells), key: null};
    row.name = el("button", {type: "button", className: "name", onclick: () => this.#select(row.key)});
    row.labels = el("span", {className: "note"});
    cells[backendColumn].append(row.name, row.labels);
    row.spark = el("canvas");
    row.spark.setAttribute("aria-hidden", "true");
    cells[sparkColumn].append(row.spark);
    row.action = el("button", {type: "button", onclick: () => this.#toggle(row)});
    cells[actionColumn].append(row.action);
    return row;
  }

  /** Makes as many rows as there are in view, and shows the backends that are due there. */
  #fill() {
    if (!this.state) return;
    const total = this.#order.length;
    const visible = Math.ceil(this.scroll.clientHeight / rowHeight) + 4;
    const first = Math.max(0, Math.min(Math.floor(this.scroll.scrollTop / rowHeight) - 2, total - visible));
    const shown = Math.min(visible, total - first);
    while (this.#rows.length < shown) {
      const row = this.#makeRow();
      this.#rows.push(row);
      this.bottom.before(row.element);
    }
    while (this.#rows.length > shown) this.#rows.pop().element.remove();
    this.above.style.height = first * rowHeight + "px";
    this.below.style.height = (total - first - shown) * rowHeight + "px";
    this.table.setAttribute("aria-rowcount", String(total + 1));
    this.#rows.forEach((row, i) => this.#show(row, this.#order[first + i], first + i));
  }

  #show(row, key, index) {
    const backend = this.state.backends.get(key);
    if (row.key !== key && row.element.contains(document.activeElement)) document.activeElement.blur();
    row.key = key;
    row.element.setAttribute("aria-rowindex", String(index + 2));
    row.element.hidden = !backend;
    if (!backend) return;
    row.element.className = "state-" + (/^[a-z]+$/.test(backend.state) ? backend.state : "unknown");
    columns.forEach(({text}, i) => { if (text) setText(row.cells[i], text(backend)); });
    row.cells[columns.length - 2].title = backend.reason ?? "";
    setText(row.name, backend.id);
    row.name.setAttribute("aria-expanded", String(key === this.#selected));
    setText(row.labels, " " + labelsOf(backend));
    const drained = backend.state === "draining";
    row.action.hidden = !this.mayChange;
    row.action.disabled = this.#busy.has(key);
    setText(row.action, drained ? "Undrain" : "Drain");
    row.action.setAttribute("aria-label", `${drained ? "Undrain" : "Drain"} ${backend.id} of pool ${backend.pool}`);
    this.#drawSpark(row.spark, key, 90, 20);
  }

  #drawSpark(canvas, key, width, height) {
    const {end, window} = this.samples, ring = this.samples.ring(key), seconds = Math.min(window, maxSparkSeconds);
    const context = contextOf(canvas, width, height);
    let top = 0;
    for (let second = end - seconds + 1; second <= end; ++second) top = Math.max(top, ring.at(second) || 0);
    context.strokeStyle = getComputedStyle(canvas).color;
    drawLine(context, ring, {end, seconds, width, height, max: metrics[this.samples.metric].max ?? niceMax(top)});
  }

  async #toggle(row) {
    const {key} = row, backend = this.state.backends.get(key);
    row.action.disabled = true;
    this.#busy.add(key);
    await this.#change(backend, backend.state === "draining" ? "undrain" : "drain");
    this.#busy.delete(key);
    this.#fill();
  }

  async #change(backend, action, body) {
    try {
      const reply = await change(backend, action, body);
      Object.assign(this.state.backends.get(keyOf(backend)) ?? {}, await reply.json());
      this.failed("");
      this.update(this.state);
    } catch (error) {
      this.failed(`${action} ${backend.id}: ${error.message}`);
    }
  }

  #select(key) {
    this.#selected = this.#selected === key ? null : key;
    this.card.replaceChildren();
    this.update(this.state);
    if (this.#selected) this.card.scrollIntoView({block: "nearest"});
  }

  #fillCard() {
    const backend = this.#selected && this.state.backends.get(this.#selected);
    this.card.hidden = !backend;
    if (!backend) return;
    if (!this.card.firstChild) this.#makeCard(backend);
    this.weightForm.hidden = !this.mayChange;
    const rows = cardRows(backend);
    while (this.list.children.length > 2 * rows.length) this.list.lastChild.remove();
    while (this.list.children.length < 2 * rows.length) this.list.append(el("dt"), el("dd"));
    rows.forEach(([name, value], i) => {
      setText(this.list.children[2 * i], name);
      setText(this.list.children[2 * i + 1], value);
    });
    setText(this.lineTitle, metrics[this.samples.metric].label + ", the last " + period(Math.min(this.samples.window, maxSparkSeconds)));
    this.#drawSpark(this.line, this.#selected, 360, 60);
  }

  #makeCard(backend) {
    this.list = el("dl");
    this.line = el("canvas", {className: "card-line"});
    this.line.setAttribute("aria-hidden", "true");
    this.lineTitle = el("span", {className: "note"});
    const weight = el("input", {type: "number", min: 1, max: 1000, required: true, value: backend.weight});
    this.weightForm = el("form", {
      onsubmit: (event) => {
        event.preventDefault();
        this.#change(backend, "weight", JSON.stringify({weight: weight.valueAsNumber}));
      },
    }, el("label", {}, "Weight ", weight), " ", el("button", {type: "submit"}, "Set"));
    const close = el("button", {type: "button", className: "close", onclick: () => this.#select(this.#selected)}, "Close");
    this.card.append(close, el("h3", {}, backend.id), this.line, this.lineTitle, this.weightForm, this.list);
  }
}

function sourceText(source) {
  if (!source) return "not polled";
  return source.state + (source.reason ? ": " + source.reason : "") + `, every ${seconds(source.interval_seconds)}`;
}

function cardRows(b) {
  const {polled = {}, latency = {}} = b;
  const rows = [
    ["state", b.state + (b.reason ? ": " + b.reason : "")], ["for", `${span(b.ageSeconds)}, since ${b.since}`],
    ["pool", b.pool], ["address", b.address], ["engine", b.engine || "–"], ["models", (b.models ?? []).join(", ") || "–"],
    ["zone", b.zone || "–"], ["labels", labelsOf(b) || "–"], ["weight", String(b.weight)],
    ["in flight", count(b.in_flight)], ["picks", count(b.picks_total)], ["errors", count(b.errors_total)],
    ["failures", count(latency.failures_per_second) + " /s"],
    ["first token", `${seconds(latency.ttft_seconds)}, p99 ${seconds(latency.ttft_p99_seconds)}`],
    ["time per token", `${seconds(latency.tpot_seconds)}, p99 ${seconds(latency.tpot_p99_seconds)}`],
    ["whole response", `${seconds(latency.e2e_seconds)}, p99 ${seconds(latency.e2e_p99_seconds)}`],
    ["polled", polled.age_seconds == null ? "no report" : seconds(polled.age_seconds) + " ago"],
    ["running, waiting", `${count(polled.running)}, ${count(polled.waiting)}`],
    ["KV cache", percent(polled.kv_cache_ratio)],
    ["GPU", polled.gpu_utilization_ratio == null && polled.gpu_memory_used_bytes == null ? "–" :
      `${percent(polled.gpu_utilization_ratio)}, ${bytes(polled.gpu_memory_used_bytes)} of ${bytes(polled.gpu_memory_total_bytes)}`],
    ["engine's metrics", sourceText(polled.engine)], ["GPU exporter", sourceText(polled.gpu_exporter)],
  ];
  if (b.forecast) rows.push(["next request waits", `${seconds(b.forecast.wait_seconds)} (${b.forecast.confidence})`]);
  return rows;
}
