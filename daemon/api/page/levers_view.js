// Operators' levers: an order is shown as a dry run first, and only that very order can be executed.

import { age, badge, h, setText } from "./dom.js";
import { DASH, whole } from "./format.js";
import { certificateOf, scoresOf } from "./plan_parts.js";
import { order, read, store, token } from "./store.js";

// [action, what it does, what it is about, what it is set to]
const ACTIONS = [
  ["rebalance", "Plan the group now", null, null],
  ["pause", "Pause planning", null, null],
  ["resume", "Resume planning", null, null],
  ["drain", "Drain a member", "Member", null],
  ["undrain", "End the drain of a member", "Member", null],
  ["evacuate", "Drain a rack", "Rack", null],
  ["return", "End the drain of a rack", "Rack", null],
  ["pin", "Pin a partition", "Topic/partition", "Member"],
  ["unpin", "Unpin a partition", "Topic/partition", null],
  ["strategy", "Change the strategy", null, "Strategy, empty: as configured"],
  ["approve", "Approve the plan that waits", "Plan", null],
  ["rollback", "Go back to a plan", "Plan", null],
];

const RELEASES = {
  pause: "resume", drain: "undrain", evacuate: "return", pin: "unpin", strategy: "strategy",
};

export class LeversView {
  constructor(query) {
    this.title = "Levers";
    this.previewed = null;
    this.token = h("input", {
      type: "password", autocomplete: "off", value: token.get(), id: "token",
      placeholder: "Token", oninput: () => { token.set(this.token.value.trim()); this.showAccess(); },
    });
    this.access = h("p", { class: "muted", role: "status" });
    this.action = h("select", { onchange: () => this.onAction() },
      ACTIONS.map(([id, text]) => h("option", { value: id }, text)));
    const changed = () => this.forget();
    this.group = h("input", { list: "group-names", autocomplete: "off", value: query.get("group") ?? "", oninput: changed });
    this.subject = h("input", { autocomplete: "off", oninput: changed });
    this.value = h("input", { autocomplete: "off", oninput: changed });
    this.reason = h("input", { autocomplete: "off", placeholder: "for the audit", oninput: changed });
    this.subjectLabel = h("label", { class: "field" });
    this.valueLabel = h("label", { class: "field" });
    this.dry = h("button", { type: "submit", class: "button" }, "Dry run");
    this.execute = h("button", { type: "button", class: "button danger", disabled: true, onclick: () => this.run(true) }, "Execute");
    this.result = h("div", { class: "result", "aria-live": "polite" });
    this.levers = h("div", {});
    const form = h("form", { class: "lever-form", onsubmit: (event) => { event.preventDefault(); this.run(false); } },
      h("label", { class: "field" }, "Action", this.action),
      h("label", { class: "field" }, "Group, * for all", this.group),
      this.subjectLabel, this.valueLabel, h("label", { class: "field" }, "Reason", this.reason),
      h("div", { class: "buttons" }, this.dry, this.execute));
    this.element = h("section", { class: "page" }, h("h1", {}, "Levers"),
      h("div", { class: "toolbar" }, h("label", { class: "field" }, "Bearer token", this.token), this.access),
      form, this.result, h("h2", {}, "In force"), this.levers);
    this.onAction();
    this.showAccess();
    this.refresh();
  }

  close() {}

  onChange(change) {
    if (change.kind === "status") this.showAccess();
    if (change.parts?.has("controls")) this.refresh();
  }

  showAccess() {
    setText(this.access, store.status && !store.status.levers
      ? "This daemon has no tokens: set http.token_file to open its levers here."
      : token.get() ? "Kept in this tab alone." : "Give a token to use the levers.");
  }

  onAction() {
    const [, , subject, value] = ACTIONS.find(([id]) => id === this.action.value);
    this.subjectLabel.hidden = !subject;
    this.valueLabel.hidden = !value;
    this.subjectLabel.replaceChildren(subject ?? "", this.subject);
    this.valueLabel.replaceChildren(value ?? "", this.value);
    this.forget();
  }

  // Fill in the order that releases a lever, and show its dry run.
  release(lever) {
    this.action.value = RELEASES[lever.kind];
    this.onAction();
    this.group.value = lever.group;
    this.subject.value = lever.subject ?? "";
    this.value.value = "";
    this.run(false);
  }

  // What was changed since the dry run must be run dry again.
  forget() {
    this.previewed = null;
    this.execute.disabled = true;
  }

  order() {
    const [, , subject, value] = ACTIONS.find(([id]) => id === this.action.value);
    return {
      action: this.action.value, group: this.group.value.trim(), reason: this.reason.value.trim(),
      ...(subject ? { subject: this.subject.value.trim() } : {}),
      ...(value ? { value: this.value.value.trim() } : {}),
    };
  }

  async run(execute) {
    const wanted = execute ? this.previewed : this.order();
    if (!wanted) return;
    this.execute.disabled = true;
    this.dry.disabled = true;
    try {
      const outcome = await order({ ...wanted, execute });
      this.previewed = execute ? null : wanted;
      this.execute.disabled = execute;
      this.result.replaceChildren(outcomeOf(outcome, execute));
      if (execute) this.refresh();
    } catch (error) {
      this.previewed = null;
      this.result.replaceChildren(h("p", { class: "banner", role: "alert" }, error.message));
    } finally {
      this.dry.disabled = false;
    }
  }

  async refresh() {
    try {
      const { levers } = await read("levers");
      this.levers.replaceChildren(levers.length ? h("table", { class: "scores list" },
        h("thead", {}, h("tr", {}, ["group", "lever", "about", "value", "by", "since", "reason", ""].map(
          (title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, levers.map((lever) => h("tr", {},
          h("th", { scope: "row" }, lever.group === "*" ? "all groups" : lever.group),
          h("td", {}, badge(lever.kind, "info")), h("td", {}, lever.subject ?? DASH),
          h("td", {}, lever.setting ?? DASH), h("td", {}, lever.by || DASH), h("td", {}, age(lever.at)),
          h("td", { class: "prose" }, lever.reason || DASH),
          h("td", {}, h("button", { type: "button", class: "button", onclick: () => this.release(lever) },
            "Release …"))))))
        : h("p", { class: "muted" }, "None: everything is as the file has it."));
    } catch (error) {
      this.levers.replaceChildren(h("p", { class: "empty" }, error.message));
    }
  }
}

const named = (lever) => [lever.kind, lever.subject, lever.setting].filter(Boolean).join(" ");

function changeOf(outcome) {
  const [before, after] = [outcome.before.map(named), outcome.after.map(named)];
  const added = after.filter((name) => !before.includes(name));
  const released = before.filter((name) => !after.includes(name));
  const parts = [...added.map((name) => `sets: ${name}`), ...released.map((name) => `releases: ${name}`)];
  return parts.length ? parts.join("; ") : "No lever changes.";
}

function outcomeOf(outcome, executed) {
  const preview = outcome.preview;
  const moves = preview?.moves ?? [];
  return h("div", { class: "card" },
    h("h2", {}, executed ? "Executed" : "Dry run: nothing was changed"),
    h("p", {}, changeOf(outcome)),
    outcome.notes.length ? h("ul", {}, outcome.notes.map((line) => h("li", {}, line))) : null,
    preview ? h("p", {}, `Plan by ${preview.strategy}: ${whole(moves.length)} partitions change their member.`) : null,
    preview ? scoresOf(preview.before, preview.after) : null,
    moves.length ? h("details", {}, h("summary", {}, `${whole(moves.length)} moves`),
      h("ul", { class: "moves" }, moves.slice(0, 500).map((move) =>
        h("li", {}, `${move.topic}/${move.partition}: ${move.from ?? "nobody"} → ${move.to ?? "nobody"}`)))) : null,
    preview ? certificateOf(preview.certificate) : null);
}
