// The last 15 minutes, second by second: loaded once, then kept up by the stream of changes.
import {askJson, keyOf} from "./live.js";
import {count, percent, seconds as secondsText} from "./format.js";

export const length = 900;
const maxSkipped = 3;

/** Values by second; those that are not known are NaN. */
export class Ring {
  #values = new Float32Array(length).fill(NaN);
  at(second) { return this.#values[second % length]; }
  set(second, value) { this.#values[second % length] = value ?? NaN; }
}

const ratio = (part, whole) => part != null && whole ? part / whole : null;
const takesPart = (b) => b.state === "up" || b.state === "draining";

/** What a backend can be colored by. `of` takes a backend of the live state. */
export const metrics = {
  in_flight: {label: "load (in flight)", text: count, of: (b) => b.in_flight},
  picks_per_second: {label: "picks per second", text: count, of: (b) => b.picksPerSecond},
  running: {label: "running in the engine", text: count, of: (b) => b.polled?.running},
  waiting: {label: "waiting in the engine", text: count, of: (b) => b.polled?.waiting},
  kv_cache_ratio: {label: "KV cache", text: percent, max: 1, of: (b) => b.polled?.kv_cache_ratio},
  gpu_utilization_ratio: {label: "GPU use", text: percent, max: 1, of: (b) => b.polled?.gpu_utilization_ratio},
  gpu_memory_ratio: {label: "GPU memory", text: percent, max: 1,
    of: (b) => ratio(b.polled?.gpu_memory_used_bytes, b.polled?.gpu_memory_total_bytes)},
  ttft_seconds: {label: "first token", text: secondsText, of: (b) => b.latency?.ttft_seconds},
  tpot_seconds: {label: "time per token", text: secondsText, of: (b) => b.latency?.tpot_seconds},
  errors_per_second: {label: "errors per second", text: count, of: (b) => b.errorsPerSecond},
};

const daemonNames = ["requests_per_second", "errors_per_second", "in_flight", "waiting",
  "output_tokens_per_second", "ttft_p50_seconds", "ttft_p95_seconds", "ttft_p99_seconds"];

export class Samples {
  metric = "in_flight";
  end = 0;    // the last second
  begin = 0;  // the first second that is known
  daemon = Object.fromEntries(daemonNames.map((name) => [name, new Ring()]));
  backends = new Map();  // by keyOf
  #before = new Map();   // counters of the last second
  #loading = 0;

  /** How many seconds there are to show: as many as are known, at least two minutes. */
  get window() { return Math.min(length, Math.max(120, this.end - this.begin + 1)); }

  /** Loads the past of this metric. Changes go on meanwhile. */
  async load(metric) {
    const mine = ++this.#loading;
    const document = await askJson("/api/v1/history?metric=" + encodeURIComponent(metric));
    if (mine !== this.#loading) return;
    this.metric = metric;
    this.backends = new Map();
    this.daemon = Object.fromEntries(daemonNames.map((name) => [name, new Ring()]));
    const end = document.end - 1;
    this.end = end;
    const known = document.daemon.in_flight.findIndex((value) => value !== null);
    this.begin = known < 0 ? end : document.end - length + known;
    const fill = (ring, values, step) => values.forEach((value, i) => {
      const begin = document.end - (values.length - i) * step;
      for (let second = Math.max(begin, document.end - length); second < begin + step; ++second) ring.set(second, value);
    });
    for (const name of daemonNames) fill(this.daemon[name], document.daemon[name], 1);
    for (const each of document.backends) fill(this.ring(keyOf(each)), each.values, document.step_seconds);
  }

  /** Notes the counters of a snapshot, from which the next rates are reckoned. */
  beginRates(state) {
    for (const backend of state.backends.values()) this.#note(backend);
  }

  ring(key) {
    let ring = this.backends.get(key);
    if (!ring) this.backends.set(key, ring = new Ring());
    return ring;
  }

  /** Takes the newest values, also for a second or two that the stream has skipped; longer gaps stay open. */
  advance(state) {
    const second = state.overview.second;
    if (second === undefined) return;
    for (const backend of state.backends.values()) backend.ageSeconds = second - Date.parse(backend.since) / 1000;
    if (second < this.end) this.load(this.metric).catch(reportError);  // the daemon's clock was set back
    if (second <= this.end) return;
    const passed = this.end ? second - this.end : 1;
    for (const backend of state.backends.values()) this.#count(backend, passed);
    for (const key of this.#before.keys()) if (!state.backends.has(key)) this.#before.delete(key);
    const first = Math.max(this.end + 1, second - length + 1);
    const set = (ring, value) => {
      for (let each = first; each <= second; ++each) ring.set(each, each === second || passed <= maxSkipped ? value : NaN);
    };
    this.end = second;
    this.begin ||= second;
    for (const name of daemonNames) set(this.daemon[name], state.overview[name]);
    const {of} = metrics[this.metric];
    for (const key of this.backends.keys()) if (!state.backends.has(key)) this.backends.delete(key);
    for (const [key, backend] of state.backends) set(this.ring(key), takesPart(backend) ? of(backend) : NaN);
  }

  #count(backend, passed) {
    const before = this.#before.get(keyOf(backend));
    backend.picksPerSecond = before ? Math.max(0, backend.picks_total - before.picks) / passed : null;
    backend.errorsPerSecond = before ? Math.max(0, backend.errors_total - before.errors) / passed : null;
    this.#note(backend);
  }

  #note(backend) {
    this.#before.set(keyOf(backend), {picks: backend.picks_total, errors: backend.errors_total});
  }

  /** How unequal the backends' means of the last 30 s are: standard deviation over mean. */
  evenness(keys) {
    const means = [];
    for (const key of keys) {
      const ring = this.backends.get(key);
      let sum = 0, known = 0;
      for (let second = this.end - 29; ring && second <= this.end; ++second) {
        const value = ring.at(second);
        if (!Number.isNaN(value)) { sum += value; ++known; }
      }
      if (known) means.push(sum / known);
    }
    const mean = means.reduce((a, b) => a + b, 0) / means.length;
    if (means.length < 2 || !(mean > 0)) return null;
    const variance = means.reduce((sum, each) => sum + (each - mean) ** 2, 0) / means.length;
    return {cv: Math.sqrt(variance) / mean, worst: Math.max(...means) / mean};
  }
}
