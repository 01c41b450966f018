/**
 * The canvas of rows: rectangles by the painter, text and marks on a 2D canvas over it, the axis of
 * time above.
 */

import {
  AT_COLOR,
  AT_FILL,
  AT_FLAGS,
  AT_NAME,
  AT_SRC,
  AT_X0,
  AT_X1,
  CLASS_COUNTER,
  CLASS_KERNEL,
  CLASS_NAMES,
  CLASS_OWN,
  CLASS_STATE,
  COUNTER,
  GROUP,
  LANES,
  MOMENT,
  NAME_OURS,
  OPEN,
  OWN_STATE,
  PAINTED,
  PREVIEW,
  RECT_BYTES,
  RECT_WORDS,
  TILE_PIXELS,
} from "generated/constants";
import type { App, Hit } from "./app";
import {
  CHOSEN,
  FADED,
  names,
  palettes,
  tileStart,
  type Spot,
  type Tile,
  type Wanted,
} from "./data";
import { GLPainter, PixelPainter, type Batch, type Painter } from "./gl";
import { CHOICES, classColor, writeColor, STATES, inkOn, type RGB } from "./colors";
import { bandsOf, isCounter, unitOf, type Band, type Row } from "./layout";
import { cleanText, formatDuration, formatPercent, formatTick, formatValue } from "./format";
import { Overview, OVERVIEW_BANDS, type Band as Share } from "./overview";
import { Stretch } from "./stretch";
import { h } from "./dom";
import { t } from "./i18n";

/** Height of the strip that shows all of the reports, and of that with the axis below it. */
export const STRIP = 24;
export const AXIS = STRIP + 34;
/** The name of a state: it was taken off its core, the third of the texts for states. */
const PREEMPTED = ((NAME_OURS << 30) >>> 0) + OWN_STATE + 2;
/** Of a row of the palette the colour of many, and how much of it groups have (as in gl.ts). */
const MEAN_COLOR = 40,
  MEAN_PART = 0.8;
/** Kernels' blue and the green of a thread on a core. */
const BAND_COLORS: Record<Share, [number, number]> = {
  gpu: [CLASS_KERNEL, MEAN_COLOR],
  cpu: [CLASS_STATE, 0],
};
/** Of marks and notes. */
const MARK = "#d9822b";
const FONT = "11px system-ui, 'DejaVu Sans', 'Noto Sans CJK SC', sans-serif";

/** Types of rows whose events are moments: nothing is busy for any length of time. */
const MOMENTARY = Object.keys(LANES).filter((name) => LANES[name].moments);

export class Timeline {
  readonly root: HTMLElement;
  readonly axis: HTMLCanvasElement;
  readonly area: HTMLElement;
  painter: Painter;
  private canvas: HTMLCanvasElement;
  private over: HTMLCanvasElement;
  private c: CanvasRenderingContext2D;
  private ac: CanvasRenderingContext2D;
  private width = 1;
  private height = 1;
  private ratio = 1;
  private asked = false;
  private together: boolean; // rectangles and text are on one canvas
  // batches whose texts are still to be written
  private labelled: { batch: Batch; top: number; bottom: number }[] = [];
  private shownPalettes = "";
  private widths = new Map<string, number>();
  readonly overview: Overview;
  private stretch: Stretch;
  scroll = 0;
  drag: [number, number] | null = null; // a selection being made
  snapped: number | null = null;
  frames: number[] = [];
  /** What other parts of the page draw over the rows. */
  readonly layers: ((context: CanvasRenderingContext2D) => void)[] = [];

  constructor(private app: App) {
    this.overview = new Overview(app);
    this.stretch = new Stretch(app);
    this.canvas = h("canvas", { class: "rects" });
    this.over = h("canvas", { class: "over" });
    this.axis = h("canvas", { class: "axis" });
    this.area = h(
      "div",
      {
        class: "area",
        style: { top: `${AXIS}px` },
        tabindex: 0,
        role: "application",
        "aria-label": t("time_line"),
      },
      this.canvas,
      this.over,
    );
    this.root = h("div", { class: "canvases" }, this.axis, this.area);
    const wanted = new URLSearchParams(location.search).get("painter");
    const gl = wanted === "canvas" ? null : GLPainter.makePainter(this.canvas, wanted === "webgl2");
    if (!gl && wanted !== "canvas") {
      /* A canvas that was asked for one context gives no other. */
      const fresh = h("canvas", { class: "rects" });
      this.canvas.replaceWith(fresh);
      this.canvas = fresh;
    }
    const pixels = gl ? null : new PixelPainter(this.canvas);
    this.painter = gl ?? pixels!;
    this.together = pixels !== null;
    this.c = pixels ? pixels.context : this.over.getContext("2d")!;
    this.over.hidden = this.together;
    this.ac = this.axis.getContext("2d")!;
    app.cache.onDrop = (tile) => this.painter.dropTile(tile);
    for (const what of ["draw", "view", "layout", "range", "select", "found", "words"])
      app.on(what, () => this.redrawSoon());
    app.on("words", () => this.area.setAttribute("aria-label", t("time_line")));
    app.on("theme", () => {
      this.shownPalettes = "";
      this.redrawSoon();
    });
    new ResizeObserver(() => this.resizeCanvas()).observe(this.root);
  }

  private resizeCanvas(): void {
    const rect = this.root.getBoundingClientRect();
    this.width = Math.max(50, Math.floor(rect.width));
    this.height = Math.max(50, Math.floor(rect.height) - AXIS);
    this.ratio = window.devicePixelRatio || 1;
    this.painter.resizeCanvas(this.width, this.height, this.ratio);
    for (const [element, hgt] of [
      ...(this.together ? [] : [[this.over, this.height]]),
      [this.axis, AXIS],
    ] as [HTMLCanvasElement, number][]) {
      element.width = Math.round(this.width * this.ratio);
      element.height = Math.round(hgt * this.ratio);
      element.style.width = `${this.width}px`;
      element.style.height = `${hgt}px`;
    }
    this.app.view.setWidth(this.width);
    this.setScroll(this.scroll);
    this.draw(); // at once: a resized canvas is blank
  }

  get pinnedHeight(): number {
    return Math.min(this.app.rows?.pinnedHeight ?? 0, this.height * 0.6);
  }

  setScroll(y: number): void {
    const most = Math.max(0, (this.app.rows?.height ?? 0) - (this.height - this.pinnedHeight) + 40);
    this.scroll = Math.max(0, Math.min(most, y));
    this.app.emitEvent("scroll");
    this.redrawSoon();
  }

  get areaHeight(): number {
    return this.height;
  }

  redrawSoon(): void {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  /* ---- which tiles ---- */

  private scaleOf(): number {
    return Math.max(0, Math.floor(Math.log2(Math.max(this.app.view.scale, 1))));
  }

  /** y of a row on the canvas, or null when it is out of sight. */
  top(row: Row): number {
    return row.pinned ? row.y : row.y - this.scroll + this.pinnedHeight;
  }

  inSight(): Row[] {
    const out: Row[] = [];
    for (const row of this.app.rows.pinned) if (row.y < this.pinnedHeight) out.push(row);
    for (const line of this.app.rows.visible) {
      const y = this.top(line);
      if (y + line.h >= this.pinnedHeight && y < this.height) out.push(line);
    }
    return out;
  }

  private requestTiles(rows: Row[]): void {
    const { view, offsets } = this.app,
      scale = this.scaleOf(),
      span = TILE_PIXELS * 2 ** scale;
    const byReport = new Map<number, Wanted[]>();
    for (const row of rows)
      for (const line of row.lane !== undefined ? [row] : this.app.rows.stripsOf(row)) {
        const list = byReport.get(row.report) ?? [];
        list.push({
          report: row.report,
          lane: line.lane!,
          levels:
            line.parts?.length ??
            line.over ??
            (row.lane !== undefined ? Math.max(1, row.shown) : 1),
          of: line.of,
          ids: line.ids,
          plus: line.plus,
        });
        byReport.set(row.report, list);
      }
    for (const [report, lanes] of byReport) {
      const first = Math.floor((view.t0 - offsets[report]) / span),
        last = Math.floor((view.t1 - offsets[report]) / span);
      this.app.cache.wantTiles(lanes, scale, first, last);
      if (!this.app.cache.busy()) {
        /* Nothing is missing: look ahead, so that panning finds it there. */
        this.app.cache.wantTiles(lanes, scale, first - 1, first - 1, true);
        this.app.cache.wantTiles(lanes, scale, last + 1, last + 1, true);
      }
    }
  }

  /**
   * Tiles that show a lane's level between two times (of its report): those of this zoom, or what
   * else is there.
   */
  eachTile(
    report: number,
    lane: number,
    level: number,
    from: number,
    to: number,
    look: { see: (tile: Tile, clip: [number, number]) => void },
  ): void {
    const scale = this.scaleOf(),
      span = TILE_PIXELS * 2 ** scale;
    for (let i = Math.floor(from / span); i * span < to; i++) {
      const left = Math.max(from, i * span),
        right = Math.min(to, (i + 1) * span);
      const tile = this.app.cache.getTile(report, lane, scale, i);
      if (tile && level < tile.levels.length) {
        look.see(tile, [left, right]);
        continue;
      }
      if (tile && !tile.pending && level >= tile.levels.length && tile.asked > level) continue;
      if (this.eachCoarser(report, lane, level, scale, left, right, look.see)) continue;
      for (let j = scale - 1; j >= Math.max(0, scale - 3); j--)
        if (this.eachFiner(report, lane, level, j, left, right, look.see)) break;
    }
  }

  private eachCoarser(
    report: number,
    lane: number,
    level: number,
    scale: number,
    left: number,
    right: number,
    make: (tile: Tile, clip: [number, number]) => void,
  ): boolean {
    for (let j = scale + 1; j < 48; j++) {
      if (!this.app.cache.hasScale(j)) continue;
      const tile = this.app.cache.getTile(
        report,
        lane,
        j,
        Math.floor(left / (TILE_PIXELS * 2 ** j)),
      );
      if (tile && level < tile.levels.length) {
        make(tile, [left, right]);
        return true;
      }
    }
    return false;
  }

  private eachFiner(
    report: number,
    lane: number,
    level: number,
    j: number,
    left: number,
    right: number,
    make: (tile: Tile, clip: [number, number]) => void,
  ): boolean {
    const span = TILE_PIXELS * 2 ** j;
    let any = false;
    for (let i = Math.floor(left / span); i * span < right; i++) {
      const tile = this.app.cache.getTile(report, lane, j, i);
      if (!tile || level >= tile.levels.length) continue;
      make(tile, [Math.max(left, i * span), Math.min(right, (i + 1) * span)]);
      any = true;
    }
    return any;
  }

  private paintBand(row: Row, band: Band): void {
    const { view, offsets } = this.app,
      { lane, level } = band,
      offset = offsets[row.report],
      top = row.pinned ? 0 : this.pinnedHeight,
      bottom = row.pinned ? this.pinnedHeight : this.height,
      y = this.top(row) + band.y;
    if (y + band.h < top || y > bottom) return;
    const seeTile = (tile: Tile, [left, right]: [number, number]): void => {
      const batch: Batch = {
        tile,
        level,
        x: view.x(tileStart(tile.k, tile.index) + offset),
        scale: 2 ** tile.k / view.scale,
        y,
        h: band.h,
        cls: lane.cls,
        clip: [view.x(left + offset), view.x(right + offset)],
        low: Math.min(0, lane.low ?? 0),
        high: lane.high ?? 1,
        shift: this.app.rows.hueOf(lane.parts?.[level] ?? lane),
        tint: this.app.rowColor(lane),
        mixed: (row.over !== undefined && level > 0) || level + 1 < (lane.parts?.length ?? 0),
      };
      this.painter.drawBatch(batch, top, bottom);
      if (row.lane !== undefined && !isCounter(row) && band.h >= 11)
        this.labelled.push({ batch, top, bottom });
    };
    this.eachTile(row.report, lane.lane!, level, view.t0 - offset, view.t1 - offset, {
      see: seeTile,
    });
  }

  /* ---- text ---- */

  private fitText(text: string, width: number): string {
    let w = this.widths.get(text);
    if (w === undefined) {
      if (this.widths.size > 50000) this.widths.clear();
      w = this.c.measureText(text).width;
      this.widths.set(text, w);
    }
    if (w <= width) return text;
    let n = Math.floor((text.length * width) / w);
    while (n > 1 && this.c.measureText(text.slice(0, n) + "…").width > width) n--;
    return n > 1 ? text.slice(0, n) + "…" : "";
  }

  colorOf(tile: Tile, rect: number, cls: number, tint: number): RGB {
    const flags = tile.u8[rect * RECT_BYTES + AT_FLAGS],
      c = tile.u8[rect * RECT_BYTES + AT_COLOR],
      name = tile.u32[rect * RECT_WORDS + AT_NAME];
    if (flags & CHOSEN || tint >= 0)
      return CHOICES[flags & CHOSEN ? tile.u8[rect * RECT_BYTES + AT_SRC] : tint][1];
    if (flags & PAINTED) {
      const argb = palettes[tile.report]?.[c] ?? 0;
      return [(argb >> 16) & 255, (argb >> 8) & 255, argb & 255];
    }
    return name >>> 30 === NAME_OURS && cls !== CLASS_STATE
      ? classColor(CLASS_OWN, name & 255, this.app.theme.dark)
      : classColor(cls, c, this.app.theme.dark);
  }

  private labelBatch(batch: Batch, top: number, bottom: number): void {
    const level = batch.tile.levels[batch.level],
      floats = batch.tile.f32,
      texts = names[batch.tile.report],
      mid = batch.y + batch.h / 2 + 0.5;
    if (mid < top + 4 || mid > bottom - 2) return;
    for (const rect of level.wide) {
      let x0 = batch.x + floats[rect * RECT_WORDS + AT_X0] * batch.scale,
        x1 = batch.x + floats[rect * RECT_WORDS + AT_X1] * batch.scale;
      const from = Math.max(0, batch.clip ? batch.clip[0] : 0),
        to = Math.min(this.width, batch.clip ? batch.clip[1] : this.width);
      if (
        batch.tile.u8[rect * RECT_BYTES + AT_FLAGS] & (GROUP | COUNTER | FADED) ||
        x1 <= from ||
        x0 >= to
      )
        continue;
      if (x0 < from && from > 0) continue; /* the tile before this one has said it */
      x0 = Math.max(x0, 0);
      x1 = Math.min(x1, this.width);
      if (x1 - x0 < 24) continue;
      const name = batch.tile.u32[rect * RECT_WORDS + AT_NAME];
      const raw = texts?.get(name);
      if (!raw) continue;
      const text = this.fitText(cleanText(raw, 200), x1 - x0 - 8);
      if (!text) continue;
      this.c.fillStyle = inkOn(this.colorOf(batch.tile, rect, batch.cls, batch.tint));
      this.c.fillText(text, x0 + 4, mid);
    }
  }

  private counterText(row: Row, y: number): void {
    const high = formatValue(row.high ?? 0, unitOf(row));
    this.c.globalAlpha = 0.8;
    this.c.fillStyle = this.app.theme.back;
    this.c.fillRect(2, y + 1, this.c.measureText(high).width + 5, 14);
    this.c.globalAlpha = 1;
    this.c.fillStyle = this.app.theme.text;
    this.c.fillText(high, 4, y + 8);
  }

  /** Mean and maximum of the selected stretch, where it begins. */
  private selectionText(row: Row, y: number): void {
    const { range, view, rows } = this.app,
      found = range && this.stretch.valuesOf(row);
    if (!range || !found) return;
    const unit = unitOf(row),
      mean = formatValue(found.mean, unit),
      text =
        found.high === undefined
          ? t("mean_of", mean)
          : t("mean_most", mean, formatValue(found.high, unit)),
      width = this.c.measureText(text).width + 6,
      left = this.c.measureText(formatValue(row.high ?? 0, unit)).width + 12,
      x = Math.min(Math.max(view.x(range[0]) + 2, left), Math.max(left, this.width - width));
    this.c.globalAlpha = 0.8;
    this.c.fillStyle = this.app.theme.back;
    this.c.fillRect(x, y + 1, width, 14);
    this.c.globalAlpha = 1;
    this.c.fillStyle = row.parts
      ? this.app.theme.dim
      : writeColor(classColor(CLASS_COUNTER, rows.hueOf(row), this.app.theme.dark));
    this.c.fillRect(x, y + 4, 3, 8);
    this.c.fillStyle = this.app.theme.text;
    this.c.fillText(text, x + 5, y + 8);
  }

  /* ---- a frame ---- */

  private draw(): void {
    const { rows, view, theme } = this.app;
    if (!rows || view.width < 2) return;
    const began = performance.now();
    const seen = palettes.map((words) => words.length).join();
    if (this.shownPalettes !== seen + theme.dark) {
      this.painter.setColors(theme.dark, palettes);
      this.shownPalettes = seen + theme.dark;
    }
    const list = this.inSight();
    this.requestTiles(list);
    if (!this.drag) this.stretch.look(list.filter(isCounter));
    this.paintRows(list);
    this.c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (!this.together) this.c.clearRect(0, 0, this.width, this.height);
    this.c.font = FONT;
    this.c.textBaseline = "middle";
    this.c.textAlign = "left";
    for (const row of list) this.drawRow(row);
    for (const l of this.labelled) this.labelBatch(l.batch, l.top, l.bottom);
    if (this.pinnedHeight) {
      this.c.fillStyle = theme.dim;
      this.c.fillRect(0, this.pinnedHeight - 1, this.width, 1);
    }
    for (const layer of this.layers) layer(this.c);
    this.drawMarks();
    this.drawLinks();
    this.drawSelected();
    this.drawAxis();
    this.frames.push(performance.now() - began);
    if (this.frames.length > 240) this.frames.shift();
  }

  /** Rectangles without any text or marks. */
  private paintRows(list: Row[]): void {
    this.labelled.length = 0;
    this.painter.beginFrame(this.app.theme.back);
    for (const row of list) this.paintRow(row);
    this.painter.endFrame();
  }

  private paintRow(row: Row): void {
    const y = this.top(row),
      least = row.pinned ? 0 : this.pinnedHeight;
    this.painter.beginRow(
      Math.max(least, y),
      Math.min(row.pinned ? this.pinnedHeight : this.height, y + row.h),
    );
    for (const band of bandsOf(row, this.app.rows.stripsOf(row))) this.paintBand(row, band);
  }

  /** Everything that is not a rectangle of a tile, except their texts. */
  private drawRow(row: Row): void {
    const y = this.top(row);
    this.c.fillStyle = this.app.theme.line;
    if (y + row.h - 1 >= (row.pinned ? 0 : this.pinnedHeight))
      this.c.fillRect(0, y + row.h - 1, this.width, 1);
    if (row.type === "process" && row.open) this.drawLife(row, y);
    if (isCounter(row)) this.counterText(row, y + 4);
    if (isCounter(row)) this.selectionText(row, y + 4);
  }

  /** When a process began and ended: a thin line. */
  private drawLife(row: Row, y: number): void {
    const offset = this.app.offsets[row.report],
      x0 = this.app.view.x((row.start ?? 0) + offset),
      x1 = this.app.view.x((row.end ?? this.app.reports[row.report].last) + offset);
    const mid = y + row.h / 2;
    if (mid < this.pinnedHeight && !row.pinned) return;
    this.c.fillStyle = this.app.theme.dim;
    this.c.globalAlpha = 0.35;
    this.c.fillRect(
      Math.max(0, x0),
      mid - 2,
      Math.max(1, Math.min(this.width, x1) - Math.max(0, x0)),
      4,
    );
    this.c.globalAlpha = 1;
  }

  private fillColumn(x0: number, x1: number, color: string, alpha: number): void {
    this.c.fillStyle = color;
    this.c.globalAlpha = alpha;
    this.c.fillRect(x0, 0, x1 - x0, this.height);
    this.c.globalAlpha = 1;
  }

  private drawMarks(): void {
    const { view, theme, range, markers, pointer } = this.app;
    const sel = this.drag ?? range;
    if (sel) {
      const left = view.x(Math.min(...sel)),
        right = view.x(Math.max(...sel));
      this.fillColumn(left, right, theme.accent, 0.13);
      this.fillColumn(left, left + 1, theme.accent, 0.8);
      this.fillColumn(right, right + 1, theme.accent, 0.8);
    }
    for (const mark of markers) {
      const x = view.x(mark.time);
      this.fillColumn(x, x + 1, MARK, 0.9);
      if (mark.end === undefined) continue;
      this.fillColumn(x, view.x(mark.end), MARK, 0.09);
      this.fillColumn(view.x(mark.end), view.x(mark.end) + 1, MARK, 0.9);
    }
    if (this.snapped !== null)
      this.fillColumn(view.x(this.snapped) - 0.5, view.x(this.snapped) + 0.5, theme.select, 0.9);
    else if (pointer !== null)
      this.fillColumn(view.x(pointer), view.x(pointer) + 1, theme.dim, 0.35);
  }

  /** Where a level of a lane is on the canvas, or the closed group that it is in; null: nowhere. */
  bandOf(
    report: number,
    spot: { lane: number; level: number },
  ): { row: Row; y: number; h: number } | null {
    let row = this.app.laneRow(report, spot.lane);
    if (!row) return null;
    let level = spot.level;
    for (let line: Row | undefined = row; line; line = this.app.rows.byKey.get(line.parentKey))
      if (line !== row && !line.open) {
        row = line; // it is in a closed group: point there
        level = -1;
      }
    const shown = row.pinned ? this.app.rows.pinned : this.app.rows.visible;
    if (!shown.includes(row)) return null;
    const y = this.top(row),
      bands = bandsOf(row, this.app.rows.stripsOf(row)),
      band = level < 0 ? undefined : bands[Math.min(level, bands.length - 1)];
    return band ? { row, y: y + band.y, h: band.h } : { row, y: y + 3, h: row.h - 6 };
  }

  /** The box of an event on the canvas, or null when its row is not shown. */
  private boxOf(
    report: number,
    spot: { lane: number; level: number; start: number; end: number },
  ): [number, number, number, number] | null {
    const found = this.bandOf(report, spot);
    if (!found) return null;
    const offset = this.app.offsets[report],
      x0 = this.app.view.x(spot.start + offset),
      x1 = Math.max(x0 + 2, this.app.view.x(spot.end + offset));
    return [x0, found.y, x1 - x0, found.h];
  }

  private drawSelected(): void {
    const selected = this.app.selected;
    const rect = selected && this.boxOf(selected.report, selected.spot);
    if (!rect) return;
    this.c.lineWidth = 2;
    this.c.strokeStyle = this.app.theme.dark ? "#ffffff" : "#000000";
    const x0 = Math.max(-4, rect[0]),
      x1 = Math.min(this.width + 4, rect[0] + rect[2]);
    this.c.strokeRect(x0 - 1, rect[1] - 1, Math.max(3, x1 - x0 + 2), rect[3] + 2);
  }

  /** The part of a box that is on the canvas, from left to right, or null when none is. */
  private inSightOf([x, , width]: [number, number, number, number]): [number, number] | null {
    return x + width < 0 || x > this.width
      ? null
      : [Math.max(-2, x), Math.min(this.width + 4, x + Math.max(2, width))];
  }

  private outlineBox(rect: [number, number, number, number], width: number, dash: number[]): void {
    const x = this.inSightOf(rect);
    if (!x) return;
    this.c.lineWidth = width;
    this.c.strokeStyle = this.app.theme.accent;
    this.c.setLineDash(dash);
    this.c.strokeRect(x[0], rect[1], x[1] - x[0], rect[3]);
    this.c.setLineDash([]);
  }

  /** Arrows between the selected event and what it is tied to. */
  private drawLinks(): void {
    const selected = this.app.selected;
    if (!selected?.detail) return;
    const from = this.boxOf(selected.report, selected.spot);
    if (!from) return;
    for (const spot of selected.detail.links) {
      const report = spot.report ?? selected.report,
        to = this.boxOf(report, spot);
      if (!to) continue;
      if (spot.role === "range" || spot.role === "on_gpu" || spot.role === "inside") {
        this.outlineBox(to, 1, [3, 3]);
        continue;
      }
      const forward =
        spot.start + this.app.offsets[report] >=
        selected.spot.start + this.app.offsets[selected.report];
      const [rect, area] = forward ? [from, to] : [to, from];
      this.drawArrow(
        spot.role === "waited" ? rect[0] + rect[2] : rect[0] + Math.min(rect[2] / 2, 6),
        rect[1] + (rect[1] < area[1] ? rect[3] : 0),
        area[0],
        area[1] + area[3] / 2,
      );
      this.outlineBox(to, 1.5, []);
    }
  }

  /**
   * From one event to another. Ends beyond the sides come from the sides; the curve runs along
   * the rows of its ends but shortly.
   */
  private drawArrow(x0: number, y0: number, x1: number, y1: number): void {
    const context = this.c,
      clampEdge = (x: number): number => Math.max(-8, Math.min(this.width + 8, x));
    if ((x0 < 0 && x1 < 0) || (x0 > this.width && x1 > this.width)) return;
    [x0, x1] = [clampEdge(x0), clampEdge(x1)];
    const bend = Math.max(12, Math.min(40, (x1 - x0) / 2));
    context.strokeStyle = context.fillStyle = this.app.theme.select;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 6, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
  }

  /* ---- the axis ---- */

  chooseStep(): number {
    const least = this.app.view.scale * 90;
    const power = 10 ** Math.floor(Math.log10(least));
    for (const m of [1, 2, 5, 10]) if (power * m >= least) return Math.max(1, power * m);
    return power * 10;
  }

  private drawAxis(): void {
    const { view, theme, markers, pointer } = this.app,
      context = this.ac,
      step = this.chooseStep();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = theme.stripe;
    context.fillRect(0, 0, this.width, AXIS);
    this.drawMap(context);
    context.font = FONT;
    context.textBaseline = "middle";
    const around = Math.max(Math.abs(view.t0), Math.abs(view.t1));
    for (let at = Math.floor(view.t0 / step) * step; at <= view.t1; at += step) {
      const x = Math.round(view.x(at));
      context.fillStyle = theme.line;
      context.fillRect(x, STRIP + 2, 1, AXIS - STRIP - 2);
      context.fillStyle = theme.text;
      const text = formatTick(at, step, around);
      // half a number is another number
      if (x > -4 && x + 4 + context.measureText(text).width <= this.width)
        context.fillText(text, x + 4, STRIP + 12);
      context.fillStyle = theme.line;
      for (let i = 1; i < 10; i++)
        context.fillRect(Math.round(view.x(at + (step * i) / 10)), AXIS - (i === 5 ? 9 : 6), 1, 9);
    }
    context.fillStyle = MARK;
    for (let i = 0; i < this.app.found.length; i++) {
      const x = view.x(this.app.found[i]);
      if (x >= 0 && x <= this.width) context.fillRect(x, AXIS - 5, 1.5, 5);
    }
    for (const mark of markers) {
      if (mark.end === undefined)
        this.drawFlag(context, view.x(mark.time), cleanText(mark.note, 40));
      else this.noteArea(context, view.x(mark.time), view.x(mark.end), cleanText(mark.note, 200));
    }
    const sel = this.drag ?? this.app.range;
    if (sel) this.drawMeasure(context, sel);
    else if (pointer !== null)
      this.drawTag(
        context,
        view.x(this.snapped ?? pointer),
        formatTick(this.snapped ?? pointer, Math.max(1, view.scale)),
        theme.dim,
      );
    context.fillStyle = theme.line;
    context.fillRect(0, AXIS - 1, this.width, 1);
  }

  /** How busy it was over the whole of the reports, and where the window is in that. */
  private drawMap(context: CanvasRenderingContext2D): void {
    const { view, theme } = this.app,
      all = view.last - view.first,
      from = ((view.t0 - view.first) / all) * this.width,
      to = ((view.t1 - view.first) / all) * this.width,
      left = Math.max(0, Math.min(this.width - 3, from)),
      right = Math.max(left + 3, Math.min(this.width, to));
    context.fillStyle = theme.back;
    context.fillRect(0, 0, this.width, STRIP);
    this.drawShares(context);
    context.fillStyle = theme.dim;
    context.globalAlpha = 0.3;
    context.fillRect(0, 0, left, STRIP);
    context.fillRect(right, 0, this.width - right, STRIP);
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.lineWidth = 2;
    context.strokeRect(left + 1, 1, right - left - 2, STRIP - 2);
  }

  /** Bars of each band, a pixel wide. */
  private drawShares(context: CanvasRenderingContext2D): void {
    const { view, theme } = this.app,
      bands = OVERVIEW_BANDS.filter((band) => this.overview.hasTiles(band)),
      height = STRIP / Math.max(1, bands.length),
      step = (view.last - view.first) / this.width;
    bands.forEach((band, i) => {
      context.fillStyle = writeColor(classColor(...BAND_COLORS[band], theme.dark));
      for (let x = 0; x < this.width; x++) {
        const from = view.first + x * step,
          share = this.overview.shareOf(band, from, from + step);
        if (share <= 0) continue;
        const high = Math.max(1, share * (height - 2));
        context.fillRect(x, (i + 1) * height - high, 1, high);
      }
      const word = band === "gpu" ? t("overview_gpu") : t("overview_cpu");
      context.font = FONT;
      context.textBaseline = "middle";
      context.fillStyle = theme.back;
      context.globalAlpha = 0.75;
      context.fillRect(2, i * height + 1, context.measureText(word).width + 4, height - 2);
      context.globalAlpha = 1;
      context.fillStyle = theme.text;
      context.fillText(word, 4, (i + 0.5) * height + 0.5);
    });
  }

  private drawTag(context: CanvasRenderingContext2D, x: number, text: string, color: string): void {
    const width = context.measureText(text).width + 8,
      at = Math.max(0, Math.min(this.width - width, x - width / 2));
    context.fillStyle = color;
    context.fillRect(at, AXIS - 17, width, 15);
    context.fillStyle = this.app.theme.back;
    context.fillText(text, at + 4, AXIS - 9);
  }

  private drawMeasure(context: CanvasRenderingContext2D, sel: [number, number]): void {
    const { view, theme } = this.app,
      left = view.x(Math.min(...sel)),
      right = view.x(Math.max(...sel));
    context.fillStyle = theme.accent;
    context.fillRect(left, AXIS - 4, right - left, 3);
    this.drawTag(
      context,
      (Math.max(0, left) + Math.min(this.width, right)) / 2,
      formatDuration(Math.abs(sel[1] - sel[0])),
      theme.accent,
    );
  }

  /** A bar over the stretch that a note is about, with as much of the note as fits. */
  private noteArea(
    context: CanvasRenderingContext2D,
    from: number,
    to: number,
    note: string,
  ): void {
    const left = Math.max(0, from),
      right = Math.min(this.width, to);
    if (right < left) return;
    context.fillStyle = MARK;
    context.globalAlpha = 0.85;
    context.fillRect(left, AXIS - 16, Math.max(2, right - left), 13);
    context.globalAlpha = 1;
    context.fillStyle = "#0b1118";
    if (right - left > 20)
      context.fillText(this.fitText(note, right - left - 8), left + 4, AXIS - 9);
  }

  private drawFlag(context: CanvasRenderingContext2D, x: number, note: string): void {
    context.fillStyle = MARK;
    context.beginPath();
    context.moveTo(x, AXIS);
    context.lineTo(x - 5, AXIS - 9);
    context.lineTo(x - 5, AXIS - 18);
    context.lineTo(x + 5, AXIS - 18);
    context.lineTo(x + 5, AXIS - 9);
    context.fill();
    if (note) {
      context.fillStyle = this.app.theme.text;
      context.fillText(note, x + 8, AXIS - 12);
    }
  }

  /* ---- what is where ---- */

  rowAt(y: number): Row | undefined {
    const { rows } = this.app;
    if (!rows) return undefined;
    return y < this.pinnedHeight
      ? rows.rowAt(rows.pinned, y)
      : rows.rowAt(rows.visible, y - this.pinnedHeight + this.scroll);
  }

  /**
   * Words about what is under the pointer. `exact`: of several the one that is nearest, or what
   * tiles do not know the name of.
   */
  describeHit(hit: Hit, exact?: Spot): string[] {
    const name = cleanText(exact?.name ?? names[hit.row.report]?.get(hit.name) ?? "", 160),
      length = exact ? exact.end - exact.start : hit.t1 - hit.t0;
    const where = this.app.rowName(hit.lane);
    if (hit.flags & PREVIEW) return hit.count ? [where, t("n_events", hit.count)] : [where];
    if (hit.flags & COUNTER) {
      const unit = unitOf(hit.lane);
      // a pile's rectangle has the sum, not what its part was
      if (hit.row.parts && exact?.value === undefined) return [where];
      if (exact?.value !== undefined) return [where, formatValue(exact.value, unit)];
      return [
        where,
        hit.fill === hit.count
          ? formatValue(hit.fill, unit)
          : `${formatValue(hit.count, unit)} … ${formatValue(hit.fill, unit)}`,
      ];
    }
    if (hit.lane.type === "state") return this.stateTip(hit, name, exact);
    const kind = {
      kernels: "tip_kernel",
      stream: "tip_kernel",
      memory: "tip_memory",
      cuda_api: "tip_api",
      osrt: "tip_osrt",
      nvtx: "tip_nvtx",
      sync: "tip_wait",
      sample: "tip_sample",
    }[hit.lane.type] as "tip_kernel" | undefined;
    const momentary = MOMENTARY.includes(hit.lane.type),
      busy = momentary ? undefined : this.app.busyNow.get(hit.lane.key);
    const own = hit.name >>> 30 === NAME_OURS && hit.lane.type === "stream" ? "tip_memory" : kind;
    const lines = [
      `${own ? t(own) : where}${busy !== undefined ? ` (${t("busy", formatPercent(busy))})` : ""}`,
    ];
    if (hit.flags & GROUP) {
      lines.push(
        momentary ? t("n_events", hit.count) : t("tip_group", hit.count, formatPercent(hit.fill)),
      );
      if (name)
        lines.push(
          momentary ? name : t("tip_longest", exact ? `${name}, ${formatDuration(length)}` : name),
        );
    } else {
      if (name) lines.push(name);
      lines.push(
        hit.flags & MOMENT
          ? t("at_cursor", formatTick(hit.t0, 1))
          : hit.flags & OPEN
            ? t("never_ended")
            : formatDuration(length),
      );
    }
    return lines;
  }

  private stateTip(hit: Hit, name: string, exact?: Spot): string[] {
    const [state] = STATES[hit.color] ?? STATES[0],
      busy = this.app.busyNow.get(hit.lane.key),
      share = busy ? ` (${t("on_core", formatPercent(busy))})` : "",
      head = `${this.app.rowName(hit.lane)}${share}`;
    if (hit.flags & GROUP)
      return [
        head,
        t("tip_states", hit.count, formatPercent(hit.fill)),
        ...(hit.color > 1 ? [t("tip_rest", t(`state_${state}`))] : []),
        ...(exact ? [t("tip_longest", `${name}, ${formatDuration(exact.end - exact.start)}`)] : []),
      ];
    const own = hit.name >>> 30 === NAME_OURS, // no call is known: the state is all there is
      length = formatDuration(hit.t1 - hit.t0);
    if (state === "runs" || state === "ready" || (own && (state === "gil" || state === "fault")))
      return [
        head,
        t("state_for", hit.name === PREEMPTED ? t("preempted") : t(`state_${state}`), length),
      ];
    if (own) return [head, t("state_for", t("blocked"), length)];
    return [
      head,
      t(state === "polls" ? "polls_in" : "blocked_in", name.replace(/_v\d+$/, ""), length),
      t(`state_${state}`),
    ];
  }

  /**
   * The colour that most of a row's bars in sight have, on its first level; null while there are
   * none.
   */
  barColor(row: Row): string | null {
    const { view, offsets, theme, rows } = this.app,
      tint = this.app.rowColor(row),
      offset = offsets[row.report];
    if (tint >= 0) return writeColor(CHOICES[tint][1]);
    if (isCounter(row)) return writeColor(classColor(CLASS_COUNTER, rows.hueOf(row), theme.dark));
    const widths = new Map<string, number>();
    let widest: string | null = null;
    const seeTile = (tile: Tile, [from, to]: [number, number]): void => {
      const start = tileStart(tile.k, tile.index),
        pixel = 2 ** tile.k,
        { from: first, n } = tile.levels[0];
      for (let rect = first; rect < first + n; rect++) {
        const begins = start + tile.f32[rect * RECT_WORDS + AT_X0] * pixel,
          ends = start + tile.f32[rect * RECT_WORDS + AT_X1] * pixel,
          seen = Math.min(to, Math.max(ends, begins + view.scale)) - Math.max(from, begins);
        if (seen <= 0) continue;
        const color = writeColor(this.paintedColor(tile, rect, row.cls)),
          width = (widths.get(color) ?? 0) + seen;
        widths.set(color, width);
        if (width > (widths.get(widest ?? "") ?? 0)) widest = color;
      }
    };
    this.eachTile(row.report, row.lane!, 0, view.t0 - offset, view.t1 - offset, { see: seeTile });
    return widest;
  }

  /** The colour of a rectangle of a row, as painters have it. */
  rectColor(tile: Tile, rect: number, row: Row): RGB {
    const tint = this.app.rowColor(row);
    if (tint >= 0) return CHOICES[tint][1];
    if (isCounter(row))
      return classColor(CLASS_COUNTER, this.app.rows.hueOf(row), this.app.theme.dark);
    return this.paintedColor(tile, rect, row.cls);
  }

  /** As painters have it: of many events at once no single one's colour speaks. */
  private paintedColor(tile: Tile, rect: number, cls: number): RGB {
    const flags = tile.u8[rect * RECT_BYTES + AT_FLAGS],
      own = this.colorOf(tile, rect, cls, -1),
      { dark } = this.app.theme,
      mean = classColor(cls, MEAN_COLOR, dark);
    if (flags & PREVIEW) return mean;
    if (cls === CLASS_STATE && flags & GROUP && tile.u8[rect * RECT_BYTES + AT_FILL] > 127)
      return classColor(CLASS_STATE, 0, dark);
    const ours = tile.u32[rect * RECT_WORDS + AT_NAME] >>> 30 === NAME_OURS;
    if (!(flags & GROUP) || flags & (CHOSEN | PAINTED) || ours || cls === CLASS_NAMES) return own;
    if (cls === CLASS_STATE) return own;
    return own.map((part, i) => Math.round(part + (mean[i] - part) * MEAN_PART)) as RGB;
  }
}
