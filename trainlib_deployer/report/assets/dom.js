// Elements, and figures as text. Whatever users call their layers stays text: nothing here takes markup.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

const grouped = new Intl.NumberFormat("en-US");

export function count(value) {
  return grouped.format(value);
}

/** `64k`, `1.5M`, `1,344`: exact where it is round, three digits where it is large and not. */
export function brief(bytes) {
  for (const [unit, size] of [["M", 1 << 20], ["k", 1 << 10]])
    if (bytes >= size) return `${Number((bytes / size).toPrecision(3))}${unit}`;
  return count(bytes);
}

export function percent(part, whole) {
  if (!whole || !part) return "";
  const share = (100 * part) / whole;
  return share < 0.1 ? "< 0.1 %" : `${share.toFixed(1)} %`;
}

/** What one colour of the style is at the moment, light or dark. */
export function colourOf(variable) {
  const probe = el("span", { style: `color: var(--${variable})` });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** A text shortened in the middle, where names that share a beginning differ least. */
export function fitted(text, most) {
  if (text.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - (most - 1 - head))}`;
}
