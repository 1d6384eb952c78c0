// Where sessions are kept, and what tenants use. Asked for while it is in view.
import {askJson} from "./live.js";
import {count, el, inUse, percent, period, setText, span} from "./format.js";

const shownSessions = 50;
const shownRows = 100;

/** A table; a column is [title, text or element of a row, true for numbers]. */
function tableOf(columns, rows) {
  return el("table", {},
    el("thead", {}, el("tr", {}, ...columns.map(([title, , number]) => el("th", {scope: "col", className: number ? "n" : ""}, title)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {},
      ...columns.map(([, show, number]) => el("td", {className: number ? "n" : ""}, show(row)))))));
}

/** A part of a whole, as a bar and in words. */
function share(value, text) {
  const fill = el("i");
  fill.style.width = 100 * Math.min(1, value || 0) + "%";
  return el("span", {className: "share"}, el("span", {className: "share-bar", "aria-hidden": "true"}, fill), text);
}

/** Replaces what a part of the page has; lists stay scrolled as they were. */
function replace(body, ...children) {
  const tops = [...body.querySelectorAll(".list")].map((each) => each.scrollTop);
  body.replaceChildren(...children);
  body.querySelectorAll(".list").forEach((each, i) => { each.scrollTop = tops[i] ?? 0; });
}

const scrolled = (title, table) => el("div", {}, el("h3", {}, title), el("div", {className: "scroll list"}, table));
const note = (text) => el("p", {className: "note"}, text);
const gone = (id) => id ?? "a backend that is gone";

/** A part of the page that is asked for again and again; what the pointer or the focus is in stays as it is. */
class Polled {
  #asking = false;

  async refresh() {
    if (this.#asking || inUse(this.body)) return;
    this.#asking = true;
    try {
      await this.load();
    } finally {
      this.#asking = false;
    }
  }
}

export class SessionView extends Polled {
  #pools = null;  // not known yet

  constructor({label, select, body, chosen}) {
    super();
    Object.assign(this, {label, select, body, chosen});
    select.addEventListener("change", () => {
      this.chosen = select.value;
      this.load().catch((error) => this.body.replaceChildren(note(error.message)));
    });
  }

  /** The pools that there are to choose from: those that keep sessions. */
  set pools(names) {
    if (names.join("\n") === this.#pools?.join("\n")) return;
    this.#pools = names;
    this.select.replaceChildren(...names.map((name) => el("option", {value: name}, name)));
    if (!names.includes(this.chosen)) this.chosen = names[0];
    this.select.value = this.chosen ?? "";
    this.label.hidden = names.length < 2;
    if (!names.length) this.body.replaceChildren(note("No pool keeps sessions: none has affinity."));
  }

  async load() {
    const pool = this.chosen;
    if (!this.#pools?.length) return;
    const [document] = await askJson(`/api/v1/sessions?limit=${shownSessions}&pool=${encodeURIComponent(pool)}`);
    if (pool === this.chosen) this.#render(document);
  }

  #render(document) {
    const all = document.backends.reduce((sum, each) => sum + each.sessions, 0);
    const most = Math.max(...document.backends.map((each) => each.sessions), 1);
    const backends = document.backends.toSorted((a, b) => b.sessions - a.sessions).slice(0, shownRows);
    const text = `${count(document.sessions)} sessions of at most ${count(document.max_sessions)}, ${document.mode}, kept for ` +
      `${period(document.ttl_seconds)}. Requests: ${count(document.hits_total)} to their backend, ${count(document.misses_total)} new, ` +
      `${count(document.moves_total)} moved. ${count(document.evictions_total)} forgotten for lack of room.`;
    replace(this.body, el("p", {}, text), el("div", {className: "columns"},
      scrolled("Where they are", tableOf([
        ["Backend", (b) => b.id],
        ["Sessions", (b) => share(b.sessions / most, `${count(b.sessions)} (${percent(all ? b.sessions / all : 0)})`)],
      ], backends)),
      scrolled("Used last", document.newest.length ? tableOf([
        ["Session", (s) => s.session], ["Backend", (s) => gone(s.backend)], ["Idle", (s) => span(s.idle_seconds), true],
        ["", (s) => s.has_state ? "its state is there" : s.confirmed ? "" : "no answer yet"],
      ], document.newest) : note("None now.")),
      scrolled("Moved last", document.moves.length ? tableOf([
        ["Session", (m) => m.session], ["From", (m) => gone(m.from)], ["To", (m) => gone(m.to)],
        ["Ago", (m) => span(m.age_seconds), true],
      ], document.moves) : note("None since the start."))));
  }
}

/** The limit of which most is used. */
function limitUsed(limits) {
  const tightest = limits.reduce((most, each) => (each.used_ratio > (most?.used_ratio ?? -1) ? each : most), null);
  return tightest ? share(tightest.used_ratio, `${percent(tightest.used_ratio)} of ${tightest.limit}`) : "none";
}

export class TenantView extends Polled {
  constructor({body, counted}) {
    super();
    Object.assign(this, {body, counted});
  }

  async load() {
    const tenants = await askJson("/api/v1/tenants");
    setText(this.counted, tenants.length > shownRows ? `· the ${shownRows} busiest of ${tenants.length}` : "");
    if (!tenants.length) {
      this.body.replaceChildren(note("The file names no tenants."));
      return;
    }
    const rows = tenants.length <= shownRows ? tenants :
      tenants.toSorted((a, b) => b.tokens_ratio - a.tokens_ratio || b.requests_total - a.requests_total).slice(0, shownRows);
    replace(this.body, el("div", {className: "scroll list"}, tableOf([
      ["Tenant", (t) => t.name], ["Weight", (t) => count(t.weight), true], ["Priority", (t) => t.priority ?? "as requests say"],
      ["Running", (t) => count(t.running), true], ["Waiting", (t) => count(t.waiting), true],
      ["Requests/s", (t) => count(t.requests_per_second), true], ["Output tokens/s", (t) => count(t.output_tokens_per_second), true],
      ["Share of tokens", (t) => share(t.tokens_ratio, percent(t.tokens_ratio))],
      ["Requests", (t) => count(t.requests_total), true], ["Input tokens", (t) => count(t.input_tokens_total), true],
      ["Output tokens", (t) => count(t.output_tokens_total), true],
      ["Limit used", (t) => limitUsed(t.limits)],
    ], rows)));
  }
}
