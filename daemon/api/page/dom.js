// Elements from names, properties and children. Text is always set as text, never parsed as markup.

import { ago } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

// Children as they are given: some in lists of their own, some null where there is none.
const present = (children) => children.flat().filter((child) => child !== null && child !== undefined);

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

export const h = (tag, properties, ...children) =>
  fill(document.createElement(tag), properties, children);

export const svg = (tag, properties, ...children) =>
  fill(document.createElementNS(SVG, tag), properties, children);

// Set a text only where it differs, so that an update without a change costs no layout.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, text) {
  if (element.getAttribute("class") !== text) element.setAttribute("class", text);
}

// Replace all children; without those that are null.
export const put = (element, ...children) => element.replaceChildren(...present(children));

export const tile = (label, value, note = null) =>
  h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value),
    note ? h("dd", { class: "note" }, note) : null);

export const badge = (text, kind = "", title = null) =>
  h("span", { class: `badge ${kind}`, title }, text);

// How long ago a time was, in milliseconds since the epoch; renewed as long as it is shown.
export const age = (at) => h("span", { data: { at } }, ago(at));

export function renewAges() {
  for (const shown of document.querySelectorAll("[data-at]")) setText(shown, ago(Number(shown.dataset.at)));
}

// Tabs that work by arrow keys, as the ARIA practices describe them.
export function tabs(label, names, chosen, choose) {
  const buttons = names.map(([id, text]) => h("button", {
    type: "button", role: "tab", id: `tab-${id}`, "aria-selected": String(id === chosen),
    tabindex: id === chosen ? "0" : "-1", onclick: () => select(id),
  }, text));
  function select(id) {
    buttons.forEach((button, index) => {
      const on = names[index][0] === id;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
    });
    choose(id);
  }
  const list = h("div", { role: "tablist", class: "tabs", "aria-label": label }, buttons);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = buttons.indexOf(document.activeElement);
    const next = (at + step + buttons.length) % buttons.length;
    buttons[next].focus();
    select(names[next][0]);
    event.preventDefault();
  });
  return list;
}
