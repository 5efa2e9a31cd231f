// Round ticks.

/** Multiples of a power of two: at most `most` of them between two addresses. */
export function byteTicks(low, high, most) {
  let step = 4;
  while ((high - low) / step > most) step *= 2;
  return multiples(low, high, step);
}

/** Multiples of 1, 2 or 5 times a power of ten. */
export function countTicks(low, high, most, least = 1) {
  let step = least;
  for (let i = 0; (high - low) / step > most; i += 1) step *= i % 3 === 1 ? 2.5 : 2;
  return multiples(low, high, step);
}

function multiples(low, high, step) {
  const ticks = [];
  for (let i = Math.ceil(low / step); i * step <= high; i += 1) ticks.push(i * step);
  return ticks;
}
