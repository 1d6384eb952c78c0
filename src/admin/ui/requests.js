// The last requests as a waterfall, and the decision about one of them.
import {askJson} from "./live.js";
import {count, el, inUse, seconds} from "./format.js";

const shown = 40;

export const orders = {
  recent: (list) => list,
  slow: (list) => list.toSorted((a, b) => b.duration_seconds - a.duration_seconds),
  failed: (list) => list.filter((each) => each.reason || each.status >= 400),
};

/** The bar of a request: it waits, its first token comes, then the rest. */
function bar(request, longest) {
  const total = request.duration_seconds ?? 0;
  const waited = Math.min(request.wait_seconds ?? 0, total);
  const first = Math.min(Math.max((request.ttft_seconds ?? total) - waited, 0), total - waited);
  const part = (className, length) => {
    const element = el("i", {className: "part " + className});
    element.style.width = 100 * length / longest + "%";
    return element;
  };
  const text = `waited ${seconds(waited)}, first token ${seconds(request.ttft_seconds)}, ended after ${seconds(total)}`;
  return el("span", {className: "waterfall", title: text, role: "img", "aria-label": text},
    part("wait", waited), part("first", first), part("rest", total - waited - first));
}

function attemptsOf(request) {
  const left = request.attempts_total - request.attempts.length;
  const texts = request.attempts.map(({backend, outcome}) => `${backend} ${outcome}`);
  return (left > 0 ? `${left} more, then ` : "") + (texts.join(" → ") || "none");
}

const tokens = (exact, estimated) => exact != null ? count(exact) : estimated ? "~" + count(estimated) : "–";

/** The end of a long id: those that are made here begin with the time. */
const shortId = (id) => id.length > 20 ? "…" + id.slice(-12) : id;

export class RequestList {
  #requests = [];
  #order = "recent";
  #asking = false;
  #explained = "";

  constructor({list, panel}) {
    Object.assign(this, {list, panel});
  }

  set order(order) {
    this.#order = order;
    this.#render();
  }

  /** Asks for the last requests. What the pointer or the keyboard's focus is in stays as it is. */
  async refresh() {
    if (inUse(this.list) || this.#asking) return;
    this.#asking = true;
    try {
      this.#requests = await askJson("/api/v1/requests/recent");
      if (!inUse(this.list)) this.#render();
    } finally {
      this.#asking = false;
    }
  }

  #render() {
    const requests = orders[this.#order](this.#requests).slice(0, shown);
    if (!requests.length) {
      this.list.replaceChildren(el("p", {className: "note"}, "No such requests yet."));
      return;
    }
    const longest = Math.max(...requests.map((each) => each.duration_seconds ?? 0), 1e-6);
    const titles = ["Time", "Request", "Pool, tenant", "Model", "Status", "Tokens in, out", "Total", "Waterfall", "Attempts"];
    const rows = requests.map((each) => el("tr", {className: each.reason ? "failed" : ""},
      el("td", {}, new Date(each.time).toLocaleTimeString([], {hourCycle: "h23"})),
      el("td", {}, el("button", {
        type: "button", className: "name", title: each.request_id, onclick: () => this.#explain(each)}, shortId(each.request_id) || "–")),
      el("td", {}, (each.pool ?? "–") + (each.tenant ? ", " + each.tenant : "")), el("td", {}, each.model ?? "–"),
      el("td", {}, each.status + (each.reason ? " " + each.reason : "")),
      el("td", {className: "n"}, tokens(each.prompt_tokens, each.estimated_prompt_tokens) + ", " + tokens(each.completion_tokens)),
      el("td", {className: "n"}, seconds(each.duration_seconds)), el("td", {}, bar(each, longest)), el("td", {}, attemptsOf(each))));
    this.list.replaceChildren(el("table", {},
      el("thead", {}, el("tr", {}, ...titles.map((title) => el("th", {scope: "col"}, title)))), el("tbody", {}, ...rows)));
  }

  async #explain(request) {
    const close = el("button", {type: "button", className: "close", onclick: () => { this.panel.hidden = true; }}, "Close");
    const head = [close, el("h3", {}, "Request " + request.request_id)];
    this.panel.hidden = false;
    const asked = this.#explained = request.request_id;
    try {
      const {ended, routes, attempts} = await askJson("/api/v1/decisions/" + encodeURIComponent(request.request_id));
      if (asked !== this.#explained) return;  // a later one was asked for
      this.panel.replaceChildren(...head, ...ending(ended), ...routesOf(routes), ...attempts.flatMap(decision));
    } catch (error) {
      this.panel.replaceChildren(...head, el("p", {}, error.message));
    }
    this.panel.scrollIntoView({block: "nearest"});
  }
}

const candidateColumns = [
  ["Backend", (c) => c.backend ?? "–"], ["State", (c) => c.state], ["Confidence", (c) => c.confidence],
  ["Cost", (c) => count(c.cost)], ["Wait", (c) => seconds(c.wait_seconds)], ["Prefill", (c) => seconds(c.prefill_seconds)],
  ["Model load", (c) => seconds(c.load_seconds)], ["Eviction", (c) => seconds(c.eviction_seconds)],
  ["Decode", (c) => seconds(c.decode_seconds)], ["Cached", (c) => count(c.cached_tokens)], ["Uncached", (c) => count(c.uncached_tokens)],
];

const pickColumns = [
  ["Backend", (c) => c.backend], ["State", (c) => c.state], ["Cost", (c) => count(c.cost)], ["In flight", (c) => count(c.in_flight)],
  ["Weight", (c) => count(c.weight)], ["Running", (c) => count(c.running)], ["Waiting", (c) => count(c.waiting)],
];

const table = (columns, rows, chosen) => el("div", {className: "scroll"}, el("table", {},
  el("thead", {}, el("tr", {}, ...columns.map(([title]) => el("th", {scope: "col"}, title)))),
  el("tbody", {}, ...rows.map((each) => el("tr", {className: each.backend === chosen ? "chosen" : ""},
    ...columns.map(([, show]) => el("td", {}, show(each))))))));

/** How the request ended, if that is remembered. */
function ending(request) {
  if (!request) return [];
  const why = request.reason ? `${request.reason}${request.detail ? ": " + request.detail : ""}` : "";
  return [el("p", {}, `${request.status} ${why} after ${seconds(request.duration_seconds)}; attempts: ${attemptsOf(request)}`)];
}

/** What kept a route from taking a request; null: nothing. */
function reasonOf(mismatch) {
  if (!mismatch) return "takes it";
  return mismatch === "not" ? "meets its not" : `other ${mismatch}`;
}

/** The routes that were looked at, with what kept each from taking the request. */
function routesOf(routes) {
  if (!routes?.length) return [];
  return [el("ol", {className: "routes"}, ...routes.map(({route, mismatch}) =>
    el("li", {}, el("b", {}, route), `: ${reasonOf(mismatch)}`)))];
}

/** What a picker has chosen, or would. */
function pick(attempt) {
  const how = {picked: "by picker " + attempt.picker, session: "where its session is",
    waited: `the first free slot, after ${seconds(attempt.waited_seconds)}`}[attempt.state];
  return [el("p", {}, `${attempt.pool}: ${attempt.backend}, ${how}; ${attempt.candidates.length} of ${attempt.considered} backends are shown`),
    table(pickColumns, attempt.candidates, attempt.backend)];
}

/** Where a request would go, as /api/v1/explain says. */
export function explained({routes, route, pools}) {
  const pickOf = ({pool, pick: chosen, note}) => chosen ? pick(chosen) : [el("p", {}, `${pool}: ${note}`)];
  return [el("p", {}, route == null ? "No route takes it." : `Route ${route} takes it.`), ...routesOf(routes), ...pools.flatMap(pickOf)];
}

/** A decision about one attempt: what was considered, predicted, and what came of it. */
function decision(attempt) {
  const {predicted, outcome, held} = attempt;
  if (!held) return pick(attempt);  // of another picker than expected-time
  const text = `${attempt.pool}: ${attempt.state}, ${attempt.backend ?? "no backend"}; held ${seconds(held.seconds)}; ` +
    `predicted first token ${seconds(predicted?.ttft_seconds)}, came after ${seconds(outcome?.ttft_seconds)}; ` +
    `${attempt.candidates.length} of ${attempt.considered} considered backends are shown`;
  return [el("p", {}, text), table(candidateColumns, attempt.candidates, attempt.backend)];
}
