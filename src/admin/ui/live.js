// The admin API: requests with the token, and the stream of changes, or polls in its place.

const tokenKey = "evenkeel.token";
const refusedPause = 30_000;  // ms until a refused connection is tried again, without another token
const silence = 10_000;  // ms without an event: the connection is taken for dead
const firstSilence = 3000;  // the same, before the stream has come through
const steadyEvents = 3;  // so many events in time: it has
const pollInterval = 2000;  // ms
const streamPause = 15_000;  // ms between attempts to get the stream, while it does not come through

export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? "",
  set: (value) => value ? sessionStorage.setItem(tokenKey, value) : sessionStorage.removeItem(tokenKey),
};

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Sends a request; throws ApiError with the daemon's own words if it is refused. */
export async function ask(path, {method = "GET", body, headers = {}, signal} = {}) {
  const held = token.get();
  if (held) headers = {...headers, authorization: "Bearer " + held};
  const reply = await fetch(path, {method, body, headers, signal, cache: "no-store"});
  if (reply.ok) return reply;
  const text = await reply.text();
  let message = text;
  try {
    message = JSON.parse(text).error ?? text;
  } catch { /* no JSON: the text says it */ }
  throw new ApiError(reply.status, message);
}

export const askJson = async (path, options) => (await ask(path, options)).json();

/** The events of a body, as {id, event, data}. */
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = {};
      for (const line of text.slice(0, end).split("\n")) {
        const colon = line.indexOf(": ");
        event[line.slice(0, colon)] = line.slice(colon + 2);
      }
      yield event;
    }
  }
}

const merge = (list, changes, removed, keyOf) => {
  for (const each of removed ?? []) list.delete(keyOf(each));
  for (const each of changes ?? []) {
    const key = keyOf(each);
    list.set(key, Object.assign(list.get(key) ?? {}, each));
  }
};

export const keyOf = (backend) => backend.pool + "\n" + backend.id;

/** What the daemon last said of itself. */
export class State {
  status = {};
  overview = {};
  pools = new Map();
  backends = new Map();  // by keyOf

  apply(kind, data) {
    if (kind === "snapshot") Object.assign(this, new State());
    Object.assign(this.status, data.status);
    Object.assign(this.overview, data.overview);
    merge(this.pools, data.pools, data.removed?.pools, (pool) => pool.name);
    merge(this.backends, data.backends, data.removed?.backends, keyOf);
  }
}

const sleep = (time, wake) => new Promise((done) => {
  wake(done);
  setTimeout(done, time);
});
const isRefused = (error) => error instanceof ApiError && (error.status === 401 || error.status === 403);

/** Follows /api/v1/live for ever, and connects again when that ends. Where the stream does not come through, as behind a
 *  proxy that holds it back or cuts it, polls the same by GET and tries the stream again now and then. */
export class Feed {
  state = new State();
  polling = false;
  #lastId = "";
  #controller = null;
  #begins = true;  // the next poll is the first, or the first with another token
  #events = 0;  // of the stream that is followed
  #steady = false;  // the stream comes through: several events came in time
  #hidden = Promise.resolve();
  #wake = () => {};

  /** `on`: {snapshot(state), diff(state), lost(refused, error)} */
  constructor(on) {
    this.on = on;
  }

  async run() {
    for (let delay = 250;; delay = Math.min(delay * 2, 4000)) {
      await this.#hidden;
      let end = await this.#follow();
      if (!end.steady && !isRefused(end.error)) end = await this.#poll();
      if (end.steady) delay = 250;
      const refused = isRefused(end.error);
      this.on.lost(refused, end.error);
      await this.#sleep(refused ? refusedPause : delay);
    }
  }

  /** Connects again, for example with another token. */
  restart() {
    this.#lastId = "";
    this.#begins = true;
    this.#controller?.abort();
    this.#wake();
  }

  /** Pauses until the promise is fulfilled. */
  hold(promise) {
    this.#hidden = promise;
    this.#controller?.abort();
  }

  #sleep(time) {
    return sleep(time, (wake) => { this.#wake = wake; });
  }

  /** What fails in the views is no fault of the connection. */
  #report(event) {
    try {
      this.on[event]?.(this.state);
    } catch (error) {
      reportError(error);
    }
  }

  /** Polls until that fails, or the stream comes through. Returns how the last of these ended, as `#follow`. */
  async #poll() {
    let stream = null;
    this.#lastId = "";
    this.#begins = true;
    try {
      for (let tryAgain = Date.now() + streamPause;;) {
        await this.#hidden;
        const snapshot = await askJson("/api/v1/snapshot", {signal: AbortSignal.timeout(silence)});
        if (!stream || !this.#events) this.#take(snapshot);  // else the stream has said something newer
        await this.#sleep(pollInterval);
        if (stream && this.#steady) break;
        if (!stream && Date.now() > tryAgain) {
          stream = this.#follow().finally(() => {
            stream = null;
            tryAgain = Date.now() + streamPause;
          });
        }
      }
    } catch (error) {
      this.#controller?.abort();
      await stream;
      return {steady: false, error};
    } finally {
      this.polling = false;
    }
    this.#report("diff");
    return stream;
  }

  #take(snapshot) {
    this.polling = true;
    this.state.apply("snapshot", snapshot);
    this.#report(this.#begins ? "snapshot" : "diff");
    this.#begins = false;
  }

  /** Follows the stream to its end; returns whether it came through, and the error if there was one. */
  async #follow() {
    const controller = this.#controller = new AbortController();
    this.#steady = false;
    this.#events = 0;
    let timer;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), this.#steady ? silence : firstSilence);
    };
    watch();
    try {
      const headers = this.#lastId ? {"last-event-id": this.#lastId} : {};
      const reply = await ask("/api/v1/live", {headers, signal: controller.signal});
      for await (const {id, event, data} of eventsOf(reply.body)) {
        this.#steady = ++this.#events >= steadyEvents;
        watch();
        this.#lastId = id;
        this.state.apply(event, JSON.parse(data));
        this.#report(event);
      }
      return {steady: this.#steady};
    } catch (error) {
      return {steady: this.#steady, error};
    } finally {
      this.#steady = false;
      clearTimeout(timer);
      controller.abort();
    }
  }
}
