// Forward down the left, backward up the right, and between them what forward keeps.

import { brief, count, el, fitted, percent, svg } from "./dom.js";
import { deepest, lanes, layerRows, readableDepth } from "./layers.js";
import { evaluates } from "./schedule.js";

const READABLE = 40; // rows
const ROW = 40;
const GAP = 14;
const MOST_LANES = 5;
const LETTER = 6.9; // pixels, of the names

export class LayerGraph {
  constructor(data, place, look) {
    const [step, evaluation] = [data.ops.filter((op) => !evaluates(op)), data.ops.filter(evaluates)];
    Object.assign(this, { ops: step, look });
    this.depth = readableDepth(step, READABLE);
    this.drawing = el("div", { class: "graph scroll", tabindex: 0, role: "region", "aria-label": "Graph of the layers" });
    const finest = deepest(step);
    const choice = el("select", { "aria-label": "Detail", on: { change: () => this.show({ depth: Number(choice.value) }) } });
    for (let depth = 1; depth <= finest; depth += 1)
      choice.append(el("option", { value: depth, selected: depth === this.depth }, depth === finest ? "every layer" : `names of ${depth} part${depth > 1 ? "s" : ""}`));
    const which = el("select", { "aria-label": "Part", on: { change: () => this.show({ ops: which.value === "step" ? step : evaluation }) } });
    which.append(el("option", { value: "step" }, "the training step"), el("option", { value: "evaluation" }, "an evaluation"));
    place.replaceChildren(
      el("div", { class: "tools", hidden: finest === 1 && !evaluation.length }, ...(finest > 1 ? ["Detail", choice] : []), ...(evaluation.length ? ["of", which] : [])),
      this.drawing,
    );
    new ResizeObserver(() => requestAnimationFrame(() => this.draw())).observe(this.drawing);
  }

  show(changed) {
    Object.assign(this, changed);
    this.width = 0;
    this.draw();
  }

  draw() {
    const width = Math.max(Math.min(this.drawing.clientWidth, 1000), 300);
    if (width === this.width) return;
    this.width = width;
    const { rows, arrows } = layerRows(this.ops, this.depth);
    const lane = Math.max(width * 0.012, 4);
    const side = 14 + lane * MOST_LANES;
    const both = rows.some((row) => row.backward.ops || row.update.ops);
    const box = (width - 2 * side) * (both ? 0.4 : 1);
    const shape = { lane, side, box, left: side, right: width - side - box, width };
    this.whole = rows.reduce((sum, row) => sum + row.forward.taken + row.backward.taken + row.update.taken, 0);
    this.most = Math.max(...rows.map((row) => Math.max(row.forward.taken, row.backward.taken + row.update.taken)), 1);
    const height = rows.length * (ROW + GAP) + GAP;
    const drawn = [
      ...this.arrows(arrows.forward, shape, "left"),
      ...this.arrows(arrows.backward, shape, "right"),
      ...rows.flatMap((row) => this.row(row, shape)),
    ];
    const attributes = { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Layers, forward and backward" };
    this.drawing.replaceChildren(svg("svg", attributes, ...drawn));
  }

  row(row, shape) {
    const y = top(row.at);
    const drawn = [];
    if (row.forward.ops || row.inside) drawn.push(this.box(row, [["forward", row.forward]], shape.left, y, shape));
    if (row.backward.ops || row.update.ops)
      drawn.push(this.box(row, [["backward", row.backward], ["update", row.update]], shape.right, y, shape));
    if (row.kept && row.backward.ops + row.forward.ops) {
      const [from, to] = [shape.left + shape.box, shape.right];
      const thick = 1 + Math.min(Math.log2(1 + row.kept / 1024), 10) / 2;
      drawn.push(svg("line", { class: "rung", x1: from, x2: to, y1: y + ROW / 2, y2: y + ROW / 2, "stroke-width": thick }));
      drawn.push(svg("text", { class: "quiet", x: (from + to) / 2, y: y + ROW / 2 - 6, "text-anchor": "middle" }, brief(row.kept)));
    }
    return drawn;
  }

  box(row, parts, x, y, { box }) {
    const [macs, spent] = ["macs", "taken"].map((key) => parts.reduce((sum, [, work]) => sum + work[key], 0));
    const ops = parts.reduce((sum, [, work]) => sum + work.ops, 0);
    const words = macs ? `${briefly(macs)} multiply-adds` : ops ? `${count(ops)} operation${ops > 1 ? "s" : ""}` : `done with ${row.inside}`;
    const share = percent(spent, this.whole);
    const room = Math.floor((box - 16) / LETTER);
    const bars = [];
    let at = x;
    for (const [name, work] of parts) {
      const width = ((box - 2) * work.taken) / this.most;
      bars.push(svg("rect", { class: `load ${name}`, x: at + 1, y: y + ROW - 4, width, height: 3 }));
      at += width;
    }
    const about = parts.filter(([, w]) => w.ops).map(([name, w]) => `${name}: ${count(w.macs)} multiply-adds, ${percent(w.taken, this.whole) || "no"} of the cycles`);
    const second = [words, share].filter(Boolean).join(" · ");
    return svg(
      "a",
      { href: "#schedule", "aria-label": `${row.name}, ${about.join("; ")}`, on: { click: (event) => this.open(event, row.name) } },
      svg("title", {}, `${row.name}\n${about.join("\n")}${row.kept ? `\n${count(row.kept)} bytes kept for backward` : ""}`),
      svg("rect", { class: "box", x, y, width: box, height: ROW, rx: 5 }),
      svg("text", { x: x + 8, y: y + 16, class: "name" }, fitted(row.name, room)),
      svg("text", { class: "quiet", x: x + 8, y: y + 31 }, fitted(share && second.length > room ? share : second, room)),
      ...bars,
    );
  }

  open(event, name) {
    event.preventDefault();
    this.look(name);
  }

  /** To the next row straight; past others along the side. */
  arrows(list, shape, side) {
    const inner = side === "left" ? shape.left : shape.right + shape.box;
    const away = side === "left" ? -1 : 1;
    const middle = side === "left" ? shape.left + shape.box / 2 : shape.right + shape.box / 2;
    const near = list.filter(([from, to]) => Math.abs(from - to) === 1).map(([from, to]) => {
      const down = to > from;
      const [y1, y2] = down ? [top(from) + ROW, top(to) - 1] : [top(from), top(to) + ROW + 1];
      return svg("g", {}, svg("line", { class: "arrow", x1: middle, x2: middle, y1, y2 }), head(middle, y2, down ? 1 : -1, 0));
    });
    const far = lanes(list).map(({ from, to, lane }) => {
      const x = inner + away * (10 + (lane % MOST_LANES) * shape.lane);
      const shift = to > from ? 8 : -8;
      const [y1, y2] = [top(from) + ROW / 2 + shift, top(to) + ROW / 2 - shift];
      const path = `M${inner} ${y1} H${x - away * 3} Q${x} ${y1} ${x} ${y1 + Math.sign(y2 - y1) * 3} V${y2 - Math.sign(y2 - y1) * 3} Q${x} ${y2} ${x - away * 3} ${y2} H${inner}`;
      return svg("g", {}, svg("path", { class: "arrow", d: path }), head(inner, y2, 0, -away));
    });
    return [...near, ...far];
  }
}

function top(row) {
  return GAP + row * (ROW + GAP);
}

function head(x, y, down, right) {
  const points = down ? [[x, y], [x - 4, y - 6 * down], [x + 4, y - 6 * down]] : [[x, y], [x - 6 * right, y - 4], [x - 6 * right, y + 4]];
  return svg("polygon", { class: "head", points: points.map((p) => p.join(",")).join(" ") });
}

function briefly(number) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]])
    if (number >= size) return `${Number((number / size).toPrecision(3))}${unit}`;
  return count(number);
}
