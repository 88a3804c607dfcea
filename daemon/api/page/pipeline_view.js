// What the pipeline has read, and how it does.

import { badge, h, put, tile } from "./dom.js";
import { ago, bytes, count, DASH, duration, percent, short, whole } from "./format.js";
import { read, store } from "./store.js";

const INTERVAL_MS = 2000;

export class PipelineView {
  constructor() {
    this.title = "Pipeline";
    this.body = h("div", {});
    this.badges = h("span", { class: "badges" });
    this.element = h("section", { class: "page" },
      h("div", { class: "title" }, h("h1", {}, "Pipeline"), this.badges), this.body);
    this.refresh();
    this.timer = setInterval(() => this.refresh(), INTERVAL_MS);
  }

  close() { clearInterval(this.timer); }

  onChange() {}

  async refresh() {
    try {
      this.show(await read("pipeline"));
    } catch (error) {
      put(this.body, h("p", { class: "empty" }, error.message));
    }
  }

  show(pipeline) {
    const figures = pipeline.figures;
    const record = pipeline.record;
    const state = pipeline.up === null ? badge("shown by the daemon that leads")
      : pipeline.up ? badge("running", "good") : badge("not running", "bad");
    this.badges.replaceChildren(state, ...(record ? [badge(record.state.replace("_", " "))] : []));
    const newest = record?.newest ?? figures.newest_timestamp_seconds * 1000;  // NaN: none is known
    const unknown = pipeline.up === null && !record
      ? "Not known here: the daemon that leads counts them." : null;
    const open = new Set([...this.body.querySelectorAll("details[open]")].map((one) => one.dataset.topic));
    put(this.body, 
      h("dl", { class: "tiles" },
        tile("Caught up", percent(record?.caught_up ?? figures.caught_up_ratio)),
        tile("Unread", short(record?.behind ?? figures.behind_records), "records after the last batch"),
        tile("Records read", short(record?.rows ?? figures.records_total)),
        tile("Newest record", newest ? ago(newest) : DASH),
        tile("State", whole(record?.state_rows ?? figures.state_rows),
          `keys, ${bytes(record?.state_bytes ?? figures.state_bytes)}`),
        tile("Samples of lag", whole(pipeline.samples), pipeline.oldest_lag_at
          ? `the oldest ${ago(pipeline.oldest_lag_at)}` : null),
        tile("Deaths", whole(figures.deaths_total))),
      record?.error ? h("p", { class: "banner" }, record.error) : null,
      countsOf("Rejected records", record?.rejected ?? pipeline.rejected, unknown ?? "None: everything could be read."),
      countsOf("Skipped records", record?.skipped ?? pipeline.skipped, unknown ?? "None."),
      h("h2", {}, "Inputs"),
      h("p", { class: "muted" }, "Offset up to which each input was read when the newest lag was computed."),
      inputsOf(pipeline.inputs, open));
  }
}

function countsOf(title, counts, none) {
  const rows = Object.entries(counts);
  return h("div", {}, h("h2", {}, title), rows.length
    ? h("table", { class: "scores" }, h("tbody", {}, rows.map(([reason, count]) =>
      h("tr", {}, h("th", { scope: "row" }, reason), h("td", {}, whole(count))))))
    : h("p", { class: "muted" }, none));
}

function inputsOf(inputs, open) {
  const topics = new Map();
  for (const [name, offset] of Object.entries(inputs)) {
    const cut = name.lastIndexOf("/");
    const topic = name.slice(0, cut);
    if (!topics.has(topic)) topics.set(topic, []);
    topics.get(topic).push([Number(name.slice(cut + 1)), offset]);
  }
  if (!topics.size) return h("p", { class: "empty" }, "Nothing was read yet.");
  return h("div", {}, [...topics].map(([topic, partitions]) => h("details",
    { data: { topic }, open: open.has(topic) },
    h("summary", {}, `${topic}  `, h("span", { class: "muted" },
      `${count(partitions.length, "partition")}, ${whole(partitions.reduce((sum, [, offset]) => sum + offset, 0))} records`)),
    h("ul", { class: "offsets" }, partitions.sort(([a], [b]) => a - b).map(([number, offset]) =>
      h("li", {}, h("span", { class: "muted" }, String(number)), ` ${whole(offset)}`))))));
}
