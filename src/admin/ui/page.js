// Ties the views of the page to the stream of changes.
import {askJson, Feed, keyOf, token} from "./live.js";
import {byId, count, el, period, seconds, setText, span} from "./format.js";
import {metrics, Samples} from "./samples.js";
import {Chart} from "./charts.js";
import {drawScale, HeatMap} from "./heat_map.js";
import {BackendTable} from "./backends.js";
import {explained, orders, RequestList} from "./requests.js";
import {Flow} from "./flow.js";
import {SessionView, TenantView} from "./usage.js";

const staleAfter = 3000;     // ms
const stalePollAfter = 7000; // ms, of what is polled
const hiddenAfter = 60_000;  // ms in the background before the stream is closed

// ---- what the address remembers: metric, filter, order of the requests ----

const remembered = new URLSearchParams(location.hash.slice(1));

function remember(name, value) {
  if (value) remembered.set(name, value); else remembered.delete(name);
  history.replaceState(null, "", "#" + remembered);
}

// ---- views ----

const samples = new Samples();
const charts = [
  {title: "Requests per second", text: count, lines: [{name: "requests_per_second"}]},
  {title: "First token", text: seconds, lines: [
    {name: "ttft_p50_seconds", label: "p50"}, {name: "ttft_p95_seconds", label: "p95", dash: [6, 3]}, {name: "ttft_p99_seconds", label: "p99", dash: [2, 2]}]},
  {title: "Output tokens per second", text: count, lines: [{name: "output_tokens_per_second"}]},
  {title: "In flight, waiting", text: count, lines: [{name: "in_flight", label: "in flight"}, {name: "waiting", label: "waiting", dash: [6, 3]}]},
  {title: "Errors per second", text: count, lines: [{name: "errors_per_second", label: "not of clients"}]},
].map((options) => new Chart(byId("charts"), samples, options));

const map = new HeatMap(byId("map"), samples, {
  describe: (text) => setText(byId("cell"), text),
  scaled: (max) => setText(byId("scale-text"), "0 to " + metrics[samples.metric].text(max)),
});

const table = new BackendTable({
  table: byId("table"),
  card: byId("card"),
  samples,
  failed: showMessage,
  counted: (shown, all) => setText(byId("count"), shown === all ? String(all) : `${shown} of ${all}`),
});

const requests = new RequestList({list: byId("request-list"), panel: byId("decision")});

const flow = new Flow({canvas: byId("flow"), legend: byId("flow-legend"), note: byId("flow-note"), pause: byId("flow-pause"), details: byId("flow-details"),
  table: byId("flow-table")});

const sessions = new SessionView({label: byId("sessions-label"), select: byId("sessions-pool"), body: byId("sessions-body"),
  chosen: remembered.get("sessions")});
byId("sessions-pool").addEventListener("change", () => remember("sessions", byId("sessions-pool").value));

const tenants = new TenantView({body: byId("tenants-body"), counted: byId("tenants-count")});

function showMessage(text) {
  byId("message").hidden = !text;
  setText(byId("message"), text);
}

function draw() {
  if (document.hidden) return;
  for (const chart of charts) chart.draw();
  map.draw();
  flow.draw();
}

const evenness = "CV: coefficient of variation of what the backends that are up had over the last 30 s; 0 is even.";

function showPools(state) {
  const cards = [...state.pools.values()].map((pool) => {
    const keys = [...state.backends.values()].filter((each) => each.pool === pool.name && each.state === "up").map(keyOf);
    const even = samples.evenness(keys);
    const score = even ? `CV ${even.cv.toFixed(2)}, the largest ${even.worst.toFixed(2)}x the mean` : "no evenness: fewer than two values";
    return el("p", {className: pool.unavailable ? "pool failed" : "pool", title: evenness}, el("b", {}, pool.name),
      ` ${pool.backends?.up} of ${pool.backends?.total} up, ${count(pool.in_flight)} in flight, ${count(pool.waiting)} waiting · ` +
      `${pool.picker} · ${score}` + (pool.unavailable ? " · " + pool.unavailable : ""));
  });
  byId("pools").replaceChildren(...cards);
}

function showErrors({errors = []}) {
  const sorted = errors.toSorted((a, b) => b.count - a.count);
  const items = sorted.map(({reason, side, count: times}) => el("li", {}, el("b", {}, count(times)), ` ${reason} (${side})`));
  byId("errors").replaceChildren(items.length ? el("ul", {className: "errors"}, "Errors by reason: ", ...items) :
    el("p", {className: "note"}, "No errors in the last 15 minutes."));
}

function eventText(event) {
  if (event.kind === "reload") return "configuration reloaded";
  if (event.kind === "reload_rejected") return "reload rejected: " + event.reason;
  return `${event.pool} / ${event.backend}: ${event.from} → ${event.to}` + (event.reason ? ": " + event.reason : "");
}

let eventsShown = -1;
async function showEvents(total) {
  if (total === undefined || total === eventsShown) return;
  const events = await askJson("/api/v1/events");
  eventsShown = total;
  const items = events.map((event) => el("li", {className: "state-" + (event.to ?? event.kind)},
    el("time", {}, new Date(event.second * 1000).toLocaleString([], {hourCycle: "h23"})), " ", eventText(event)));
  byId("events").replaceChildren(...(items.length ? items : [el("li", {className: "note"}, "None since the daemon started.")]));
}

let configShown = null;  // its hash
async function showConfig() {
  const {status} = feed.state;
  if (!byId("config").open || status.config?.hash === configShown) return;
  const {hash} = status.config;
  const {file, yaml, changes} = await askJson("/api/v1/config");
  configShown = hash;
  const made = changes.length ? [el("p", {}, "The last reload changed:"), el("ul", {}, ...changes.map((each) => el("li", {}, each)))] : [];
  byId("config-body").replaceChildren(el("p", {className: "note"}, file), ...made, el("pre", {className: "scroll"}, yaml));
}
byId("config").addEventListener("toggle", () => showConfig().catch((error) => showMessage(error.message)));

function showStatus({status}) {
  const config = status.config ?? {};
  const parts = [status.version, "up " + span(status.uptime_seconds), `${status.workers} workers`, `${count(status.connections)} connections`];
  if (status.draining) parts.push("draining");
  if (config.last_reload_ok === false) parts.push("last reload rejected: " + (config.errors?.[0]?.message ?? ""));
  setText(byId("about"), parts.join(" · "));
}

function show(state) {
  lastEvent = Date.now();
  samples.advance(state);
  setText(byId("window"), "the last " + period(samples.window));
  showStatus(state);
  showErrors(state.overview);
  showPools(state);
  map.keys = [...state.backends.keys()];
  table.update(state);
  flow.update(state);
  sessions.pools = [...state.pools.values()].filter((pool) => pool.sessions != null).map((pool) => pool.name);
  draw();
  showEvents(state.overview.events_total).catch(() => {});
  showConfig().catch(() => {});
  showConnection();
}

// ---- connection ----

let lastEvent = 0;
let lost = null;  // why the stream ended; null: it runs

function showConnection() {
  const age = Date.now() - lastEvent;
  let [text, kind] = feed.polling ? ["polling", "warn"] : ["live", "good"];
  if (lost) [text, kind] = [lost, "bad"];
  else if (!lastEvent) [text, kind] = ["connecting", ""];
  else if (age > (feed.polling ? stalePollAfter : staleAfter)) [text, kind] = [`stale: ${Math.round(age / 1000)} s old`, "warn"];
  setText(byId("connection"), text);
  byId("connection").className = "badge " + kind;
  byId("connection").title = feed.polling ? "The stream of changes does not come through: a proxy may hold it back. Polled every 2 s." : "";
  const stale = kind === "bad" || text.startsWith("stale");
  byId("main").classList.toggle("stale", stale);
  if (stale) flow.stop();
}
setInterval(showConnection, 1000);

const feed = new Feed({
  async snapshot(state) {
    lost = null;
    eventsShown = -1;
    checkAccess();
    samples.beginRates(state);
    await samples.load(samples.metric).catch((error) => showMessage(error.message));
    show(state);
    for (const view of [requests, sessions, tenants]) view.refresh().catch(() => {});
  },
  diff(state) {
    lost = null;
    show(state);
  },
  lost(refused, error) {
    lost = refused ? "refused" : "disconnected";
    if (refused) {
      showMessage(error.message);
      openToken(error.status === 401);
    }
    showConnection();
  },
});

async function checkAccess() {
  try {
    const {changes, reason} = await askJson("/api/v1/access");
    table.mayChange = changes;
    setText(byId("access"), changes ? "changes allowed" : "read only");
    byId("access").title = reason ?? "";
    showMessage("");
  } catch {
    table.mayChange = false;
    setText(byId("access"), "");
  }
  table.update(feed.state);
}

// ---- token ----

function openToken(open) {
  byId("token-form").hidden = !open;
  byId("token-open").setAttribute("aria-expanded", String(open));
  if (open) byId("token").focus();
}

function useToken(value) {
  token.set(value);
  byId("token").value = "";
  openToken(false);
  showMessage("");
  feed.restart();
}

byId("token-open").addEventListener("click", () => openToken(byId("token-form").hidden));
byId("token-forget").addEventListener("click", () => useToken(""));
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value.trim());
});

// ---- controls ----

for (const [name, {label}] of Object.entries(metrics)) byId("metric").append(el("option", {value: name}, label));
if (Object.hasOwn(metrics, remembered.get("metric"))) samples.metric = remembered.get("metric");
byId("metric").value = samples.metric;
byId("metric").addEventListener("change", async () => {
  remember("metric", byId("metric").value);
  await samples.load(byId("metric").value).then(() => showMessage(""), (error) => showMessage(error.message));
  showPools(feed.state);
  table.update(feed.state);
  draw();
});

byId("filter").value = remembered.get("filter") ?? "";
table.filter = byId("filter").value;
byId("filter").addEventListener("input", () => {
  remember("filter", byId("filter").value);
  table.filter = byId("filter").value;
});

if (Object.hasOwn(orders, remembered.get("requests"))) byId("request-order").value = remembered.get("requests");
requests.order = byId("request-order").value;
byId("request-order").addEventListener("change", () => {
  remember("requests", byId("request-order").value);
  requests.order = byId("request-order").value;
});

byId("explain-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  byId("explained").hidden = false;
  const question = new URLSearchParams(new FormData(event.target));
  try {
    byId("explained").replaceChildren(...explained(await askJson("/api/v1/explain?" + question)));
  } catch (error) {
    byId("explained").replaceChildren(el("p", {}, error.message));
  }
});

/** Asks for what is not in the stream, while it is in view. */
function refreshInView(section, view) {
  let inView = false;
  const refresh = () => {
    if (inView && !document.hidden && lastEvent && !lost) view.refresh().catch(() => {});
  };
  new IntersectionObserver(([entry]) => {
    inView = entry.isIntersecting;
    refresh();
  }).observe(section);
  setInterval(refresh, 2000);
}
refreshInView(byId("requests"), requests);
refreshInView(byId("sessions"), sessions);
refreshInView(byId("tenants"), tenants);

const themes = ["system", "light", "dark"];
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("evenkeel.theme", theme);
  setText(byId("theme"), "Theme: " + theme);
  draw();
}
byId("theme").addEventListener("click", () =>
  setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]));
setTheme(themes.includes(localStorage.getItem("evenkeel.theme")) ? localStorage.getItem("evenkeel.theme") : "system");

// A tab in the background lets go of the stream after a while.
let resume = null;
let hiding;
document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) {
    hiding = setTimeout(() => feed.hold(new Promise((done) => { resume = done; })), hiddenAfter);
  } else {
    resume?.();
    resume = null;
    draw();
  }
});
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

drawScale(byId("scale-colors"));
feed.run();
