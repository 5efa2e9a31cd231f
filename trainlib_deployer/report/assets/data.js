// The tables of the page as objects that know each other.

function objects({ columns, rows }) {
  return rows.map((row, index) => ({ index, ...Object.fromEntries(columns.map((name, i) => [name, row[i]])) }));
}

export function readData(text) {
  const raw = JSON.parse(text);
  const word = (number) => raw.words[number];
  const tensors = objects(raw.tensors);
  const named = (numbers) => numbers.map((number) => tensors[number]);
  const ops = objects(raw.ops).map((op) => ({
    ...op,
    phase: word(op.phase),
    layer: word(op.layer),
    source: word(op.source),
    kernel: word(op.kernel),
    parts: op.parts.map(word),
    reads: named(op.reads),
    writes: named(op.writes),
    direct: op.direct && { ...op.direct, tensors: named(op.direct.tensors) },
  }));
  const roles = Object.keys(raw.roles);
  const buffers = objects(raw.buffers).map((b) => ({ ...b, role: roles[b.role], layer: word(b.layer) }));
  return { ...raw, tensors, ops, buffers, verified: raw.verified && objects(raw.verified) };
}
