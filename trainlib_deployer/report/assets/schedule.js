// Every operation of a step: work, time, bytes, kernel, pieces.

import { count, el, percent } from "./dom.js";
import { DataTable } from "./table.js";

/** What an operation took, where that was measured, else the forecast. */
export function taken(op) {
  return op.measured ?? op.cycles;
}

/** Of an evaluation as after model.eval(), which is no part of the step. */
export function evaluates(op) {
  return op.phase === "evaluation";
}

export function scheduleTable({ ops, unit }) {
  const step = ops.filter((op) => !evaluates(op));
  const evaluation = ops.filter(evaluates);
  const whole = (some) => some.reduce((sum, op) => sum + taken(op), 0);
  const wholes = { step: whole(step), evaluation: whole(evaluation) };
  const share = (op) => taken(op) / (wholes[evaluates(op) ? "evaluation" : "step"] || 1);
  const figure = (name, value) => ({ name, value, number: true, show: (op) => (value(op) ? count(value(op)) : "") });
  const columns = [
    { name: "No.", number: true, value: (op) => op.index, show: (op) => String(op.index) },
    { name: "Operation", value: (op) => op.title, show: titled, title: true },
    { name: "Phase", value: (op) => op.phase },
    figure("Multiply-adds", (op) => op.macs),
    figure("Forecast", (op) => op.cycles),
    ...(unit ? [figure(`Measured ${unit}`, (op) => op.measured)] : []),
    { name: "Share", number: true, value: share, show: (op) => percent(share(op), 1) },
    figure("Copied", (op) => op.moved),
    { name: "Pieces", number: true, value: (op) => op.tiles, show: (op) => (op.tiles > 1 ? count(op.tiles) : "") },
    { name: "C function", value: (op) => op.kernel, show: (op) => el("code", {}, op.kernel), wide: true },
  ];
  const caption =
    `${count(step.length)} operations in order of execution: ${sums(step)}. ` +
    (evaluation.length ? `Then ${count(evaluation.length)} of an evaluation, which is no part of the step: ${sums(evaluation)}; their shares are of these. ` : "") +
    "An operation whose tensors are copied works on one of its pieces while others are on their way.";
  return new DataTable({ caption, columns, rows: ops, words: (op) => `${op.title} ${op.layer} ${op.phase} ${op.kernel} ${op.source}` });
}

function sums(ops) {
  const [macs, cycles, moved] = ["macs", "cycles", "moved"].map((key) => count(ops.reduce((sum, op) => sum + op[key], 0)));
  return `${macs} multiply-adds, ${cycles} cycles by forecast, ${moved} bytes copied between L2 and L1`;
}

function titled(op) {
  return el("span", {}, op.title, op.source ? el("code", { class: "over" }, op.source) : "");
}
