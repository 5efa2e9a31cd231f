// Tables to sort and to search. The first rows are there at once, the others when asked for.

import { count, el } from "./dom.js";

const FIRST = 100;

/**
 * columns: { name, value(row), show(row) -> text or element, number, title, wide }, `show` if it is not the value itself.
 * On a phone each row is a card: its title, lines of their own for what is `wide`, two figures a line.
 * words(row): the text that a search looks through.
 */
export class DataTable {
  constructor({ caption, columns, rows, words, marked = () => false }) {
    Object.assign(this, { columns, rows, words, marked });
    this.order = null;
    this.most = FIRST;
    this.query = "";
    this.head = el("tr", {}, ...columns.map((column, i) => this.heading(column, i)));
    this.body = el("tbody");
    this.said = el("span", { class: "say dim", "aria-live": "polite" });
    this.search = el("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": `Search: ${caption}`,
      on: { input: () => this.find(this.search.value) },
    });
    this.orders = el(
      "select",
      { class: "phone", "aria-label": `Order: ${caption}`, on: { change: () => this.chose(this.orders.value) } },
      el("option", { value: "" }, "Unsorted"),
      ...columns.map((column, i) => el("option", { value: i }, `Sort: ${column.name}`)),
    );
    this.more = el("button", { class: "more", type: "button", on: { click: () => this.showAll() } });
    const table = el("table", { class: "tall" }, el("caption", {}, caption), el("thead", {}, this.head), this.body);
    this.element = el(
      "div",
      {},
      el("div", { class: "tools" }, this.search, this.orders, this.said),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table),
      this.more,
    );
    this.draw();
  }

  heading(column, at) {
    const sort = el("button", { type: "button", on: { click: () => this.sort(at) } }, column.name);
    return el("th", { scope: "col", class: column.number ? "n" : null }, sort);
  }

  /** Numbers from the largest, words from A; a second time the other way round. */
  sort(at) {
    this.arrange({ at, down: this.order?.at === at ? !this.order.down : Boolean(this.columns[at].number) });
  }

  /** Of the list that a phone shows in place of headings. */
  chose(value) {
    this.arrange(value === "" ? null : { at: Number(value), down: Boolean(this.columns[value].number) });
  }

  arrange(order) {
    this.order = order;
    this.orders.value = order ? String(order.at) : "";
    [...this.head.children].forEach((cell, i) => {
      if (i === order?.at) cell.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    this.draw();
  }

  find(query) {
    this.query = query.toLowerCase();
    if (this.search.value !== query) this.search.value = query;
    this.draw();
  }

  showAll() {
    this.most = Infinity;
    this.draw();
  }

  chosen() {
    const found = this.rows.filter((row) => this.words(row).toLowerCase().includes(this.query));
    if (!this.order) return found;
    const { value } = this.columns[this.order.at];
    const sign = this.order.down ? -1 : 1;
    const compared = (a, b) => (typeof a === "string" ? a.localeCompare(b) : (a ?? -1) - (b ?? -1));
    return found.sort((a, b) => sign * compared(value(a), value(b)));
  }

  draw() {
    const found = this.chosen();
    const shown = found.slice(0, this.most);
    this.body.replaceChildren(...shown.map((row) => this.row(row)));
    this.said.textContent = `${count(found.length)} of ${count(this.rows.length)}`;
    this.more.hidden = shown.length === found.length;
    this.more.textContent = `Show all ${count(found.length)}`;
  }

  row(row) {
    const cells = this.columns.map((column, i) => {
      const shown = column.show ? column.show(row) : column.value(row);
      const kinds = ["number", "title", "wide"].filter((kind) => column[kind]);
      const attributes = { class: kinds.join(" ").replace("number", "n") || null, "data-name": column.name };
      return el(i ? "td" : "th", i ? attributes : { ...attributes, scope: "row" }, shown ?? "");
    });
    return el("tr", { class: this.marked(row) ? "picked" : null }, ...cells);
  }
}
