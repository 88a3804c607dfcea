// The page: its routes, its header, and the view that is shown.

import { badge, h, renewAges, setText } from "./dom.js";
import { ClusterView } from "./cluster_view.js";
import { DecisionsView } from "./decisions_view.js";
import { GroupView } from "./group_view.js";
import { GroupsView } from "./groups_view.js";
import { LeversView } from "./levers_view.js";
import { PipelineView } from "./pipeline_view.js";
import { connect, listen, readHistory, store, updates } from "./store.js";

const PAGES = [["groups", "Groups"], ["decisions", "Decisions"], ["cluster", "Brokers and racks"],
  ["pipeline", "Pipeline"], ["levers", "Levers"]];
const VIEWS = {
  groups: (name) => (name ? new GroupView(name) : new GroupsView()),
  decisions: (_, query) => new DecisionsView(query),
  cluster: () => new ClusterView(),
  pipeline: () => new PipelineView(),
  levers: (_, query) => new LeversView(query),
};
const THEMES = ["light", "dark"];
const HISTORY_MS = 10000;
const AGES_MS = 5000;

const main = document.getElementById("main");
const status = document.getElementById("status");
const frozen = document.getElementById("frozen");
const names = h("datalist", { id: "group-names" });
let view = null;

const links = new Map(PAGES.map(([id, text]) => [id, h("a", { href: `#/${id}` }, text)]));
document.getElementById("nav").append(...links.values());
document.body.append(names);

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [page, name] = path.split("/", 2);
  const id = page in VIEWS ? page : "groups";
  for (const [each, link] of links) {
    if (each === id) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  view?.close();
  view = VIEWS[id](name ? decodeURIComponent(name) : "", new URLSearchParams(query ?? ""));
  main.replaceChildren(view.element);
  document.title = `${view.title} · levelwind`;
}

function showStatus() {
  const state = store.status;
  const parts = [];
  if (!store.connected) parts.push(badge("connecting …", "warn"));
  if (state) {
    const role = { leader: "leads", standby: "stands by", starting: "starting" }[state.role];
    parts.push(badge(role, state.role === "leader" ? "good" : state.role === "standby" ? "info" : "warn",
      `${state.instance}, epoch ${state.planner_epoch ?? "unknown"}, version ${state.version}`));
    if (state.role === "standby" && state.leader) parts.push(h("span", { class: "muted" }, `${state.leader} leads`));
  }
  status.replaceChildren(...parts);
  const reasons = Object.values(state?.frozen ?? {});
  frozen.hidden = reasons.length === 0;
  setText(frozen, reasons.length ? `Planning is frozen: ${reasons.join("; ")}` : "");
}

function showNames() {
  const shown = [...names.children];
  if (shown.length === store.groups.size && shown.every((each) => store.groups.has(each.value))) return;
  names.replaceChildren(...[...store.groups.keys()].sort().map((name) => h("option", { value: name })));
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  setText(document.getElementById("theme"), theme === "dark" ? "Light" : "Dark");
}

const preferred = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const chosen = localStorage.getItem("levelwind.theme");
setTheme(THEMES.includes(chosen) ? chosen : preferred);
document.getElementById("theme").addEventListener("click", () => {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("levelwind.theme", next);
  setTheme(next);
  route();
});

addEventListener("hashchange", () => { route(); main.focus(); });
addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && event.target.tagName !== "INPUT") view?.onKey?.(event);
});
listen((change) => {
  if (change.kind === "status") showStatus();
  if (change.kind === "groups") showNames();
  view?.onChange(change);
});
globalThis.levelwind = { updates, store };
route();
showStatus();
connect();
readHistory().catch(() => {});
setInterval(() => readHistory().catch(() => {}), HISTORY_MS);
setInterval(renewAges, AGES_MS);
