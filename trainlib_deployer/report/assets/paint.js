// A memory map onto its canvas: thousands of boxes in a few milliseconds, because only what is seen is drawn.

import { brief, count, fitted } from "./dom.js";
import { byteTicks, countTicks } from "./scale.js";
import { MARGIN } from "./view.js";

const FONT = "12px system-ui, sans-serif";
const LABELLED = { width: 46, height: 15 }; // the smallest box with a name in it
const LETTER_WIDTH = 7;
const PHASE_COLOURS = { forward: "activations", loss: "scratch", backward: "gradients", accumulate: "pieces", update: "weights" };

export function paint(map) {
  const { canvas, view, level } = map;
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (!width) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  view.resize(width, height);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.font = FONT;
  pen.fillStyle = map.colours.panel;
  pen.fillRect(0, 0, width, height);
  const area = new Path2D();
  area.rect(MARGIN.left, MARGIN.top, ...view.pixels);
  grid(pen, map);
  pen.save();
  pen.clip(area);
  boxes(pen, map);
  bounds(pen, map);
  moment(pen, map);
  pen.restore();
  phases(pen, map);
}

function grid(pen, { view, colours }) {
  const [right, bottom] = [MARGIN.left + view.pixels[0], MARGIN.top + view.pixels[1]];
  pen.strokeStyle = colours.line;
  pen.fillStyle = colours.dim;
  pen.lineWidth = 1;
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  for (const tick of byteTicks(view.y0, view.y1, 8)) {
    const y = Math.round(view.point(0, tick)[1]) + 0.5;
    line(pen, MARGIN.left, y, right, y);
    pen.fillText(brief(tick), MARGIN.left - 6, y);
  }
  pen.textAlign = "center";
  for (const tick of countTicks(view.x0, view.x1, Math.max(view.pixels[0] / 70, 2)))
    pen.fillText(count(tick), view.point(tick, 0)[0], bottom + 30);
}

function boxes(pen, { buffers, view, colours, picked }) {
  const named = [];
  for (const b of buffers) {
    if (b.death <= view.x0 || b.birth >= view.x1 || b.offset >= view.y1 || b.offset + b.size <= view.y0) continue;
    const [left, bottom] = view.point(b.birth, b.offset);
    const [right, top] = view.point(Math.max(b.death, b.birth + 1), b.offset + b.size);
    const [width, height] = [right - left, bottom - top];
    const [gapX, gapY] = [width > 4 ? 1 : 0, height > 4 ? 1 : 0]; // an outline would swallow thinner ones
    pen.fillStyle = colours[b.role];
    pen.fillRect(left, top, Math.max(width - gapX, 0.7), Math.max(height - gapY, 0.7));
    if (width > LABELLED.width && height > LABELLED.height) named.push([b, left, right, (top + bottom) / 2]);
    if (b === picked) {
      pen.strokeStyle = colours.text;
      pen.lineWidth = 2;
      pen.strokeRect(left, top, width, height);
    }
  }
  pen.fillStyle = colours.page;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  for (const [b, left, right, y] of named) {
    const start = Math.max(left, MARGIN.left) + 5;
    const room = Math.min(right, MARGIN.left + view.pixels[0]) - start - 4;
    if (room > LABELLED.width - 10) pen.fillText(fitted(b.label, Math.floor(room / LETTER_WIDTH)), start, y);
  }
}

/** Where the memory ends, and what no placement can do without; below each other where a phone has no room. */
function bounds(pen, map) {
  const { view, level } = map;
  const end = `end of ${level.name}: ${count(level.size)}`;
  const least = `${level.proved ? "lower bound, reached" : "lower bound"}: ${count(level.bound)}`;
  const heights = [level.size, level.bound].map((bytes) => view.point(0, bytes)[1]);
  const near = Math.abs(heights[0] - heights[1]) < 2 * LABELLED.height ? Math.max(...heights) : null;
  pen.font = `600 ${FONT}`;
  const step = near === null || pen.measureText(end + least).width + 30 < view.pixels[0] ? 0 : LABELLED.height;
  bound(pen, map, level.size, end, "left", near);
  bound(pen, map, level.bound, least, "right", near === null ? null : near + step);
  pen.font = FONT;
}

/** A line with its figure; of two that are near, both figures stand below `under`. */
function bound(pen, { view, colours }, bytes, words, align, under) {
  if (bytes < view.y0 || bytes > view.y1) return;
  const y = view.point(0, bytes)[1];
  const right = MARGIN.left + view.pixels[0];
  stroked(pen, colours, colours.bad, [], () => line(pen, MARGIN.left, y, right, y));
  pen.textAlign = align;
  const below = under !== null || y < 24;
  pen.textBaseline = below ? "top" : "bottom";
  const [x, at] = [align === "left" ? MARGIN.left + 6 : right - 6, below ? (under ?? y) + 4 : y - 3];
  pen.lineWidth = 4;
  pen.strokeStyle = colours.panel;
  pen.strokeText(words, x, at);
  pen.fillStyle = colours.bad;
  pen.fillText(words, x, at);
}

function moment(pen, { view, colours, level }) {
  const x = view.point(level.peak + 0.5, 0)[0];
  stroked(pen, colours, colours.text, [6, 5], () => line(pen, x, MARGIN.top, x, MARGIN.top + view.pixels[1]));
}

/** With a lighter line below it, to be seen on any colour. */
function stroked(pen, colours, colour, dashes, draw) {
  for (const [style, width, pattern] of [[colours.page, 3.5, []], [colour, 1.5, dashes]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.setLineDash(pattern);
    draw();
  }
  pen.setLineDash([]);
}

function phases(pen, { data, view, colours }) {
  const y = MARGIN.top + view.pixels[1] + 4;
  const end = MARGIN.left + view.pixels[0];
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  for (const [from, to, phase] of runs(data)) {
    const left = Math.max(view.point(from, 0)[0], MARGIN.left);
    const right = Math.min(view.point(to, 0)[0], end);
    if (right <= left) continue;
    pen.fillStyle = colours[PHASE_COLOURS[phase] ?? "kept"];
    pen.fillRect(left, y, right - left, 14);
    pen.fillStyle = colours.page;
    if (right - left > LETTER_WIDTH * phase.length + 8) pen.fillText(phase, left + 4, y + 7.5);
  }
}

/** Operations of one phase that follow each other: first, end, phase. */
function runs(data) {
  data.runs ??= data.ops.reduce((found, op) => {
    const last = found.at(-1);
    if (last?.[2] === op.phase) last[1] = op.index + 1;
    else found.push([op.index, op.index + 1, op.phase]);
    return found;
  }, []);
  return data.runs;
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}
