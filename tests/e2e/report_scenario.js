// What a person does on a report, one thing after the other; what they see goes into the page's own dataset.

const saw = {};
const all = (selector) => [...document.querySelectorAll(selector)];
const rowsOf = (place) => all(`[data-draw=${place}] tbody tr`);
const type = (input, words) => { input.value = words; input.dispatchEvent(new Event("input")); };
const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const point = (node, name, offsetX, offsetY, more = {}) => {
  const { left, top } = node.getBoundingClientRect();
  const at = { clientX: left + offsetX, clientY: top + offsetY, pointerId: 1, bubbles: true, cancelable: true, ...more };
  node.dispatchEvent(name === "wheel" ? new WheelEvent(name, at) : new PointerEvent(name, at));
};

flush();
saw.errors = errors;
saw.drawn = document.body.dataset.drawn;
saw.wider = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.style.width = "360px";
saw.widerThanAPhone = document.body.scrollWidth - 360;
document.body.style.width = "";

// The schedule: search, sort, all rows.
saw.firstRows = rowsOf("schedule").length;
const search = document.querySelector("[data-draw=schedule] input");
type(search, "block3");
saw.found = rowsOf("schedule").length;
type(search, "");
all("[data-draw=schedule] .more")[0].click();
saw.sums = document.querySelector("[data-draw=schedule] caption").textContent;
saw.allRows = rowsOf("schedule").length;
const heading = all("[data-draw=schedule] thead button").find((b) => b.textContent === "Multiply-adds");
heading.click();
saw.sorted = heading.closest("th").getAttribute("aria-sort");
saw.most = rowsOf("schedule")[0].querySelector("[data-name=Multiply-adds]").textContent;
const orders = document.querySelector("[data-draw=schedule] select");
saw.orders = getComputedStyle(orders).display !== "none";
saw.ordered = orders.selectedOptions[0].textContent;
const arrange = (value) => { orders.value = value; orders.dispatchEvent(new Event("change")); };
arrange("");
saw.unsorted = rowsOf("schedule").slice(0, 3).map((row) => row.firstChild.textContent);
arrange(heading.closest("th").cellIndex);
saw.mostByList = rowsOf("schedule")[0].querySelector("[data-name=Multiply-adds]").textContent;
saw.card = getComputedStyle(rowsOf("schedule")[0]).display;

// The graph: boxes that lead to the schedule.
saw.boxes = all(".graph a").length;
saw.names = all(".graph .name").map((t) => t.textContent);
const part = document.querySelector("[data-draw=graph] [aria-label=Part]");
const partOf = (value) => {
  part.value = value;
  part.dispatchEvent(new Event("change"));
  return all(".graph .name").map((t) => t.textContent);
};
saw.evaluation = partOf("evaluation");
saw.again = partOf("step");
all(".graph a")[0].dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
saw.looked = search.value;

// The map: under the pointer, by keyboard, zoomed.
const [canvas] = all(".map canvas");
const [tip] = all(".map .tip");
flush();
for (let y = 20; tip.hidden && y < canvas.clientHeight; y += 3) point(canvas, "pointermove", canvas.clientWidth / 2, y);
saw.hovered = tip.innerText;
point(canvas, "pointerleave", 0, 0);
saw.left = tip.hidden;
press(canvas, "ArrowRight");
saw.picked = tip.innerText;
press(canvas, "ArrowUp");
saw.above = tip.innerText;
saw.said = all(".map [aria-live]")[0].textContent === saw.above;
press(canvas, "Escape");
saw.escaped = tip.hidden;
const picture = () => { flush(); return canvas.toDataURL(); };
const whole = picture();
press(canvas, "+");
saw.zoomed = picture() !== whole;
press(canvas, "0");
saw.back = picture() === whole;
point(canvas, "wheel", 200, 100, { deltaY: -300 });
saw.wheelUnasked = picture() !== whole;
canvas.focus();
point(canvas, "wheel", 200, 100, { deltaY: -300 });
saw.wheel = picture() !== whole;

// What a frame of the whole level asks of the canvas, and one of a part of it.
const counted = (key) => {
  const pen = CanvasRenderingContext2D.prototype;
  const names = Object.getOwnPropertyNames(pen).filter((n) => Object.getOwnPropertyDescriptor(pen, n).value?.call);
  const own = new Map(names.map((n) => [n, pen[n]]));
  let calls = 0;
  for (const [n, f] of own) pen[n] = function (...given) { calls++; return f.apply(this, given); };
  press(canvas, key);
  flush();
  for (const [n, f] of own) pen[n] = f;
  return calls;
};
for (let i = 0; i < 5; i++) press(canvas, "+");
saw.frames = [counted("0"), counted("+"), counted("+"), counted("+")];

document.documentElement.dataset.saw = JSON.stringify(saw);
