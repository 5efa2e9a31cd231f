// What a verification found: the losses of both, and each tensor's distance from PyTorch.

import { count, el, svg } from "./dom.js";
import { countTicks } from "./scale.js";
import { DataTable } from "./table.js";

const SIZE = { width: 720, height: 260, left: 56, right: 12, top: 12, bottom: 28 };

export function lossView({ program, pytorch }) {
  const finite = [...program, ...pytorch].filter((v) => v !== null);
  if (!finite.length) return [el("p", {}, "No loss is a finite number.")];
  const entry = (name, words) => el("li", {}, el("span", { class: "key", style: `--role: var(--${name})` }), words);
  const rows = program.map((loss, i) => el("tr", {}, el("th", { scope: "row" }, String(i + 1)), cell(loss), cell(pytorch[i])));
  return [
    el("ul", { class: "legend" }, entry("link", "this program"), entry("gradients", "PyTorch, float64")),
    chart(program, pytorch, Math.min(...finite), Math.max(...finite)),
    el("details", {}, el("summary", {}, "The numbers"), lossTable(rows)),
  ];
}

function lossTable(rows) {
  const heading = (text) => el("th", { scope: "col", class: text === "Step" ? null : "n" }, text);
  const head = el("thead", {}, el("tr", {}, heading("Step"), heading("This program"), heading("PyTorch")));
  return el("div", { class: "scroll" }, el("table", {}, head, el("tbody", {}, ...rows)));
}

function cell(value) {
  return el("td", { class: "n" }, value === null || value === undefined ? "not finite" : value.toPrecision(8));
}

function chart(program, pytorch, low, high) {
  const { width, height, left, right, top, bottom } = SIZE;
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  const [floor, ceiling] = [low - room, high + room];
  const x = (step) => left + ((width - left - right) * step) / Math.max(program.length - 1, 1);
  const y = (loss) => top + ((height - top - bottom) * (ceiling - loss)) / (ceiling - floor);
  const points = (losses) => losses.flatMap((loss, step) => (loss === null ? [] : [[x(step), y(loss)]]));
  const line = (losses, name) => svg("polyline", { class: name, points: points(losses).map((p) => p.join(",")).join(" ") });
  const label = (text, at) => svg("text", { class: "quiet", ...at }, text);
  const least = 10 ** Math.floor(Math.log10((ceiling - floor) / 10));
  const across = countTicks(floor, ceiling, 6, least).flatMap((tick) => [
    svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
    label(String(Number(tick.toPrecision(6))), { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }),
  ]);
  const steps = countTicks(1, program.length, 10).map((tick) =>
    label(String(tick), { x: x(tick - 1), y: height - 8, "text-anchor": "middle" }),
  );
  const dots = points(program).map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r: program.length > 60 ? 1.5 : 3.5 }));
  const drawn = [...across, ...steps, line(pytorch, "pytorch"), line(program, "program"), ...dots];
  return svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Loss by step" }, ...drawn);
}

export function verificationTable(rows) {
  const share = (t) => (t.error === null ? Infinity : t.error / t.tolerance);
  const columns = [
    { name: "Tensor", value: (t) => t.name, title: true },
    { name: "Kind", value: (t) => t.kind },
    { name: "Steps", number: true, value: (t) => t.steps, show: (t) => count(t.steps) },
    { name: "Worst error", number: true, value: (t) => t.error, show: (t) => scientific(t.error) },
    { name: "Tolerance", number: true, value: (t) => t.tolerance, show: (t) => scientific(t.tolerance) },
    { name: "Share of tolerance", number: true, value: share, show: (t) => (t.error === null ? "" : share(t).toFixed(2)) },
    { name: "Verdict", value: (t) => (t.passed ? "agrees" : "differs"), show: verdictOf },
  ];
  const caption = "Relative errors; of all steps, the one that came nearest to its tolerance: four times PyTorch’s own float32 error, or 1e-6.";
  const table = new DataTable({ caption, columns, rows, words: (t) => `${t.name} ${t.kind} ${t.passed ? "agrees" : "differs"}` });
  table.sort(5);
  return table;
}

function verdictOf(t) {
  return el("span", { class: t.passed ? "" : "fail" }, t.passed ? "agrees" : "differs");
}

function scientific(value) {
  return value === null ? "not finite" : value.toExponential(2);
}
