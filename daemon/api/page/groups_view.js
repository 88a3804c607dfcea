// All groups: how far behind each is, how long it needs, and what is wrong with it.

import { badge, h, setClass, setText, tile } from "./dom.js";
import { atLeast, count, duration, figure, percent, short, whole } from "./format.js";
import { sparkline } from "./line_chart.js";
import { store } from "./store.js";
import { VirtualTable } from "./virtual_table.js";

const text = (value) => (cell, row, drawn) => {
  const shown = value(row);
  if (drawn.text !== shown) { drawn.text = shown; setText(cell, shown); }
};

function drain(cell, row, drawn) {
  if (!drawn.bar) {
    drawn.bar = h("span", { class: "bar-fill" });
    drawn.label = h("span", { class: "bar-text" });
    cell.append(h("span", { class: "bar" }, drawn.bar), drawn.label);
  }
  const shown = duration(row.drain_seconds);
  if (drawn.text === shown && drawn.share === row.share) return;
  Object.assign(drawn, { text: shown, share: row.share });
  setText(drawn.label, shown);
  drawn.bar.style.width = `${Math.round(row.share * 100)}%`;
  setClass(drawn.bar, `bar-fill ${row.behind ? "warn" : ""}`);
}

function overTime(cell, row, drawn) {
  if (!drawn.spark) {
    drawn.spark = sparkline();
    cell.append(drawn.spark.element);
  }
  const values = store.history.groups.get(row.group)?.lag ?? [];
  if (drawn.values === values && drawn.lag === row.lag) return;
  Object.assign(drawn, { values, lag: row.lag });
  drawn.spark.show([...values, row.lag]);
}

function condition(cell, row, drawn) {
  const marks = [
    ...row.triggers.map((kind) => [kind, "warn"]),
    ...row.unwritten.map((name) => [`${name} not published`, "bad"]),
    ...(row.moving ? [[`${whole(row.moving)} moving`, "info"]] : []),
    ...(row.unknown ? [[`lag of ${whole(row.unknown)} unknown`, "warn"]] : []),
    ...(row.unclaimed ? [[`${whole(row.unclaimed)} unclaimed`, ""]] : []),
    ...(row.frozen ? [["frozen", "bad"]] : []),
  ];
  const key = marks.join("|");
  if (drawn.key === key) return;
  drawn.key = key;
  cell.replaceChildren(...marks.map(([shown, kind]) => badge(shown, kind)));
}

const COLUMNS = [
  { id: "group", title: "Group", width: "minmax(9rem, 2fr)", value: (row) => row.group.toLowerCase(), show: text((row) => row.group) },
  { id: "mode", title: "Mode", width: "5.6rem", value: (row) => row.mode, show: text((row) => row.mode) },
  { id: "members", title: "Members", number: true, width: "5.2rem", value: (row) => row.members, show: text((row) => whole(row.members)) },
  { id: "partitions", title: "Partitions", number: true, width: "5.6rem", value: (row) => row.partitions, show: text((row) => whole(row.partitions)) },
  { id: "lag", title: "Lag", number: true, width: "5rem", value: (row) => row.lag, show: text((row) => atLeast(short, row.lag, row.unknown)) },
  { id: "trend", title: "Last 10 min", width: "6.2rem", show: overTime },
  { id: "drain_seconds", title: "Time to drain", number: true, width: "minmax(8.5rem, 1fr)", value: (row) => row.drain_seconds, show: drain },
  { id: "wait", title: "Longest wait", number: true, width: "6.6rem", value: (row) => row.longest_wait_seconds, show: text((row) => atLeast(duration, row.longest_wait_seconds, row.wait_lower_bounds)) },
  { id: "skew", title: "Skew", number: true, width: "3.6rem", value: (row) => row.skew, show: text((row) => figure(row.skew)) },
  { id: "cross_rack", title: "Cross-rack", number: true, width: "5.4rem", value: (row) => row.cross_rack, show: text((row) => percent(row.cross_rack)) },
  { id: "condition", title: "State", width: "minmax(8rem, 1.2fr)", show: condition },
];

export class GroupsView {
  constructor() {
    this.title = "Groups";
    this.search = h("input", {
      type: "search", placeholder: "Search groups   /", "aria-label": "Search groups", id: "search",
      oninput: () => this.update(), autocomplete: "off", spellcheck: "false",
    });
    this.table = new VirtualTable({
      label: "Groups", columns: COLUMNS, sort: "lag", descending: true,
      open: (row) => { location.hash = `#/groups/${encodeURIComponent(row.group)}`; },
    });
    this.tiles = h("dl", { class: "tiles" });
    this.count = h("span", { class: "muted", role: "status" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.element = h("section", { class: "page fills" },
      h("h1", {}, "Groups"), this.tiles,
      h("div", { class: "toolbar" }, this.search, this.count), this.empty, this.table.element);
    this.update();
  }

  close() { this.table.close(); }

  onKey(event) {
    if (event.key === "/" && document.activeElement !== this.search) {
      event.preventDefault();
      this.search.focus();
    }
  }

  onChange(change) {
    if (change.kind === "groups" || change.kind === "history" || change.kind === "status") this.update();
  }

  update() {
    const lines = [...store.groups.values()];
    const frozen = store.status?.frozen_groups ?? {};
    const most = Math.max(1, ...lines.map((line) => line.drain_seconds ?? 0));
    const wanted = this.search.value.trim().toLowerCase();
    const rows = [];
    let [lag, unknown, partitions, behind, longest, bounds] = [null, 0, 0, 0, null, 0];
    for (const line of lines) {
      if (line.lag !== null) lag = (lag ?? 0) + line.lag;
      unknown += line.unknown;
      bounds += line.wait_lower_bounds;
      partitions += line.partitions;
      if (line.lag) behind += 1;
      if (line.longest_wait_seconds !== null) longest = Math.max(longest ?? 0, line.longest_wait_seconds);
      if (wanted && !line.group.toLowerCase().includes(wanted)) continue;
      rows.push({
        ...line, key: line.group, share: Math.sqrt((line.drain_seconds ?? 0) / most),
        behind: line.drain_seconds !== null && line.best_drain_seconds !== null
          && line.drain_seconds > 1.25 * line.best_drain_seconds + 3,
        frozen: line.group in frozen,
      });
    }
    this.tiles.replaceChildren(
      tile("Groups", whole(lines.length), `${whole(behind)} behind`),
      tile("Partitions", whole(partitions)),
      tile("Lag", atLeast(short, lag, unknown),
        unknown ? `records; of ${count(unknown, "partition")} not known` : "records"),
      tile("Longest wait", atLeast(duration, longest, bounds)));
    setText(this.count, wanted ? `${whole(rows.length)} of ${whole(lines.length)}` : "");
    this.empty.hidden = rows.length > 0;
    setText(this.empty, lines.length ? "No group has this in its name."
      : "No group yet: one appears with its first commit.");
    this.table.setRows(rows);
  }
}
