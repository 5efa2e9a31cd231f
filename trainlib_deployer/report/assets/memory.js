// The memory of one level over a step: to hover, to zoom, to walk through with the keyboard.

import { brief, colourOf, count, el } from "./dom.js";
import { View } from "./view.js";
import { paint } from "./paint.js";

const STEP = 1.5; // of a zoom

export class MemoryMap {
  constructor(data, at, place, look) {
    const level = data.levels[at];
    Object.assign(this, { data, level, look });
    this.buffers = data.buffers.filter((b) => b.level === at);
    this.view = new View(Math.max(data.ops.length, 1), ceiling(level));
    this.picked = null;
    this.pointers = new Map();
    this.tip = el("div", { class: "tip", hidden: true });
    this.said = el("p", { class: "hidden", "aria-live": "polite" });
    this.canvas = el("canvas", {
      tabindex: 0,
      role: "application",
      "aria-roledescription": "memory map",
      "aria-label": `${level.name}: ${count(this.buffers.length)} stretches of memory; arrow keys go from one to the next`,
    });
    this.listen();
    const title = el("h3", {}, `${level.name} `, el("small", {}, `${count(level.used)} of ${count(level.size)} bytes`));
    const frame = el("div", { class: "map" }, this.canvas, this.tip, this.said);
    place.append(title, this.legend(), this.tools(), frame);
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolour());
    this.recolour();
  }

  recolour() {
    this.colours = Object.fromEntries(["page", "panel", "text", "dim", "line", "link", "bad", ...Object.keys(this.data.roles)].map((n) => [n, colourOf(n)]));
    this.redraw();
  }

  legend() {
    const present = Object.entries(this.data.roles).filter(([role]) => this.buffers.some((b) => b.role === role));
    const entries = present.map(([role, words]) => el("li", {}, el("span", { class: `key ${role}` }), words));
    return el("ul", { class: "legend", "aria-label": "Colours" }, ...entries);
  }

  tools() {
    const button = (words, does) => el("button", { type: "button", on: { click: does } }, words);
    return el(
      "div",
      { class: "tools" },
      button("Zoom in", () => this.zoom(STEP)),
      button("Zoom out", () => this.zoom(1 / STEP)),
      button("Whole", () => this.moved(() => this.view.reset())),
      button("Fullest moment", () => this.moved(() => this.view.around(this.level.peak))),
    );
  }

  // ---- drawing

  redraw() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      paint(this);
    });
  }

  moved(change) {
    change();
    this.canvas.style.touchAction = this.view.whole ? "pan-y" : "none";
    this.hide();
    this.redraw();
  }

  zoom(factor, x, y) {
    this.moved(() => this.view.zoom(factor, x, y));
  }

  pick(buffer) {
    if (buffer === this.picked) return;
    this.picked = buffer;
    this.redraw();
  }

  hide() {
    this.tip.hidden = true;
    this.picked = null;
  }

  /** Beside the pointer, or beside a buffer. */
  tell(buffer, x, y) {
    this.pick(buffer);
    this.tip.hidden = !buffer;
    if (!buffer) return;
    const lines = [this.data.roles[buffer.role], `${count(buffer.size)} bytes at ${count(buffer.offset)}`, life(buffer, this.data.ops)];
    if (buffer.layer) lines.push(`layer ${buffer.layer}`);
    this.tip.replaceChildren(el("b", {}, buffer.label), ...lines.map((line) => el("div", {}, line)));
    const { clientWidth, clientHeight } = this.canvas;
    this.tip.style.left = `${Math.max(Math.min(x + 14, clientWidth - this.tip.offsetWidth - 4), 0)}px`;
    this.tip.style.top = `${y + 18 + this.tip.offsetHeight > clientHeight ? Math.max(y - this.tip.offsetHeight - 10, 0) : y + 18}px`;
  }

  // ---- pointer and keyboard

  listen() {
    const on = (name, does, options) => this.canvas.addEventListener(name, does, options);
    on("pointerdown", (e) => this.press(e));
    on("pointermove", (e) => this.drag(e));
    for (const name of ["pointerup", "pointercancel"]) on(name, (e) => this.pointers.delete(e.pointerId));
    on("pointerleave", () => this.moved(() => {}));
    on("wheel", (e) => this.wheel(e), { passive: false });
    on("dblclick", (e) => this.zoom(STEP * STEP, e.offsetX, e.offsetY));
    on("keydown", (e) => this.key(e));
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
  }

  drag(event) {
    const before = this.pointers.get(event.pointerId);
    const [x, y] = [event.offsetX, event.offsetY];
    if (!before) return this.tell(this.at(x, y), x, y);
    const others = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.pointers.set(event.pointerId, [x, y]);
    if (others.length) {
      const apart = (at) => Math.hypot(at[0] - others[0][0], at[1] - others[0][1]) || 1;
      this.zoom(apart([x, y]) / apart(before), (x + others[0][0]) / 2, (y + others[0][1]) / 2);
    } else if (x !== before[0] || y !== before[1]) this.moved(() => this.view.pan(x - before[0], y - before[1]));
  }

  /** The page scrolls until the map has been clicked. */
  wheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  }

  at(x, y) {
    const [op, byte] = this.view.inside(x, y) ? this.view.place(x, y) : [-1, -1];
    return this.buffers.find((b) => b.birth <= op && op < b.death && b.offset <= byte && byte < b.offset + b.size) ?? null;
  }

  key(event) {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const zooms = { "+": STEP, "=": STEP, "-": 1 / STEP };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ways[event.key]) this.walk(...ways[event.key]);
    else if (zooms[event.key]) this.zoom(zooms[event.key]);
    else if (event.key === "0") this.moved(() => this.view.reset());
    else if (event.key === "Enter" && this.picked) this.look(this.picked.layer);
    else if (event.key === "Escape") this.moved(() => {});
    else return;
    event.preventDefault();
  }

  /** To the nearest buffer in a direction; the first time to the largest of the fullest moment. */
  walk(right, up) {
    const next = this.picked ? this.neighbour(this.picked, right, up) : this.largest();
    if (!next) return;
    this.view.reveal(next);
    const [x, y] = this.view.point(Math.max((next.birth + Math.min(next.death, this.view.x1)) / 2, this.view.x0), next.offset + next.size / 2);
    this.tell(next, x, y);
    this.said.textContent = this.tip.innerText;
    this.redraw();
  }

  largest() {
    const { peak } = this.level;
    return this.buffers.filter((b) => b.birth <= peak && peak < b.death).sort((a, b) => b.size - a.size)[0] ?? this.buffers[0];
  }

  neighbour(from, right, up) {
    const [fx, fy] = [centre(from.birth, from.death), centre(from.offset, from.offset + from.size)];
    let [best, least] = [null, Infinity];
    for (const b of this.buffers) {
      const dx = (centre(b.birth, b.death) - fx) / this.view.width;
      const dy = (centre(b.offset, b.offset + b.size) - fy) / this.view.height;
      const along = right * dx + up * dy;
      const across = Math.abs(right * dy) + Math.abs(up * dx);
      if (b !== from && along > 1e-9 && along + 3 * across < least) [best, least] = [b, along + 3 * across];
    }
    return best;
  }
}

function centre(low, high) {
  return (low + high) / 2;
}

/** As high as what is used; the end of the memory is shown where it is near. */
function ceiling({ used, size }) {
  return size && size < 1.2 * used ? Math.max(size, used) * 1.02 : used * 1.04;
}

function life({ birth, death }, ops) {
  if (birth <= 0 && death >= ops.length) return "the whole step";
  const last = Math.max(death - 1, birth);
  const words = `${ops[birth]?.title ?? ""}`;
  return last === birth ? `operation ${birth}: ${words}` : `operations ${birth} to ${last}, from ${words}`;
}
