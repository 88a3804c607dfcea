// One group: lag and time to drain over time, its matrix, partitions, topics, members and plan.

import { age, badge, h, put, setText, tabs, tile } from "./dom.js";
import { atLeast, count, dateAndTime, DASH, duration, figure, percent, short, whole } from "./format.js";
import { LineChart, upToNow } from "./line_chart.js";
import { ALIGNED_UP_TO, Matrix } from "./matrix.js";
import { certificateOf, scoresOf } from "./plan_parts.js";
import { groupPath, read, store } from "./store.js";
import { VirtualTable } from "./virtual_table.js";

const plain = (value) => (cell, row, drawn) => {
  const shown = value(row);
  if (drawn.text !== shown) { drawn.text = shown; setText(cell, shown); }
};
const column = (id, title, width, value, show, number = true) =>
  ({ id, title, width, value, number, show: plain(show) });

const RACK_TEXT = new Map([[null, DASH], [true, "local"], [false, "⇄ other rack"]]);

const PARTITION_COLUMNS = [
  column("topic", "Topic", "minmax(9rem, 2fr)", (row) => row.topic, (row) => row.topic, false),
  column("partition", "Partition", "6rem", (row) => row.partition, (row) => String(row.partition)),
  column("lag", "Lag", "7rem", (row) => row.lag, (row) => whole(row.lag)),
  column("seconds", "Waiting", "7rem", (row) => row.seconds, (row) => atLeast(duration, row.seconds, row.atLeast)),
  column("committed", "Committed", "8rem", (row) => row.committed, (row) => whole(row.committed)),
  column("end", "Log end", "8rem", (row) => row.end, (row) => whole(row.end)),
  column("owner", "Owner", "minmax(9rem, 1fr)", (row) => row.owner, (row) => row.owner || DASH, false),
  column("local", "Rack", "8rem", (row) => row.localText, (row) => row.localText, false),
];
const TOPIC_COLUMNS = [
  column("topic", "Topic", "minmax(10rem, 2fr)", (row) => row.topic, (row) => (row.left ? `${row.topic} (left)` : row.topic), false),
  column("partitions", "Partitions", "7rem", (row) => row.partitions, (row) => whole(row.partitions)),
  column("lag", "Lag", "8rem", (row) => row.lag, (row) => atLeast(whole, row.lag, row.unknown)),
  column("share", "Share of the lag", "9rem", (row) => row.share, (row) => percent(row.share)),
  column("wait", "Longest wait", "8rem", (row) => row.wait, (row) => atLeast(duration, row.wait, row.bounds)),
  column("rate", "Records/s", "7rem", (row) => row.rate, (row) => short(row.rate)),
];
const MEMBER_COLUMNS = [
  column("instance", "Member", "minmax(10rem, 2fr)", (row) => row.instance, (row) => row.instance, false),
  column("state", "State", "6rem", (row) => row.state, (row) => row.state, false),
  column("rack", "Rack", "6rem", (row) => row.rack, (row) => row.rack ?? DASH, false),
  column("partitions", "Partitions", "6.5rem", (row) => row.partitions, (row) => whole(row.partitions)),
  column("lag", "Lag", "7rem", (row) => row.lag, (row) => atLeast(whole, row.lag, row.unknown)),
  column("load", "Time to drain", "8rem", (row) => row.load_seconds, (row) => duration(row.load_seconds)),
  column("speed", "Speed, records/s", "9rem", (row) => row.speed, (row) => short(row.speed)),
  column("crossing", "Cross-rack", "7rem", (row) => row.crossing, (row) => whole(row.crossing)),
];
const TABS = [["matrix", "Matrix"], ["partitions", "Partitions"], ["topics", "Topics"],
  ["members", "Members"], ["plan", "Plan"]];

function partitionRows(group) {
  const rows = [];
  for (const topic of group.topic) {
    const bounds = new Set(topic.seconds_lower_bound);
    for (let number = 0; number < topic.partitions; number += 1) {
      const owner = topic.owner[number];
      rows.push({
        key: `${topic.topic}/${number}`, topic: topic.topic, partition: number, lag: topic.lag[number],
        seconds: topic.seconds?.[number] ?? null, atLeast: bounds.has(number), committed: topic.committed[number],
        end: topic.end[number], owner: owner < 0 ? "" : group.member[owner].instance,
        localText: RACK_TEXT.get(topic.local[number]),
      });
    }
  }
  return rows;
}

function topicRows(group) {
  return group.topic.map((topic) => ({
    key: topic.topic, topic: topic.topic, left: topic.left, partitions: topic.partitions, lag: topic.total_lag,
    unknown: topic.unknown.length, share: group.lag && topic.total_lag !== null ? topic.total_lag / group.lag : null, wait: topic.longest_wait_seconds,
    bounds: topic.seconds_lower_bound.length,
    rate: topic.rate ? topic.rate.reduce((sum, value) => sum + (value ?? 0), 0) : null,
  }));
}

function memberRows(group) {
  const crossing = group.member.map(() => 0);
  for (const topic of group.topic) {
    topic.local.forEach((local, number) => { if (local === false) crossing[topic.owner[number]] += 1; });
  }
  return group.member.map((member, index) => ({
    ...member, crossing: crossing[index], key: `${member.instance} ${member.incarnation}`,
  }));
}

export class GroupView {
  constructor(name) {
    this.name = name;
    this.title = name;
    this.group = null;
    this.history = { at: [], lag: [], drain_seconds: [] };
    this.reading = false;
    this.stale = true;
    this.tab = "matrix";
    this.aligned = null;
    this.by = "lag";
    this.lagChart = new LineChart({ title: "Lag, records", format: short });
    this.drainChart = new LineChart({ title: "Time to drain", format: duration });
    this.matrix = new Matrix({ label: `Members and partitions of ${name}` });
    this.tables = {
      partitions: new VirtualTable({ label: "Partitions", columns: PARTITION_COLUMNS, sort: "lag", descending: true }),
      topics: new VirtualTable({ label: "Topics", columns: TOPIC_COLUMNS, sort: "lag", descending: true }),
      members: new VirtualTable({ label: "Members", columns: MEMBER_COLUMNS, sort: "load", descending: true }),
    };
    this.filter = h("input", {
      type: "search", placeholder: "Topic, topic/partition or owner", "aria-label": "Search partitions",
      oninput: () => this.showTab(), autocomplete: "off", spellcheck: "false",
    });
    this.layout = this.choice("Columns", [["packed", "packed by member"], ["aligned", "one per partition"]],
      (value) => { this.aligned = value === "aligned"; this.showTab(); });
    this.colour = this.choice("Colour", [["lag", "by records"], ["seconds", "by waiting time"]],
      (value) => { this.by = value; this.showTab(); });
    this.tiles = h("dl", { class: "tiles" });
    this.badges = h("span", { class: "badges" });
    this.panel = h("div", { role: "tabpanel", class: "panel", id: "panel" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.content = h("div", { class: "fills" }, this.tiles,
      h("div", { class: "charts" }, this.lagChart.element, this.drainChart.element),
      tabs("Parts of the group", TABS, this.tab, (id) => { this.tab = id; this.showTab(true); }), this.panel);
    this.element = h("section", { class: "page fills" },
      h("div", { class: "title" }, h("a", { href: "#/groups", class: "back" }, "Groups"),
        h("h1", {}, name), this.badges,
        h("a", { class: "button", href: `#/levers?group=${encodeURIComponent(name)}` }, "Levers"),
        h("a", { class: "button", href: `#/decisions?group=${encodeURIComponent(name)}` }, "Decisions")),
      this.empty, this.content);
    this.refresh();
    this.readHistory();
    this.timer = setInterval(() => this.readHistory(), 10000);
  }

  choice(label, options, choose) {
    const select = h("select", { onchange: () => choose(select.value) },
      options.map(([value, text]) => h("option", { value }, text)));
    return h("label", { class: "choice" }, label, select);
  }

  close() {
    clearInterval(this.timer);
    this.matrix.close();
    for (const each of [this.lagChart, this.drainChart, ...Object.values(this.tables)]) each.close();
  }

  onKey(event) {
    if (event.key === "/" && this.tab === "partitions" && document.activeElement !== this.filter) {
      event.preventDefault();
      this.filter.focus();
    }
  }

  onChange(change) {
    if (change.all || change.names?.has(this.name)) this.refresh();
  }

  async readHistory() {
    try {
      const document = await read(`history/${groupPath(this.name)}`);
      this.history = { at: document.at, ...document.groups[this.name] };
      this.showCharts();
    } catch { /* the next point comes in ten seconds; what is wrong is shown by refresh */ }
  }

  showCharts() {
    if (!this.group) return;
    const { at, lag, drain_seconds: drain } = this.history;
    this.lagChart.show(...upToNow(at, lag, this.group.lag_at, this.group.lag));
    this.drainChart.show(...upToNow(at, drain, this.group.lag_at, this.group.drain_seconds));
  }

  // One request at a time; a change meanwhile asks once more.
  async refresh() {
    this.stale = true;
    if (this.reading) return;
    this.reading = true;
    while (this.stale) {
      this.stale = false;
      try {
        this.group = await read(`groups/${groupPath(this.name)}`);
        this.empty.hidden = true;
        this.content.hidden = false;
        this.show();
      } catch (error) {
        this.empty.hidden = false;
        setText(this.empty, error.message);
        if (error.status === 404) {
          this.group = null;
          this.badges.replaceChildren();
        }
        this.content.hidden = !this.group;
      }
    }
    this.reading = false;
  }

  show() {
    const begun = performance.now();
    const group = this.group;
    if (this.aligned === null) {
      this.aligned = group.partitions <= ALIGNED_UP_TO;
      this.layout.querySelector("select").value = this.aligned ? "aligned" : "packed";
    }
    const frozen = Object.values(store.status?.frozen_groups?.[this.name] ?? {});
    this.badges.replaceChildren(badge(group.mode), ...(group.strategy ? [badge(group.strategy)] : []),
      ...group.triggers.map((kind) => badge(`${kind} trigger`, "warn")),
      ...group.unwritten.map((name) => badge(`${name} not published`, "bad")),
      ...(group.moving ? [badge(`${whole(group.moving)} moving`, "info")] : []),
      ...frozen.map((text) => badge("frozen", "bad", text)));
    this.tiles.replaceChildren(
      tile("Lag", atLeast(short, group.lag, group.unknown),
        group.unknown ? `of ${count(group.unknown, "partition")} not known` : ["sampled ", age(group.lag_at)]),
      tile("Time to drain", duration(group.drain_seconds), `best ${duration(group.best_drain_seconds)}`),
      tile("Longest wait", atLeast(duration, group.longest_wait_seconds, group.wait_lower_bounds)),
      tile("Skew", figure(group.skew)),
      tile("Members", whole(group.members), group.members_wanted === null ? null
        : `${whole(group.members_wanted)} wanted`),
      tile("Partitions", whole(group.partitions), count(group.topics, "topic")),
      tile("Cross-rack", percent(group.cross_rack)));
    this.showCharts();
    this.showTab();
    performance.measure("levelwind.group", { start: begun, end: performance.now() });
  }

  showTab(changed = false) {
    const group = this.group;
    if (!group) return;
    this.panel.setAttribute("aria-labelledby", `tab-${this.tab}`);
    const drawn = this.drawnTab === this.tab && !changed;
    this.drawnTab = this.tab;
    if (this.tab === "matrix") {
      if (!drawn) {
        this.panel.replaceChildren(h("div", { class: "toolbar" }, this.layout, this.colour),
          this.matrix.element);
      }
      this.matrix.show(group, { aligned: this.aligned, by: this.by });
    } else if (this.tab === "plan") {
      put(this.panel, planOf(group));
    } else {
      const table = this.tables[this.tab];
      if (!drawn) {
        this.panel.replaceChildren(...(this.tab === "partitions"
          ? [h("div", { class: "toolbar" }, this.filter)] : []), table.element);
      }
      const rows = { partitions: partitionRows, topics: topicRows, members: memberRows }[this.tab](group);
      const wanted = this.tab === "partitions" ? this.filter.value.trim().toLowerCase() : "";
      table.setRows(wanted ? rows.filter((row) => row.key.toLowerCase().includes(wanted)
        || row.owner.toLowerCase().includes(wanted)) : rows);
    }
  }
}

function planOf(group) {
  if (!group.plan) return h("p", { class: "empty" }, "This group has no plan: levelwind only watches it.");
  const plan = group.plan;
  return h("div", { class: "plan" },
    h("p", {}, `Plan ${plan.plan_id} by ${plan.strategy}, because of ${plan.cause}, `,
      h("time", {}, dateAndTime(plan.at)), `, epoch ${plan.planner_epoch}/${plan.group_epoch}.`),
    scoresOf(plan.before, plan.after), certificateOf(plan.certificate));
}
