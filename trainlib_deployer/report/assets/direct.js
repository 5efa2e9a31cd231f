// Which operations do not copy their tensors into L1 first, and why.

import { brief, count, el, percent } from "./dom.js";
import { DataTable } from "./table.js";

const NAMED = 2; // tensors

export function whyDirect({ why, cycles, tiled, free, least }) {
  if (why === "faster") return `quicker: ${count(cycles)} cycles, with copies ${count(tiled)}`;
  if (why === "no room" && least <= free) return `its pieces would take room that other copies need: ${count(free)} bytes of L1 are free`;
  if (why === "no room") return `its smallest pieces take ${count(least)} bytes, and ${count(free)} of L1 are free then`;
  return `it needs its tensors whole, and they do not fit the ${count(free)} bytes of L1 that are free then`;
}

export function directView({ ops, levels }) {
  if (levels.length < 2 || !levels[0].size) return [el("p", {}, "There is one memory: nothing could be copied.")];
  const rows = ops.filter((op) => op.direct);
  if (!rows.length) return [el("p", {}, "None: every operation works on tensors in L1.")];
  const sum = (some) => some.reduce((total, op) => total + op.cycles, 0);
  const columns = [
    { name: "No.", number: true, value: (op) => op.index, show: (op) => String(op.index) },
    { name: "Operation", value: (op) => op.title, title: true },
    { name: "Tensors in L2", value: (op) => op.direct.tensors[0]?.name ?? "", show: outside, wide: true },
    { name: "Why", value: (op) => op.direct.why, show: (op) => whyDirect(op.direct), wide: true },
    { name: "Cycles, forecast", number: true, value: (op) => op.cycles, show: (op) => count(op.cycles) },
  ];
  const caption = `${count(rows.length)} of ${count(ops.length)} operations, ${percent(sum(rows), sum(ops))} of the cycles by forecast.`;
  return [new DataTable({ caption, columns, rows, words: (op) => `${op.title} ${op.layer} ${op.direct.why}` }).element];
}

function outside(op) {
  const named = op.direct.tensors.slice(0, NAMED).map((t) => `${t.name} (${brief(t.bytes)})`);
  const more = op.direct.tensors.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}
