// Which part of a map is seen: operations to the right, bytes upwards, and where on the canvas they lie.

export const MARGIN = { left: 54, right: 18, top: 8, bottom: 40 };

export class View {
  constructor(width, height) {
    Object.assign(this, { width, height, pixels: [1, 1] });
    this.reset();
  }

  reset() {
    Object.assign(this, { x0: 0, x1: this.width, y0: 0, y1: this.height });
  }

  get whole() {
    return this.x1 - this.x0 >= this.width && this.y1 - this.y0 >= this.height;
  }

  resize(width, height) {
    this.pixels = [Math.max(width - MARGIN.left - MARGIN.right, 1), Math.max(height - MARGIN.top - MARGIN.bottom, 1)];
  }

  point(op, byte) {
    const x = MARGIN.left + ((op - this.x0) / (this.x1 - this.x0)) * this.pixels[0];
    const y = MARGIN.top + ((this.y1 - byte) / (this.y1 - this.y0)) * this.pixels[1];
    return [x, y];
  }

  place(x, y) {
    const op = this.x0 + ((x - MARGIN.left) / this.pixels[0]) * (this.x1 - this.x0);
    const byte = this.y1 - ((y - MARGIN.top) / this.pixels[1]) * (this.y1 - this.y0);
    return [op, byte];
  }

  inside(x, y) {
    return x >= MARGIN.left && x <= MARGIN.left + this.pixels[0] && y >= MARGIN.top && y <= MARGIN.top + this.pixels[1];
  }

  /** About a point of the canvas, or the middle. */
  zoom(factor, x = MARGIN.left + this.pixels[0] / 2, y = MARGIN.top + this.pixels[1] / 2) {
    const [op, byte] = this.place(x, y);
    const [wide, high] = [this.x1 - this.x0, this.y1 - this.y0];
    const across = Math.min(Math.max(wide / factor, Math.min(2, this.width)), this.width);
    const upward = Math.min(Math.max(high / factor, Math.min(64, this.height)), this.height);
    this.set(op - ((op - this.x0) / wide) * across, across, byte - ((byte - this.y0) / high) * upward, upward);
  }

  pan(dx, dy) {
    const [wide, high] = [this.x1 - this.x0, this.y1 - this.y0];
    this.set(this.x0 - (dx / this.pixels[0]) * wide, wide, this.y0 + (dy / this.pixels[1]) * high, high);
  }

  /** Some operations before and after one, all bytes. */
  around(op) {
    const across = Math.min(24, this.width);
    this.set(op + 0.5 - across / 2, across, 0, this.height);
  }

  /** Moved, not zoomed, so that the middle of a buffer is seen. */
  reveal({ birth, death, offset, size }) {
    const [wide, high] = [this.x1 - this.x0, this.y1 - this.y0];
    const x = death <= this.x0 || birth >= this.x1 ? (birth + death) / 2 - wide / 2 : this.x0;
    const y = offset + size <= this.y0 || offset >= this.y1 ? offset + size / 2 - high / 2 : this.y0;
    this.set(x, wide, y, high);
  }

  /** Never beyond the edges. */
  set(x, wide, y, high) {
    this.x0 = Math.min(Math.max(x, 0), this.width - wide);
    this.y0 = Math.min(Math.max(y, 0), this.height - high);
    this.x1 = this.x0 + wide;
    this.y1 = this.y0 + high;
  }
}
