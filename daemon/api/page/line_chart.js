// Lines over time, as SVG: a small one for a row of a table, and a whole chart with axes.
// Points are taken every ten seconds and read as often, so each line ends with the newest figure.

import { h, svg } from "./dom.js";
import { clock, DASH } from "./format.js";

const SPARK = { width: 96, height: 22 };

const path = (values, x, y) => {
  let text = "";
  let down = false;
  values.forEach((value, index) => {
    if (value === null || value === undefined) { down = false; return; }
    text += `${down ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    down = true;
  });
  return text;
};

export function sparkline() {
  const line = svg("path", { class: "spark-line" });
  const element = svg("svg", {
    class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, width: SPARK.width,
    height: SPARK.height, "aria-hidden": "true",
  }, line);
  return {
    element,
    show(values) {
      const top = Math.max(1, ...values.map((value) => value ?? 0));
      const last = Math.max(values.length - 1, 1);
      line.setAttribute("d", path(values, (index) => (index / last) * (SPARK.width - 2) + 1,
        (value) => SPARK.height - 2 - (value / top) * (SPARK.height - 4)));
    },
  };
}

// Times and values of taken points, ended by the newest figure, which is at least as new as they are.
export function upToNow(at, values, newestAt, newest) {
  const last = at[at.length - 1];
  if (last !== undefined && (newestAt ?? 0) <= last) {
    return [at, [...values.slice(0, -1), newest]];
  }
  return newestAt ? [[...at, newestAt], [...values, newest]] : [at, values];
}

function niceTop(value) {
  const step = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * step).find((top) => top >= value);
}

// One figure over time; the pointer, or the arrow keys, show the value at a time.
export class LineChart {
  constructor({ title, format }) {
    this.title = title;
    this.format = format;
    this.at = [];
    this.values = [];
    this.chosen = null;
    this.plot = svg("svg", { class: "chart-plot", "aria-hidden": "true" });
    this.reading = h("output", { class: "chart-reading" });
    this.area = h("div", {
      class: "chart-area", tabindex: "0", role: "img", "aria-label": title,
    }, this.plot);
    this.element = h("figure", { class: "chart" },
      h("figcaption", {}, h("span", {}, title), this.reading), this.area);
    this.area.addEventListener("pointermove", (event) => this.choose(this.nearest(event.offsetX)));
    this.area.addEventListener("pointerleave", () => this.choose(null));
    this.area.addEventListener("blur", () => this.choose(null));
    this.area.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.choose((this.chosen ?? this.at.length - 1) + step);
    });
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.area);
  }

  close() { this.resizing.disconnect(); }

  show(at, values) {
    this.at = at;
    this.values = values;
    this.draw();
  }

  choose(index) {
    this.chosen = index === null ? null : Math.min(Math.max(index, 0), this.at.length - 1);
    this.draw();
  }

  // The place of a point between the ends of the line, from 0 to 1, by its time.
  share(index) {
    const first = this.at[0];
    const span = this.at[this.at.length - 1] - first;
    return span > 0 ? Math.min(Math.max((this.at[index] - first) / span, 0), 1) : 0; // clocks go back
  }

  nearest(offset) {
    const share = (offset - this.left) / this.width;
    let best = 0;
    for (let index = 1; index < this.at.length; index += 1) {
      if (Math.abs(this.share(index) - share) < Math.abs(this.share(best) - share)) best = index;
    }
    return best;
  }

  draw() {
    const full = this.area.clientWidth || 480;
    const height = 150;
    const [left, bottom, top] = [56, 20, 8];
    this.left = left;
    this.width = full - left - 8;
    const known = this.values.filter((value) => value !== null && value !== undefined);
    const most = niceTop(Math.max(1, ...known));
    const x = (index) => left + this.share(index) * this.width;
    const y = (value) => top + (1 - value / most) * (height - top - bottom);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = y(most * share);
      parts.push(svg("line", { class: "grid", x1: left, x2: full - 8, y1: at, y2: at }));
      parts.push(svg("text", { class: "axis", x: left - 6, y: at + 4, "text-anchor": "end" },
        this.format(most * share)));
    }
    for (const share of this.at.length ? [0, 0.5, 1] : []) {
      const [first, last] = [this.at[0], this.at[this.at.length - 1]];
      parts.push(svg("text", {
        class: "axis", x: left + share * this.width, y: height - 4,
        "text-anchor": ["start", "middle", "end"][share * 2],
      }, clock(first + share * (last - first))));
    }
    parts.push(svg("path", { class: "line", d: path(this.values, x, y) }));
    const index = this.chosen ?? this.values.length - 1;
    const value = this.values[index];
    if (value !== null && value !== undefined) {
      parts.push(svg("circle", { class: "dot", cx: x(index), cy: y(value), r: 3.5 }));
    }
    if (this.chosen !== null) {
      parts.push(svg("line", {
        class: "cursor", x1: x(index), x2: x(index), y1: top, y2: height - bottom,
      }));
    }
    this.plot.setAttribute("viewBox", `0 0 ${full} ${height}`);
    this.plot.setAttribute("height", String(height));
    this.plot.replaceChildren(...parts);
    const shown = value === null || value === undefined ? DASH : this.format(value);
    this.reading.textContent = this.chosen === null ? shown : `${clock(this.at[index])}  ${shown}`;
    this.area.setAttribute("aria-label", known.length
      ? `${this.title}: ${shown} now, at most ${this.format(Math.max(...known))}`
      : `${this.title}: nothing measured yet`);
  }
}
