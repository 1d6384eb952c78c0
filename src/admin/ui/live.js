// The admin API: requests with the token, and the stream of changes.

const tokenKey = "evenkeel.token";
const refusedPause = 30_000;  // ms until a refused connection is tried again, without another token
const silence = 10_000;  // ms without an event: the connection is taken for dead

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
async function* eventsOf(body, arrived) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    arrived();
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

/** Follows /api/v1/live for ever, and connects again when that ends. */
export class Feed {
  state = new State();
  #lastId = "";
  #controller = null;
  #hidden = Promise.resolve();
  #wake = () => {};

  /** `on`: {snapshot(state), diff(state), lost(refused, error)} */
  constructor(on) {
    this.on = on;
  }

  async run() {
    for (let delay = 250;; delay = Math.min(delay * 2, 4000)) {
      await this.#hidden;
      let refused = false;
      try {
        await this.#follow(() => { delay = 250; });
        this.on.lost(false);
      } catch (error) {
        refused = error instanceof ApiError && (error.status === 401 || error.status === 403);
        this.on.lost(refused, error);
      }
      await new Promise((done) => {
        this.#wake = done;
        setTimeout(done, refused ? refusedPause : delay);
      });
    }
  }

  /** Connects again, for example with another token. */
  restart() {
    this.#lastId = "";
    this.#controller?.abort();
    this.#wake();
  }

  /** Pauses until the promise is fulfilled. */
  hold(promise) {
    this.#hidden = promise;
    this.#controller?.abort();
  }

  /** What fails in the views is no fault of the connection. */
  #report(event) {
    try {
      this.on[event]?.(this.state);
    } catch (error) {
      reportError(error);
    }
  }

  async #follow(works) {
    const controller = this.#controller = new AbortController();
    let timer;
    const watch = () => {
      clearTimeout(timer);
      timer = setTimeout(() => controller.abort(), silence);
    };
    watch();
    try {
      const headers = this.#lastId ? {"last-event-id": this.#lastId} : {};
      const reply = await ask("/api/v1/live", {headers, signal: controller.signal});
      for await (const {id, event, data} of eventsOf(reply.body, watch)) {
        works();
        this.#lastId = id;
        this.state.apply(event, JSON.parse(data));
        this.#report(event);
      }
    } finally {
      clearTimeout(timer);
      controller.abort();
    }
  }
}
