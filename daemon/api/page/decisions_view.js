// Decisions as a timeline, the newest first: why, before and after, and the certificate.

import { badge, h, setText } from "./dom.js";
import { clock, dateAndTime, whole } from "./format.js";
import { certificateOf, scoresOf } from "./plan_parts.js";
import { read } from "./store.js";

const KINDS = {
  published: "good", ordered: "info", proposed: "info", confirmed: "", suppressed: "warn",
  refused: "bad", failed: "bad",
};
const SHOWN = 100;
const INTERVAL_MS = 5000;

export class DecisionsView {
  constructor(query) {
    this.title = "Decisions";
    this.group = h("input", {
      type: "search", placeholder: "Group", "aria-label": "Only decisions about this group",
      value: query.get("group") ?? "", onchange: () => this.refresh(), autocomplete: "off", list: "group-names",
    });
    this.outcome = h("select", { "aria-label": "Only decisions of this outcome", onchange: () => this.refresh() },
      h("option", { value: "" }, "every outcome"),
      Object.keys(KINDS).map((name) => h("option", { value: name }, name)));
    this.list = h("ol", { class: "timeline" });
    this.empty = h("p", { class: "empty", hidden: true });
    this.element = h("section", { class: "page" }, h("h1", {}, "Decisions"),
      h("div", { class: "toolbar" }, this.group, this.outcome), this.empty, this.list);
    this.refresh();
    this.timer = setInterval(() => this.refresh(), INTERVAL_MS);
  }

  close() { clearInterval(this.timer); }

  onChange(change) {
    if (change.parts?.has("plans")) this.refresh();
  }

  async refresh() {
    const wanted = Object.entries({ group: this.group.value.trim(), outcome: this.outcome.value })
      .filter(([, value]) => value);
    const path = `decisions?${new URLSearchParams([["limit", SHOWN], ...wanted])}`;
    this.path = path;
    try {
      const { decisions } = await read(path);
      if (this.path !== path) return; // others are wanted meanwhile
      this.show(decisions, wanted.length ? "No such decision among the newest thousand." : "No decision yet.");
    } catch (error) {
      if (this.path !== path) return;
      this.empty.hidden = false;
      setText(this.empty, error.message);
    }
  }

  show(entries, none) {
    this.empty.hidden = entries.length > 0;
    setText(this.empty, none);
    // Entries never change, so those that are shown already stay, with what is open in them.
    const shown = new Map([...this.list.children].map((item) => [item.dataset.id, item]));
    this.list.replaceChildren(...entries.map((entry) => shown.get(entry.id) ?? entryOf(entry)));
  }
}

function entryOf(entry) {
  const moved = entry.moves ?? entry.after?.moved;
  return h("li", { class: `entry ${KINDS[entry.outcome] ?? ""}`, data: { id: entry.id } },
    h("time", { datetime: new Date(entry.at).toISOString(), title: dateAndTime(entry.at) }, clock(entry.at)),
    h("div", { class: "entry-body" },
      h("div", { class: "entry-head" },
        entry.group === "*" ? h("strong", {}, "all groups")
          : h("a", { href: `#/groups/${encodeURIComponent(entry.group)}` }, entry.group),
        badge(entry.outcome, KINDS[entry.outcome] ?? ""),
        h("span", {}, entry.kind === "lever" ? `${entry.cause} by ${entry.by ?? "an operator"}` : `because of ${entry.cause}`),
        typeof moved === "number" ? h("span", { class: "muted" },
          entry.outcome === "published" ? `${whole(moved)} moved` : `would move ${whole(moved)}`) : null,
        entry.strategy ? h("span", { class: "muted" }, entry.strategy) : null,
        entry.plan_id ? h("code", {}, entry.plan_id) : null),
      entry.reason ? h("p", {}, entry.reason) : null,
      entry.order ? h("p", { class: "muted" }, [entry.order.subject, entry.order.value].filter(Boolean).join(" → ")) : null,
      scoresOf(entry.before, entry.after), certificateOf(entry.certificate)));
}
