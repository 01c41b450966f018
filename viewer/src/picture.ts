/**
 * Pictures of what is on the time line: SVG whose texts are texts, and the same as PNG. Both are
 * made from the rows in sight, by the bands and colours that they are painted with.
 */

import {
  AT_FILL,
  AT_FLAGS,
  AT_HIGH,
  AT_NAME,
  AT_X0,
  AT_X1,
  COUNTER,
  GROUP,
  MOMENT,
  RECT_BYTES,
  RECT_WORDS,
} from "generated/constants";
import type { App, Marker } from "./app";
import { writeColor, inkOn, type RGB } from "./colors";
import { names, tileStart, type Tile } from "./data";
import { h } from "./dom";
import { cleanText, formatPercent, formatTick } from "./format";
import { bandsOf, isCounter, type Band, type Row } from "./layout";
import type { Timeline } from "./timeline";

const AXIS_HEIGHT = 26,
  NOTES_HEIGHT = 15; // above the axis, where there are any
const NOTE_COLOR = "#d9822b";
const INDENT = 13;
/** A character of the picture's font is about so wide. */
const CHARACTER = 6.2;
const LEAST_LABELLED = 24;

function escapeText(text: string): string {
  return cleanText(text, 400).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

function textAt(x: number, y: number, text: string, more: string): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escapeText(text)}</text>`;
}

function rectAt(x: number, y: number, width: number, height: number, more: string): string {
  const numbers = [x, y, width, height].map((value) => String(Math.round(value * 10) / 10));
  const [left, top, wide, high] = numbers;
  return `<rect x="${left}" y="${top}" width="${wide}" height="${high}" ${more}/>`;
}

/** As much of a text as is surely no wider than this. */
function cutText(text: string, width: number): string {
  const most = Math.floor(width / CHARACTER);
  if (text.length <= most) return text;
  return most > 2 ? `${text.slice(0, most - 1)}…` : "";
}

class Picture {
  private parts: string[] = [];
  private readonly left: number; // width of the names
  private readonly head: number; // height of the notes and the axis

  constructor(
    private app: App,
    private timeline: Timeline,
  ) {
    this.left = Math.round(app.stored.labels);
    this.head = AXIS_HEIGHT + (this.notesInSight().length ? NOTES_HEIGHT : 0);
  }

  makeSvg(): string {
    const { view, theme } = this.app,
      rows = this.timeline.inSight(),
      end = Math.max(...rows.map((row) => this.timeline.top(row) + row.h), 0),
      height = Math.ceil(Math.min(end, this.timeline.areaHeight)) + this.head,
      width = Math.ceil(this.left + view.width);
    this.parts = [rectAt(0, 0, width, height, `fill="${theme.back}"`)];
    this.drawAxis(height);
    for (const row of rows) this.drawRow(row, width);
    this.drawMarks(height);
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
      `viewBox="0 0 ${width} ${height}" font-family="system-ui, 'DejaVu Sans', sans-serif" ` +
      `font-size="11"><title>${escapeText(document.title)}</title>` +
      `<clipPath id="area"><rect x="${this.left}" y="0" width="${view.width}" ` +
      `height="${height}"/></clipPath>\n${this.parts.join("\n")}\n</svg>\n`
    );
  }

  private drawAxis(height: number): void {
    const { view, theme } = this.app,
      step = this.timeline.chooseStep(),
      around = Math.max(Math.abs(view.t0), Math.abs(view.t1));
    for (let at = Math.ceil(view.t0 / step) * step; at <= view.t1; at += step) {
      const x = this.left + view.x(at);
      this.parts.push(rectAt(x, 0, 1, height, `fill="${theme.line}"`));
      this.parts.push(
        textAt(x + 4, this.head - 9, formatTick(at, step, around), `fill="${theme.text}"`),
      );
    }
  }

  private drawRow(row: Row, width: number): void {
    const { theme, rows, busyNow } = this.app,
      y = this.head + this.timeline.top(row),
      x = 18 + row.depth * INDENT,
      busy = busyNow.get(row.key),
      share = busy ? formatPercent(busy) : "",
      weight = row.lane === undefined ? ' font-weight="600"' : "",
      room = this.left - x - 8 - share.length * CHARACTER;
    if (y < this.head - row.h) return;
    this.parts.push(rectAt(0, y + row.h - 1, width, 1, `fill="${theme.line}"`));
    const color = row.lane === undefined ? null : this.timeline.barColor(row);
    if (color) this.parts.push(rectAt(x - 12, y + 7, 8, 8, `fill="${color}"`));
    const name = cutText(rows.names.get(row.key) ?? "", room);
    this.parts.push(textAt(x, y + 15, name, `fill="${theme.text}"${weight}`));
    if (share)
      this.parts.push(
        textAt(this.left - 6, y + 15, share, `fill="${theme.dim}" text-anchor="end"`),
      );
    this.parts.push('<g clip-path="url(#area)" shape-rendering="crispEdges">');
    for (const band of bandsOf(row, rows.stripsOf(row))) this.drawBand(row, band, y + band.y);
    this.parts.push("</g>");
  }

  private drawBand(row: Row, band: Band, y: number): void {
    const { view, offsets } = this.app,
      offset = offsets[row.report],
      texts: string[] = [];
    const drawTile = (tile: Tile, clip: [number, number]): void => {
      const { from, n } = tile.levels[band.level];
      for (let rect = from; rect < from + n; rect++)
        this.drawEvent(row, band, tile, rect, y, [clip[0] + offset, clip[1] + offset], texts);
    };
    this.timeline.eachTile(
      row.report,
      band.lane.lane!,
      band.level,
      view.t0 - offset,
      view.t1 - offset,
      {
        see: drawTile,
      },
    );
    this.parts.push(...texts);
  }

  private drawEvent(
    row: Row,
    band: Band,
    tile: Tile,
    rect: number,
    y: number,
    [from, to]: [number, number],
    texts: string[],
  ): void {
    const { view, offsets } = this.app,
      start = tileStart(tile.k, tile.index) + offsets[row.report],
      pixel = 2 ** tile.k,
      timeOf = (which: number): number => start + tile.f32[rect * RECT_WORDS + which] * pixel,
      begins = Math.max(timeOf(AT_X0), from),
      ends = Math.min(timeOf(AT_X1), to),
      flags = tile.u8[rect * RECT_BYTES + AT_FLAGS],
      x = this.left + view.x(begins),
      width = Math.max(1, (ends - begins) / view.scale);
    if (ends < begins || x + width < this.left || begins > view.t1) return;
    const part = this.heightOf(tile, rect, band.lane, flags),
      color = this.timeline.rectColor(tile, rect, band.lane.parts?.[band.level] ?? band.lane);
    this.parts.push(
      rectAt(x, y + band.h * (1 - part), width, band.h * part, `fill="${writeColor(color)}"`),
    );
    if (row.lane === undefined || isCounter(row) || flags & (GROUP | COUNTER)) return;
    // an event that began in the tile before was labelled there
    if (timeOf(AT_X0) < from && from > view.t0) return;
    const right = this.left + view.x(Math.min(timeOf(AT_X1), view.t1));
    this.drawLabel(tile, rect, color, Math.max(x, this.left), right, y + band.h / 2 + 4, texts);
  }

  /** How much of its band a rectangle fills. */
  private heightOf(tile: Tile, rect: number, lane: Row, flags: number): number {
    if (flags & COUNTER) {
      const low = Math.min(0, lane.low ?? 0),
        high = tile.f32[rect * RECT_WORDS + AT_HIGH];
      return Math.max(0, Math.min(1, (high - low) / Math.max((lane.high ?? 1) - low, 1e-30)));
    }
    if (flags & MOMENT) return 1;
    return Math.max(0.12, tile.u8[rect * RECT_BYTES + AT_FILL] / 255);
  }

  private drawLabel(
    tile: Tile,
    rect: number,
    color: RGB,
    from: number,
    to: number,
    y: number,
    texts: string[],
  ): void {
    const width = Math.min(to, this.left + this.app.view.width) - from;
    if (width < LEAST_LABELLED) return;
    const name = names[tile.report]?.get(tile.u32[rect * RECT_WORDS + AT_NAME]) ?? "",
      shown = cutText(cleanText(name, 200), width - 8);
    if (shown) texts.push(textAt(from + 4, y, shown, `fill="${inkOn(color)}"`));
  }

  private notesInSight(): Marker[] {
    const { view, markers } = this.app;
    return markers.filter(({ time, end }) => time <= view.t1 && (end ?? time) >= view.t0);
  }

  private drawMarks(height: number): void {
    const { view, range, theme } = this.app;
    const drawStretch = (from: number, to: number, color: string): void => {
      this.parts.push(
        rectAt(
          this.left + view.x(from),
          0,
          Math.max(1, view.x(to) - view.x(from)),
          height,
          `fill="${color}" fill-opacity="0.15" clip-path="url(#area)"`,
        ),
      );
    };
    if (range) drawStretch(range[0], range[1], theme.accent);
    for (const { time, end, note } of this.notesInSight()) {
      drawStretch(time, end ?? time, NOTE_COLOR);
      const x = this.left + Math.max(0, view.x(time)) + 4;
      this.parts.push(textAt(x, NOTES_HEIGHT - 4, note, `fill="${NOTE_COLOR}"`));
    }
  }
}

export function makeSvg(app: App, timeline: Timeline): string {
  return new Picture(app, timeline).makeSvg();
}

/** The same as pixels, as fine as the screen. */
export async function makePng(svg: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const ratio = Math.max(1, window.devicePixelRatio || 1),
    canvas = h("canvas", { width: image.width * ratio, height: image.height * ratio });
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) =>
    canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"),
  );
}
