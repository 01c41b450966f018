/**
 * What is under a point of the time line, for pointing, clicking and menus alike: rows are divided
 * into the bands that they are painted in, and of the rectangles in a band the one nearest to the
 * point is meant. A rectangle knows its event by number, a group the longest of its events, so that
 * what is named is what gets selected.
 */

import {
  AT_COLOR,
  AT_COUNT,
  AT_EVENT,
  AT_FILL,
  AT_FLAGS,
  AT_HIGH,
  AT_LOW,
  AT_NAME,
  AT_X0,
  AT_X1,
  COUNTER,
  PREVIEW,
  RECT_BYTES,
  RECT_WORDS,
} from "generated/constants";
import type { App, Hit } from "./app";
import { tileStart, UNREAD, type Spot, type Tile } from "./data";
import { bandsOf, type Band, type Row } from "./layout";
import type { Timeline } from "./timeline";

/** How far from a rectangle, in pixels, it is still meant. */
const REACH = 4;
/** How far an edge attracts. */
const SNAP = 7;

interface Found {
  at: number; // number of the rectangle
  away: number; // pixels
}

/** The rectangle of a tile that is nearest to a time on a level, within reach. */
function nearestRect(
  tile: Tile,
  level: number,
  time: number,
  scale: number,
  [from, to]: [number, number],
): Found | null {
  const { from: first, n } = tile.levels[level],
    pixel = 2 ** tile.k,
    start = tileStart(tile.k, tile.index),
    readEdge = (rect: number, which: number): number =>
      start + tile.f32[rect * RECT_WORDS + which] * pixel;
  let low = first,
    high = first + n,
    best: Found | null = null;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (readEdge(mid, AT_X1) < time - REACH * scale) low = mid + 1;
    else high = mid;
  }
  for (let rect = low; rect < first + n; rect++) {
    const begins = readEdge(rect, AT_X0),
      ends = readEdge(rect, AT_X1);
    if (begins > time + REACH * scale || begins > to) break;
    if (ends < from) continue;
    const away = Math.max(begins - time, time - ends, 0) / scale;
    if (away < (best?.away ?? REACH)) best = { at: rect, away };
  }
  return best;
}

export class Picker {
  constructor(
    private app: App,
    private timeline: Timeline,
  ) {}

  /** The rectangle under a point, or within reach of it. */
  findAt(x: number, y: number): Hit | null {
    const row = this.timeline.rowAt(y);
    if (!row) return null;
    let best: Hit | null = null;
    for (const band of this.nearestBands(row, y - this.timeline.top(row))) {
      const hit = this.inBand(row, band, x);
      // of those painted over one another the last is on top, as far as it reaches
      if (hit && best && row.parts && !this.reaches(row, hit, y)) continue;
      if (hit && (!best || hit.away <= best.away)) best = hit;
    }
    return best;
  }

  /** Whether the value of a pile's rectangle reaches up to a point. */
  private reaches(row: Row, hit: Hit, y: number): boolean {
    const [band] = bandsOf(row, []),
      part = (this.timeline.top(row) + band.y + band.h - y) / band.h;
    return hit.fill >= part * (row.high ?? 1);
  }

  /** Several where levels are painted over one another. */
  private nearestBands(row: Row, y: number): Band[] {
    const bands = bandsOf(row, this.app.rows.stripsOf(row)),
      awayFrom = (band: Band): number => Math.max(band.y - y, y - band.y - band.h, 0),
      least = Math.min(...bands.map(awayFrom));
    return bands.filter((band) => awayFrom(band) === least);
  }

  private inBand(row: Row, band: Band, x: number): Hit | null {
    const { view, offsets } = this.app,
      time = view.t(x) - offsets[row.report],
      reach = REACH * view.scale;
    let best: Hit | null = null;
    this.timeline.eachTile(row.report, band.lane.lane!, band.level, time - reach, time + reach, {
      see: (tile, clip) => {
        const found = nearestRect(tile, band.level, time, view.scale, clip);
        if (found && found.away < (best?.away ?? REACH))
          best = this.describeRect(row, band, tile, found);
      },
    });
    return best;
  }

  private describeRect(row: Row, band: Band, tile: Tile, found: Found): Hit {
    const word = found.at * RECT_WORDS,
      byte = found.at * RECT_BYTES,
      pixel = 2 ** tile.k,
      start = tileStart(tile.k, tile.index) + this.app.offsets[row.report],
      counter = (tile.u8[byte + AT_FLAGS] & COUNTER) !== 0;
    return {
      row,
      lane: row.parts
        ? row.parts[band.level]
        : row.of === undefined
          ? band.lane
          : (this.app.laneRow(row.report, row.of) ?? band.lane),
      level: row.parts ? 0 : band.level,
      away: found.away,
      name: tile.u32[word + AT_NAME],
      count: counter ? tile.f32[word + AT_LOW] : tile.u32[word + AT_COUNT],
      t0: start + tile.f32[word + AT_X0] * pixel,
      t1: start + tile.f32[word + AT_X1] * pixel,
      event: counter ? 0 : tile.u32[word + AT_EVENT],
      flags: tile.u8[byte + AT_FLAGS] | (tile.pending ? UNREAD : 0),
      fill: counter ? tile.f32[word + AT_HIGH] : tile.u8[byte + AT_FILL] / 255,
      color: tile.u8[byte + AT_COLOR],
    };
  }

  /** The edge of an event within a few pixels of a point, or null. */
  snapTo(x: number, y: number): number | null {
    const hit = this.findAt(x, y),
      { view } = this.app;
    if (!hit || hit.flags & (COUNTER | PREVIEW | UNREAD)) return null;
    const awayFrom = (time: number): number => Math.abs(view.x(time) - x),
      nearest = awayFrom(hit.t0) <= awayFrom(hit.t1) ? hit.t0 : hit.t1;
    return awayFrom(nearest) < SNAP ? nearest : null;
  }

  /**
   * The event that a rectangle stands for: its only one, of a group the longest, of a counter the
   * value at the pointer. `still` says whether anyone still waits for it: a row that is not read
   * yet is read first.
   */
  async spotOf(hit: Hit, x: number, still: () => boolean): Promise<Spot | null> {
    for (let wait = 50; still(); wait = Math.min(wait * 1.5, 1000)) {
      const answer = await this.app.ask<{ events: Spot[]; unread?: number }>("at", {
        r: hit.row.report,
        lane: hit.lane.lane,
        level: hit.level,
        limit: 1000,
        ...this.makeQuestion(hit, x),
      });
      if (!answer) return null;
      if (!answer.unread) return this.chooseSpot(hit, answer.events);
      await new Promise((done) => setTimeout(done, wait));
    }
    return null;
  }

  /** Identified by number where the tile knows it, otherwise by time. */
  private makeQuestion(hit: Hit, x: number): Record<string, number> {
    const { view, offsets } = this.app,
      offset = offsets[hit.row.report],
      time = Math.floor(view.t(x) - offset);
    if (hit.flags & COUNTER) {
      // beside the rectangle its nearest value
      const inside = Math.max(Math.ceil(hit.t0 - offset), Math.min(time, hit.t1 - offset - 1));
      return { t0: Math.floor(inside), t1: Math.floor(inside) + 1 };
    }
    if (!(hit.flags & (PREVIEW | UNREAD))) return { event: hit.event };
    // times of tiles are 32-bit floating point
    const slack = hit.flags & PREVIEW ? view.scale : Math.max(2, view.scale / 16);
    const [from, to] = hit.flags & PREVIEW ? [time, time] : [hit.t0 - offset, hit.t1 - offset];
    return { t0: Math.floor(from - slack), t1: Math.ceil(to + slack) };
  }

  private chooseSpot(hit: Hit, events: Spot[]): Spot | null {
    const ours =
      hit.row.of === undefined || hit.row.parts
        ? events
        : events.filter((tie) => this.isNamed(hit.row, tie));
    const lengthOf = (spot: Spot): number => spot.end - spot.start;
    return ours.reduce<Spot | null>((a, b) => (a && lengthOf(a) >= lengthOf(b) ? a : b), null);
  }

  private isNamed(row: Row, spot: Spot): boolean {
    return spot.name === row.label;
  }

  /** Whether only the busyness of a stretch is known. */
  static isVague(hit: Hit): boolean {
    return (hit.flags & PREVIEW) !== 0;
  }
}
