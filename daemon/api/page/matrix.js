// A group's members × partitions, coloured by lag. Only the cells in sight are drawn.
//
// Packed: the row of a member has its own partitions, side by side. Aligned: a column for each partition.
// A partition that is read from another rack has a diagonal line, one that is handed over a ring, so that
// neither needs a colour to be told apart.

import { h } from "./dom.js";
import { atLeast, DASH, duration, whole } from "./format.js";

const CELL = 18;
const GAP = 2;
const LABEL = 210;
const HEAD = 4;
export const ALIGNED_UP_TO = 96;
const STEPS = 6;
const NOBODY = -1;

function colours(element) {
  const style = getComputedStyle(element);
  const value = (name) => style.getPropertyValue(name).trim();
  return {
    heat: Array.from({ length: STEPS }, (_, index) => value(`--heat-${index}`)),
    mark: Array.from({ length: STEPS }, (_, index) => value(`--heat-mark-${index}`)),
    text: value("--text"), muted: value("--muted"), focus: value("--accent"),
    line: value("--border"), font: style.fontFamily,
  };
}

// 0 is the first step; the others divide the logarithm of the largest value evenly.
function step(value, most) {
  if (!value || value <= 0) return 0;
  const share = Math.log1p(value) / Math.log1p(Math.max(most, 1));
  return Math.min(1 + Math.floor(share * (STEPS - 1)), STEPS - 1);
}

export class Matrix {
  constructor({ label }) {
    this.rows = [];
    this.columns = 0;
    this.aligned = false;
    this.by = "lag";
    this.chosen = null;
    this.canvas = h("canvas", {
      class: "matrix-canvas", tabindex: "0", role: "application", "aria-label": label,
      "aria-roledescription": "matrix of members and partitions", "aria-describedby": "matrix-help",
    });
    this.spacer = h("div", { class: "matrix-spacer" });
    this.scroller = h("div", { class: "matrix-scroller" }, this.canvas, this.spacer);
    this.reading = h("output", { class: "matrix-reading", "aria-live": "polite" },
      "Point at a cell, or move with the arrow keys.");
    this.legend = h("div", { class: "legend", id: "matrix-help" });
    this.element = h("div", { class: "matrix" }, this.legend, this.scroller, this.reading);
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.scroller);
    this.showLegend();
  }

  close() { this.resizing.disconnect(); }

  // `group` is a document of /api/v1/groups/NAME.
  show(group, { aligned, by }) {
    this.aligned = aligned;
    this.by = by;
    this.group = group;
    const line = (member, index) => ({ member, index, cells: [], lag: 0, known: 0, unknown: 0 });
    const rows = group.member.map(line);
    const nobody = line({ instance: "nobody", rack: null }, NOBODY);
    let column = 0;
    let most = 0;
    let mostSeconds = 0;
    group.topic.forEach((topic, number) => {
      const unclaimed = new Set(topic.unclaimed);
      const moving = new Set(topic.moving);
      for (let partition = 0; partition < topic.partitions; partition += 1) {
        const owner = topic.owner[partition];
        if (owner !== NOBODY || !unclaimed.has(partition)) {
          const row = owner === NOBODY ? nobody : rows[owner];
          const lag = topic.lag[partition];
          const seconds = topic.seconds ? topic.seconds[partition] : null;
          row.cells.push({
            topic: number, partition, column, lag, seconds, local: topic.local[partition],
            moving: moving.has(partition),
          });
          if (lag === null) {
            row.unknown += 1;
          } else {
            row.known += 1;
            row.lag += lag;
            if (lag > most) most = lag;
          }
          if (seconds > mostSeconds) mostSeconds = seconds;
        }
        column += 1;
      }
    });
    this.columns = column;
    this.most = by === "lag" ? most : mostSeconds;
    this.rows = nobody.cells.length ? [...rows, nobody] : rows;
    const widest = this.aligned ? column : Math.max(0, ...this.rows.map((row) => row.cells.length));
    this.spacer.style.width = `${LABEL + widest * CELL + GAP}px`;
    this.spacer.style.height = `${HEAD + this.rows.length * CELL + GAP}px`;
    this.draw();
    if (this.chosen) this.readOut();
    this.showLegend();
  }

  showLegend() {
    const step = (index) => h("span", { class: `swatch heat-${index}`, "aria-hidden": "true" });
    const most = this.most === undefined ? DASH
      : this.by === "lag" ? `${whole(this.most)} records` : duration(this.most);
    const text = `0 to ${most}`;
    if (this.legendText === text) return;
    this.legendText = text;
    this.legend.replaceChildren(
      h("span", { class: "legend-item" }, "0", Array.from({ length: STEPS }, (_, i) => step(i)), most),
      h("span", { class: "legend-item" }, h("span", { class: "swatch unknown" }), "lag not known"),
      h("span", { class: "legend-item" }, h("span", { class: "swatch heat-1 crossing" }), "read from another rack"),
      h("span", { class: "legend-item" }, h("span", { class: "swatch heat-1" }), "local, or racks unknown"),
      h("span", { class: "legend-item" }, h("span", { class: "swatch heat-1 handed" }), "being handed over"));
  }

  draw() {
    const width = this.scroller.clientWidth;
    const height = this.scroller.clientHeight;
    if (!width || !height) return;
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const context = this.canvas.getContext("2d");
    const palette = colours(this.element);
    const [left, top] = [this.scroller.scrollLeft, this.scroller.scrollTop];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const first = Math.max(Math.floor((top - HEAD) / CELL), 0);
    const last = Math.min(Math.ceil((top - HEAD + height) / CELL), this.rows.length);
    for (let index = first; index < last; index += 1) {
      const row = this.rows[index];
      const y = HEAD + index * CELL - top;
      context.save();
      context.beginPath();
      context.rect(LABEL, 0, width - LABEL, height);
      context.clip();
      this.drawCells(context, palette, row, y, left, width);
      context.restore();
      this.drawLabel(context, palette, row, y);
    }
    if (this.chosen) this.drawChosen(context, palette, left, top);
  }

  drawCells(context, palette, row, y, left, width) {
    const size = CELL - GAP;
    const begin = Math.max(Math.floor(left / CELL), 0);
    const end = Math.ceil((left + width - LABEL) / CELL);
    const cells = this.aligned
      ? row.cells.filter((cell) => cell.column >= begin && cell.column <= end)
      : row.cells.slice(begin, end + 1);
    cells.forEach((cell, offset) => {
      const x = LABEL + (this.aligned ? cell.column : begin + offset) * CELL - left;
      const heat = step(this.by === "lag" ? cell.lag : cell.seconds, this.most);
      if (cell.lag === null) {
        context.strokeStyle = palette.muted;
        context.lineWidth = 1;
        context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
      } else {
        context.fillStyle = palette.heat[heat];
        context.fillRect(x, y, size, size);
      }
      context.strokeStyle = cell.lag === null ? palette.muted : palette.mark[heat];
      if (cell.local === false) {
        context.lineWidth = 1.75;
        context.beginPath();
        context.moveTo(x + 2.5, y + size - 2.5);
        context.lineTo(x + size - 2.5, y + 2.5);
        context.stroke();
      }
      if (cell.moving) {
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(x + size / 2, y + size / 2, size / 2 - 3, 0, 2 * Math.PI);
        context.stroke();
      }
    });
  }

  drawLabel(context, palette, row, y) {
    context.font = `12px ${palette.font}`;
    context.textBaseline = "middle";
    context.fillStyle = row.index === NOBODY ? palette.muted : palette.text;
    const rack = row.member.rack ? ` · ${row.member.rack}` : "";
    context.textAlign = "left";
    let name = `${row.member.instance}${rack}`;
    const room = LABEL - 76;
    if (context.measureText(name).width > room) {
      let kept = name.length;
      while (kept > 4 && context.measureText(`${name.slice(0, kept)}…`).width > room) kept -= 1;
      name = `${name.slice(0, kept)}…`;
    }
    context.fillText(name, 2, y + CELL / 2 - 1);
    context.fillStyle = palette.muted;
    context.textAlign = "right";
    const lag = row.unknown && !row.known ? null : row.lag;
    context.fillText(atLeast(whole, lag, row.unknown), LABEL - 8, y + CELL / 2 - 1);
  }

  drawChosen(context, palette, left, top) {
    const [row, at] = this.chosen;
    const cell = this.rows[row]?.cells[at];
    if (!cell) return;
    const x = LABEL + (this.aligned ? cell.column : at) * CELL - left;
    if (x < LABEL - CELL) return;
    context.strokeStyle = palette.focus;
    context.lineWidth = 2;
    context.strokeRect(x - 1, HEAD + row * CELL - top - 1, CELL - GAP + 2, CELL - GAP + 2);
  }

  point(event) {
    const row = Math.floor((event.offsetY + this.scroller.scrollTop - HEAD) / CELL);
    const column = Math.floor((event.offsetX - LABEL + this.scroller.scrollLeft) / CELL);
    const cells = this.rows[row]?.cells;
    if (!cells || event.offsetX < LABEL || column < 0) return;
    const at = this.aligned ? cells.findIndex((cell) => cell.column === column) : column;
    if (at >= 0 && at < cells.length) this.choose(row, at);
  }

  onKey(event) {
    if (!this.rows.length) return;
    const [row, at] = this.chosen ?? [0, -1];
    const page = Math.max(Math.floor(this.scroller.clientHeight / CELL) - 1, 1);
    const move = {
      ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0],
      PageDown: [page, 0], PageUp: [-page, 0], Home: [0, -at], End: [0, Infinity],
    }[event.key];
    if (!move) return;
    event.preventDefault();
    let to = Math.min(Math.max(row + move[0], 0), this.rows.length - 1);
    const towards = move[0] < 0 ? -1 : 1;
    while (!this.rows[to].cells.length && this.rows[to + towards]) to += towards;
    const cells = this.rows[to].cells;
    if (!cells.length) return;
    this.choose(to, Math.min(Math.max(at + move[1], 0), cells.length - 1), true);
  }

  choose(row, at, reveal = false) {
    this.chosen = [row, at];
    if (reveal) {
      const x = (this.aligned ? this.rows[row].cells[at].column : at) * CELL;
      const y = HEAD + row * CELL;
      const [width, height] = [this.scroller.clientWidth - LABEL, this.scroller.clientHeight];
      if (x < this.scroller.scrollLeft) this.scroller.scrollLeft = x;
      if (x + CELL > this.scroller.scrollLeft + width) this.scroller.scrollLeft = x + CELL - width;
      if (y < this.scroller.scrollTop) this.scroller.scrollTop = y - HEAD;
      if (y + CELL > this.scroller.scrollTop + height) this.scroller.scrollTop = y + CELL - height;
    }
    this.draw();
    this.readOut();
  }

  readOut() {
    const [row, at] = this.chosen;
    const line = this.rows[row];
    const cell = line?.cells[at];
    if (!cell) { this.chosen = null; return; }
    const topic = this.group.topic[cell.topic];
    const racks = this.group.rack_sets[topic.racks[cell.partition]] ?? [];
    const place = cell.local === null ? "racks unknown" : cell.local ? "local" : "read from another rack";
    this.reading.textContent = [
      `${topic.topic}/${cell.partition}`, line.member.instance, cell.lag === null ? "lag not known" : `${whole(cell.lag)} records behind`,
      `waiting ${atLeast(duration, cell.seconds, topic.seconds_lower_bound.includes(cell.partition))}`, place, racks.length ? `replicas in ${racks.join(", ")}` : null,
      cell.moving ? "being handed over" : null,
    ].filter(Boolean).join("  ·  ");
  }
}
