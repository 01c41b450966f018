/**
 * The stretch of time that is shown, in ns from time zero of the first report; zooming, panning,
 * undo.
 */

export class Viewport {
  t0 = 0;
  t1 = 1;
  width = 1; // CSS pixels
  private undone: [number, number][] = [];
  private done: [number, number][] = [];
  private lastPush = -Infinity;
  onChange: () => void = () => undefined;
  /** All there is to see. */
  first = 0;
  last = 1;
  /**
   * The window was given from outside and is not to become another while the page finds its size.
   */
  given = false;

  get scale(): number {
    return (this.t1 - this.t0) / this.width;
  }

  x(time: number): number {
    return (time - this.t0) / this.scale;
  }

  t(x: number): number {
    return this.t0 + x * this.scale;
  }

  /**
   * Remember where we are, unless that was just done: a burst of wheel turns is undone at once.
   */
  private rememberView(): void {
    const now = performance.now();
    if (now - this.lastPush > 600) {
      this.done.push([this.t0, this.t1]);
      if (this.done.length > 200) this.done.shift();
      this.undone = [];
    }
    this.lastPush = now;
  }

  private putView(t0: number, t1: number): void {
    const most = (this.last - this.first) * 4 + 1000,
      least = Math.min(this.width / 4, 200);
    let span = Math.max(least, Math.min(most, t1 - t0));
    const mid = (t0 + t1) / 2;
    if (span !== t1 - t0) {
      t0 = mid - span / 2;
      t1 = mid + span / 2;
    }
    span = t1 - t0;
    /* At least an edge of what there is stays in sight. */
    const low = this.first - span * 0.9,
      high = this.last + span * 0.9;
    if (t0 < low) [t0, t1] = [low, low + span];
    if (t1 > high) [t0, t1] = [high - span, high];
    this.t0 = t0;
    this.t1 = t1;
    this.given = false;
    this.onChange();
  }

  set(t0: number, t1: number): void {
    this.lastPush = -Infinity;
    this.rememberView();
    this.putView(t0, t1);
  }

  zoom(x: number, factor: number): void {
    this.rememberView();
    const time = this.t(x);
    this.putView(time - (time - this.t0) * factor, time + (this.t1 - time) * factor);
  }

  pan(pixels: number): void {
    this.rememberView();
    const distance = pixels * this.scale;
    this.putView(this.t0 + distance, this.t1 + distance);
  }

  fit(): void {
    this.set(this.first, this.last);
  }

  /** Bring a span into sight without changing the scale more than needed. */
  revealSpan(start: number, end: number): void {
    const span = this.t1 - this.t0;
    if (end - start > span * 0.9) this.set(start - (end - start) * 0.2, end + (end - start) * 0.2);
    else if (end - start < span / this.width / 2) {
      const around = Math.max((end - start) * 50, 200);
      this.set((start + end) / 2 - around, (start + end) / 2 + around);
    } else if (start < this.t0 || end > this.t1)
      this.set((start + end) / 2 - span / 2, (start + end) / 2 + span / 2);
  }

  undo(): boolean {
    const pair = this.done.pop();
    if (!pair) return false;
    this.undone.push([this.t0, this.t1]);
    this.lastPush = -Infinity;
    this.putView(...pair);
    return true;
  }

  redo(): boolean {
    const pair = this.undone.pop();
    if (!pair) return false;
    this.done.push([this.t0, this.t1]);
    this.putView(...pair);
    return true;
  }

  setWidth(width: number): void {
    if (width < 1) return;
    const all = this.t0 <= this.first && this.t1 >= this.last;
    if (this.width > 1 && !all && !this.given)
      this.t1 = this.t0 + (width * (this.t1 - this.t0)) / this.width;
    this.width = width;
  }
}
