// A table of any length that has only the rows in sight in the document.
//
// Columns: { id, title, number, width, value(row) for sorting, show(cell, row) }. Rows are reused, and a
// cell is written only where it changed. By keyboard: arrows, Page Up and Down, Home, End, Enter.

import { h } from "./dom.js";

const ROW_PX = 36;
const SPARE_ROWS = 4;

const leastRem = (width) => Number(/([\d.]+)rem/.exec(width)[1]);

export class VirtualTable {
  constructor({ label, columns, sort, descending = false, open = null }) {
    this.columns = columns;
    this.rows = [];
    this.sorted = [];
    this.sort = sort;
    this.descending = descending;
    this.open = open;
    this.active = -1;
    this.pool = new Map();
    this.free = [];
    this.template = columns.map((column) => column.width).join(" ");
    // Every row has the same least width, so that the columns of all rows are the same.
    const least = columns.reduce((sum, column) => sum + leastRem(column.width), 0);
    this.leastWidth = `${least + 0.8 * (columns.length - 1) + 1.6}rem`;
    this.heads = columns.map((column) => h("div", {
      role: "columnheader", class: column.number ? "number" : "",
      "aria-sort": "none",
    }, column.value
      ? h("button", { type: "button", class: "head", onclick: () => this.sortBy(column.id) },
        column.title, h("span", { class: "arrow", "aria-hidden": "true" }))
      : column.title));
    this.head = h("div", { role: "row", class: "table-row table-head", "aria-rowindex": "1" }, this.heads);
    this.head.style.gridTemplateColumns = this.template;
    this.head.style.minWidth = this.leastWidth;
    this.body = h("div", { class: "table-body", role: "rowgroup" });
    this.body.style.minWidth = this.leastWidth;
    this.scroller = h("div", {
      class: "table-scroller", tabindex: "0", role: "grid", "aria-label": label,
      "aria-readonly": "true", "aria-colcount": columns.length,
    }, h("div", { role: "rowgroup", class: "table-head-group" }, this.head), this.body);
    this.element = this.scroller;
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.onKey(event));
    this.resizing = new ResizeObserver(() => this.draw());
    this.resizing.observe(this.scroller);
    this.showSort();
  }

  close() { this.resizing.disconnect(); }

  sortBy(id) {
    this.descending = this.sort === id ? !this.descending
      : Boolean(this.columns.find((column) => column.id === id).number);
    this.sort = id;
    this.showSort();
    this.setRows(this.rows);
  }

  showSort() {
    this.columns.forEach((column, index) => {
      const on = column.id === this.sort;
      const order = this.descending ? "descending" : "ascending";
      this.heads[index].setAttribute("aria-sort", on ? order : "none");
    });
  }

  setRows(rows) {
    const chosen = this.sorted[this.active];
    this.rows = rows;
    const column = this.columns.find((each) => each.id === this.sort);
    const sign = this.descending ? -1 : 1;
    const keyed = rows.map((row) => [column.value(row), row]);
    keyed.sort(([a, rowA], [b, rowB]) => {
      if (a === b) return rowA.key < rowB.key ? -1 : 1;
      if (a === null || a === undefined) return 1; // no figure: at the end in both orders
      if (b === null || b === undefined) return -1;
      return (a < b ? -1 : 1) * sign;
    });
    this.sorted = keyed.map(([, row]) => row);
    if (chosen) this.active = this.sorted.findIndex((row) => row.key === chosen.key);
    this.scroller.setAttribute("aria-rowcount", String(rows.length + 1));
    this.body.style.height = `${rows.length * ROW_PX}px`;
    this.draw();
  }

  draw() {
    const top = Math.max(this.scroller.scrollTop, 0);
    const height = this.scroller.clientHeight || 600;
    const first = Math.max(Math.floor(top / ROW_PX) - SPARE_ROWS, 0);
    const last = Math.min(Math.ceil((top + height) / ROW_PX) + SPARE_ROWS, this.sorted.length);
    for (const [index, line] of this.pool) {
      if (index < first || index >= last) {
        this.pool.delete(index);
        this.free.push(line);
      }
    }
    for (let index = first; index < last; index += 1) {
      let line = this.pool.get(index);
      if (!line) {
        line = this.free.pop() ?? this.newLine();
        line.element.hidden = false;
        this.pool.set(index, line);
      }
      this.drawLine(line, index);
    }
    for (const line of this.free) line.element.hidden = true;
    const active = this.pool.get(this.active);
    if (active) this.scroller.setAttribute("aria-activedescendant", active.element.id);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  newLine() {
    const cells = this.columns.map((column) =>
      h("div", { role: "gridcell", class: column.number ? "number" : "" }));
    VirtualTable.lines = (VirtualTable.lines ?? 0) + 1;
    const element = h("div", {
      role: "row", class: "table-row", id: `row-${VirtualTable.lines}`,
      onclick: () => this.choose(line.index, true),
    }, cells);
    element.style.gridTemplateColumns = this.template;
    const line = { element, cells, index: -1, drawn: cells.map(() => ({})) };
    this.body.append(element);
    return line;
  }

  drawLine(line, index) {
    const row = this.sorted[index];
    if (line.index !== index) {
      line.index = index;
      line.element.style.transform = `translateY(${index * ROW_PX}px)`;
      line.element.setAttribute("aria-rowindex", String(index + 2));
    }
    line.element.setAttribute("aria-selected", String(index === this.active));
    this.columns.forEach((column, at) => column.show(line.cells[at], row, line.drawn[at]));
  }

  choose(index, open = false) {
    this.active = index;
    this.draw();
    if (open && this.open) this.open(this.sorted[index]);
  }

  onKey(event) {
    if (event.target !== this.scroller) return;
    const page = Math.max(Math.floor(this.scroller.clientHeight / ROW_PX) - 2, 1);
    const last = this.sorted.length - 1;
    const to = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page,
      PageUp: this.active - page, Home: 0, End: last,
    }[event.key];
    if (event.key === "Enter" && this.active >= 0 && this.open) this.open(this.sorted[this.active]);
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.active = Math.min(Math.max(to, 0), last);
    const top = this.active * ROW_PX;
    const room = this.scroller.clientHeight - ROW_PX;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + ROW_PX > this.scroller.scrollTop + room) {
      this.scroller.scrollTop = top + ROW_PX - room;
    }
    this.draw();
  }
}
