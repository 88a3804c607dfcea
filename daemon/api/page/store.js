// State of the page: the newest line of each group, kept live by server-sent events.

export const store = {
  groups: new Map(),
  status: null,
  connected: false,
  history: { groups: new Map() },
};

// Milliseconds from the arrival of an event to the frame that shows it; the last hundred.
export const updates = [];

const MOST_UPDATES = 100;
const MOST_POINTS = 60;
const listeners = new Set();
// The version of the daemon's in which each part last changed. Every daemon counts from zero, so that
// versions of two daemons say nothing of each other.
const versions = { cluster: null, plans: null, controls: null };
const TOKEN = "levelwind.token";

export function listen(listener) {
  listeners.add(listener);
}

function tell(change) {
  for (const listener of listeners) listener(change);
}

async function request(path, options = {}) {
  const answer = await fetch(path, { ...options, credentials: "omit" });
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    throw Object.assign(new Error(document.error ?? answer.statusText), { status: answer.status });
  }
  return document;
}

export const read = (path) => request(`/api/v1/${path}`);

// The token stays in this tab, and goes nowhere but to this daemon.
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

export const order = (body) => request("/api/v1/levers", {
  method: "POST",
  headers: { "content-type": "application/json", authorization: `Bearer ${token.get()}` },
  body: JSON.stringify(body),
});

export const groupPath = (name) => name.split("/").map(encodeURIComponent).join("/");

function measured(begun, apply) {
  apply();
  requestAnimationFrame(() => {
    // The task after a frame begins once that frame is laid out and painted.
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      updates.push(performance.now() - begun);
      if (updates.length > MOST_UPDATES) updates.shift();
    };
    channel.port2.postMessage(null);
  });
}

function takeGroups(event) {
  const begun = performance.now();
  const change = JSON.parse(event.data);
  measured(begun, () => {
    if (change.all) store.groups.clear();
    for (const line of change.groups) store.groups.set(line.group, line);
    for (const name of change.ended) store.groups.delete(name);
    const parts = Object.keys(versions).filter(
      (part) => change.all || versions[part] !== change[`${part}_version`]);
    for (const part of parts) versions[part] = change[`${part}_version`];
    tell({
      kind: "groups", all: change.all, parts: new Set(parts),
      names: new Set([...change.groups.map((line) => line.group), ...change.ended]),
    });
  });
}

export async function readHistory() {
  const document = await read(`history?points=${MOST_POINTS}`);
  store.history = { groups: new Map(Object.entries(document.groups)) };
  tell({ kind: "history" });
}

export function connect() {
  const source = new EventSource("/api/v1/events");
  source.addEventListener("open", () => {
    store.connected = true;
    tell({ kind: "status" });
  });
  source.addEventListener("error", () => {
    store.connected = false;
    tell({ kind: "status" });
    // The browser connects again by itself, except after a refusal.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 3000);
  });
  source.addEventListener("status", (event) => {
    store.status = JSON.parse(event.data);
    tell({ kind: "status" });
  });
  source.addEventListener("groups", takeGroups);
}
