// Parts of a plan that several views show: the scores before and after, and the certificate.

import { h } from "./dom.js";
import { DASH, duration, figure, percent, whole } from "./format.js";

const SCORES = [
  ["drain_seconds", "Time to drain", duration], ["skew", "Skew", figure],
  ["utilisation", "Utilisation", percent], ["cross_rack", "Cross-rack", percent],
  ["spread", "Spread", whole], ["moved", "Moved", whole],
];

function difference(before, after) {
  if (typeof before !== "number" || typeof after !== "number" || before === after) return "";
  return after < before ? "better" : "worse";
}

export function scoresOf(before, after) {
  const known = SCORES.filter(([name]) => before?.[name] !== undefined || after?.[name] !== undefined);
  if (!known.length) return null;
  return h("table", { class: "scores" },
    h("thead", {}, h("tr", {}, h("td", {}),
      known.map(([, title]) => h("th", { scope: "col" }, title)))),
    h("tbody", {},
      h("tr", {}, h("th", { scope: "row" }, "before"),
        known.map(([name, , format]) => h("td", {}, format(before?.[name] ?? null)))),
      h("tr", {}, h("th", { scope: "row" }, "after"),
        known.map(([name, , format]) => {
          const kind = name === "moved" ? "" : difference(before?.[name], after?.[name]);
          const sign = { better: " ↓", worse: " ↑" }[kind] ?? "";
          return h("td", { class: kind }, `${format(after?.[name] ?? null)}${sign}`);
        }))));
}

export function certificateOf(certificate) {
  if (!certificate) return null;
  const lines = Array.isArray(certificate) ? certificate : certificate.summary ?? [];
  const objectives = Array.isArray(certificate) ? {} : certificate.objectives ?? {};
  const rows = Object.entries(objectives);
  return h("details", { class: "certificate" },
    h("summary", {}, "Certificate", h("span", { class: "muted" },
      certificate.complete === false ? `  search cut short by ${(certificate.cut_by ?? []).join(", ")}` : "")),
    h("ul", {}, lines.map((line) => h("li", {}, line))),
    rows.length ? h("table", { class: "scores" },
      h("thead", {}, h("tr", {}, ["objective", "value", "bound", "why no plan is below it"].map(
        (title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, rows.map(([name, objective]) => h("tr", {},
        h("th", { scope: "row" }, name), h("td", {}, figure(objective.value, 3)),
        h("td", {}, figure(objective.bound, 3)), h("td", { class: "prose" }, objective.bound_kind ?? DASH))))) : null);
}
