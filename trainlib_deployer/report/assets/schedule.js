// Every operation of a step: work, time, bytes, kernel, pieces.

import { count, el, percent } from "./dom.js";
import { DataTable } from "./table.js";

/** What an operation took, where that was measured, else the forecast. */
export function taken(op) {
  return op.measured ?? op.cycles;
}

export function scheduleTable({ ops, unit }) {
  const whole = ops.reduce((sum, op) => sum + taken(op), 0);
  const figure = (name, value) => ({ name, value, number: true, show: (op) => (value(op) ? count(value(op)) : "") });
  const columns = [
    { name: "No.", number: true, value: (op) => op.index, show: (op) => String(op.index) },
    { name: "Operation", value: (op) => op.title, show: titled, title: true },
    { name: "Phase", value: (op) => op.phase },
    figure("Multiply-adds", (op) => op.macs),
    figure("Forecast", (op) => op.cycles),
    ...(unit ? [figure(`Measured ${unit}`, (op) => op.measured)] : []),
    { name: "Share", number: true, value: taken, show: (op) => percent(taken(op), whole) },
    figure("Copied", (op) => op.moved),
    { name: "Pieces", number: true, value: (op) => op.tiles, show: (op) => (op.tiles > 1 ? count(op.tiles) : "") },
    { name: "C function", value: (op) => op.kernel, show: (op) => el("code", {}, op.kernel), wide: true },
  ];
  const sums = ["macs", "cycles", "moved"].map((key) => ops.reduce((sum, op) => sum + op[key], 0));
  const caption =
    `${count(ops.length)} operations in order of execution: ${count(sums[0])} multiply-adds, ` +
    `${count(sums[1])} cycles by forecast, ${count(sums[2])} bytes copied between L2 and L1. ` +
    "An operation whose tensors are copied works on one of its pieces while others are on their way.";
  return new DataTable({ caption, columns, rows: ops, words: (op) => `${op.title} ${op.layer} ${op.phase} ${op.kernel} ${op.source}` });
}

function titled(op) {
  return el("span", {}, op.title, op.source ? el("code", { class: "over" }, op.source) : "");
}
