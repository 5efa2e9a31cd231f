// The operations of a step, summed by layer: what the graph draws.

import { evaluates, taken } from "./schedule.js";

const NO_LAYER = /^net: ([^,(]*)/;

/** The layer that an operation belongs to, as deep as asked for; outside of layers, what it does. */
export function layerOf(op, depth) {
  if (op.layer) return op.layer.split(".").slice(0, depth).join(".");
  return op.phase === "loss" ? "loss" : NO_LAYER.exec(op.title)?.[1].trim() || "outside of layers";
}

export function deepest(ops) {
  return ops.reduce((most, op) => Math.max(most, op.layer.split(".").length), 1);
}

/** The most detail that still gives at most `most` rows. */
export function readableDepth(ops, most) {
  const rows = (depth) => new Set(ops.map((op) => layerOf(op, depth))).size;
  let depth = 1;
  while (depth < deepest(ops) && rows(depth + 1) <= most) depth += 1;
  return depth;
}

/** Rows in order of their first operation, with work by direction, and what forward keeps for backward. */
export function layerRows(ops, depth) {
  const rows = new Map();
  const rowNamed = (name) => {
    if (!rows.has(name)) rows.set(name, { name, at: rows.size, forward: work(), backward: work(), update: work(), kept: 0, last: 0 });
    return rows.get(name);
  };
  const makers = { forward: new Map(), backward: new Map() };
  const arrows = { forward: new Map(), backward: new Map() };
  const kept = new Set();
  for (const op of ops) {
    const side = sideOf(op);
    const name = layerOf(op, depth);
    for (const part of op.phase === "forward" || evaluates(op) ? op.parts : []) {
      const inside = layerOf({ ...op, layer: part }, depth);
      const row = rowNamed(inside);
      if (inside !== name) row.inside ??= name;
    }
    const row = rowNamed(name);
    add(row[side], op);
    if (side === "update") continue;
    for (const t of op.reads) {
      if (t.role === "weights" || t.role === "optimizer" || t.role === "kept") continue;
      const maker = makers[side].get(t.index);
      if (maker && maker !== row) arrows[side].set(`${maker.at} ${row.at}`, [maker.at, row.at]);
      const saver = makers.forward.get(t.index);
      if (side === "backward" && saver && !kept.has(t.index)) {
        kept.add(t.index);
        saver.kept += t.bytes;
      }
    }
    for (const t of op.writes) makers[side].set(t.index, row);
  }
  return { rows: [...rows.values()], arrows: { forward: [...arrows.forward.values()], backward: [...arrows.backward.values()] } };
}

function work() {
  return { ops: 0, macs: 0, taken: 0 };
}

function add(sum, op) {
  sum.ops += 1;
  sum.macs += op.macs;
  sum.taken += taken(op);
}

function sideOf(op) {
  if (op.phase === "backward") return "backward";
  return ["forward", "loss", "evaluation"].includes(op.phase) ? "forward" : "update";
}

/** Lanes for arrows that pass other rows, so that those of one lane do not overlap. */
export function lanes(arrows) {
  const far = arrows.filter(([from, to]) => Math.abs(to - from) > 1).map(([from, to]) => ({ from, to }));
  const span = ({ from, to }) => Math.abs(to - from);
  const used = [];
  for (const arrow of far.sort((a, b) => span(a) - span(b))) {
    const [low, high] = [Math.min(arrow.from, arrow.to), Math.max(arrow.from, arrow.to)];
    let lane = used.findIndex((taken) => taken.every(([l, h]) => h <= low || l >= high));
    if (lane < 0) lane = used.push([]) - 1;
    used[lane].push([low, high]);
    arrow.lane = lane;
  }
  return far;
}
