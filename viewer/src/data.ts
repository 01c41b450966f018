/** What the page asks the server (docs/viewer.md), and the tiles that it keeps. */

import {
  AT_FLAGS,
  AT_NAME,
  AT_SRC,
  AT_X0,
  AT_X1,
  COUNTER,
  LANES,
  PREVIEW,
  RECT_BYTES,
  RECT_WORDS,
  TILE_MAGIC,
  TILE_PIXELS,
} from "generated/constants";

/**
 * Types of rows that show again what other rows have; tables of events and searches leave them out.
 */
export const AGAIN = Object.keys(LANES).filter((name) => LANES[name].again);

export interface Spot {
  lane: number;
  level: number;
  event: number;
  start: number;
  end: number;
  flags: number;
  name: string;
  value?: number; // of a counter, until `end`
}

export interface TreeRow {
  id: string;
  parent: string;
  type: string;
  label?: string;
  lane?: number;
  levels?: number;
  count?: number;
  ready?: number;
  busy?: number;
  hidden?: number;
  low?: number;
  high?: number;
  unit?: string;
  pid?: number;
  tid?: number;
  main?: number;
  rank?: number;
  world?: number; // of the job whose rank it is; none: not known
  local_rank?: number;
  host?: string;
  gpus?: string; // that the rank sees, as its launcher says
  start?: number;
  end?: number;
  device?: number;
  context?: number;
  stream?: number;
  default?: number;
  process?: string;
  domain?: number; // of NVTX; 0 and none: the default one
  loose?: number; // NVTX start/end ranges
  python?: number; // operators that are calls of Python
  cmdline?: string;
  threads?: number; // of a row that gathers those that hardly ran
  processes?: number; // as threads
  of?: number; // of a row that has only events of some name: their lane
  ids?: number[]; // and the numbers of the name
  over?: number; // and the levels of the lane, which this row shows over one another
  pile?: string; // of a counter whose values add up with those of others: what they come to
  plus?: number[]; // of a row of such counters: the lanes that are piled on `of`
}

export interface ReportInfo {
  id: number;
  name: string;
  path: string;
  first: number; // when the first event began
  last: number;
  realtime: string;
  bytes: number;
  complete: number;
  facts: { name: string; value: string }[];
  diagnostics: { time: number; severity: number; source: string; text: string }[];
  losses: { tid: number; kind: string; events: number; reason: string }[];
  output: { time: number; stream: number; text: string }[];
  tables: { name: string; sqlite: string; rows: number }[];
  damage: string[];
}

export interface Column {
  name: string;
  doc: string;
  type: string;
  value?: string | number | null;
  text?: string;
}

export interface Frame {
  name: string;
  file: string;
  line: number;
  module: string;
  kind: number;
}

export interface EventDetail extends Spot {
  table: string;
  sqlite: string;
  columns: Column[];
  stack: Frame[];
  /** shape: the arguments of a library call in short; report: where it is another one */
  links: (Spot & { role: string; shape?: string; report?: number })[];
  more_work?: number; // of the work of a range only the first and last are among the links
  of: number; // how many events are on its level
  self?: number; // as of a group
}

export interface Group {
  kind: string;
  name: string;
  count: number;
  total: number;
  min: number;
  max: number;
  longest: [number, number, number];
  self?: number; // of events that nest: their time without those directly inside of them
  form?: number; // of names that differ only in numbers: what the server knows them by
  names?: number; // and how many they are
}

/** A table of events; `values` are those of the columns that were asked for. */
export interface EventTable {
  events: (Spot & { values?: (Column | Record<string, never>)[] })[];
  count: number;
  columns?: { name: string; doc: string; type: string }[]; // that tables of these rows have
}

/** How durations are spread; moments and what never ended have none. */
export interface Durations {
  count: number;
  without: number;
  total: number;
  min?: number; // this and what follows: where there are any
  max?: number;
  median?: number;
  p90?: number;
  p99?: number;
  buckets: [from: number, to: number, count: number, total: number][];
}

/** Added to the number of a name: all that are shown as the same form. */
export const FORM = 2 ** 32;

/** What all names of a kind come to. */
export interface KindSum {
  kind: string;
  names: number;
  count: number;
  total: number;
}

export interface Sum {
  unread?: number; // rows that are being read, which this is without
  kinds: KindSum[];
  groups: Group[]; // as many of each kind as were asked for
  lanes: [number, number, number][];
  folds?: number; // whether some names of the report differ only in numbers
}

export interface FlameNode {
  name?: string;
  total: number;
  self: number;
  children: FlameNode[];
}

export interface Flame {
  samples: number;
  unit: string; // "ns", or what weights count
  root: FlameNode;
  flat: { name: string; module: string; self: number; total: number }[];
}

export type Params = Record<string, string | number | undefined>;

/** Where answers come from: the server, or what an exported page carries. */
export interface Source {
  json<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T>;
  tiles(params: Params, signal?: AbortSignal): Promise<ArrayBuffer>;
  /** Whether it piles counters on one another. */
  readonly piles: boolean;
}

export class ServerError extends Error {}

function writeQuery(params: Params): string {
  return Object.entries(params)
    .filter(([, value]) => value !== undefined)
    .map(([key, cell]) => `${key}=${encodeURIComponent(String(cell))}`)
    .join("&");
}

export class HttpSource implements Source {
  readonly piles = true;
  private async getAnswer(path: string, params: Params, signal?: AbortSignal): Promise<Response> {
    const response = await fetch(`api/${path}?${writeQuery(params)}`, { signal });
    if (!response.ok)
      throw new ServerError((await response.text()).trim() || `HTTP ${response.status}`);
    return response;
  }
  async json<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
    const v = (await (await this.getAnswer(path, params, signal)).json()) as T & { error?: string };
    if (v.error !== undefined) throw new ServerError(v.error);
    return v;
  }
  async tiles(params: Params, signal?: AbortSignal): Promise<ArrayBuffer> {
    return (await this.getAnswer("tiles", params, signal)).arrayBuffer();
  }
}

/* ---- tiles ---- */

/** Flags of a rectangle that the page sets itself, beside those that tiles come with. */
export const CHOSEN = 64, // the byte AT_SRC is a colour that the user chose for the name
  FADED = 128, // other names are highlighted
  // the row is not read: its number means nothing (of what is under the pointer only; a tile says
  // it of all)
  UNREAD = 256;
const LABEL_PIXELS = 20;

export interface TileLevel {
  from: number; // first rectangle
  n: number;
  wide: number[]; // rectangles that may be labelled
}

export interface Tile {
  report: number;
  lane: number;
  k: number;
  index: number;
  pending: boolean; // drawn from what the report says of its blocks: its row is not read
  reading: boolean; // ...but is being read
  asked: number; // levels asked for
  levels: TileLevel[];
  bytes: ArrayBuffer;
  offset: number; // of the first rectangle, in bytes
  rects: number;
  f32: Float32Array;
  u32: Uint32Array;
  u8: Uint8Array;
  used: number;
  marked?: boolean;
  gl?: unknown; // the renderer's
}

export function tileStart(scale: number, index: number): number {
  return index * TILE_PIXELS * 2 ** scale;
}

/** Texts of names that tiles mention, by report. */
export const names: Map<number, string>[] = [];
/** Colours that programs chose, by report. */
export const palettes: Uint32Array[] = [];

/** Tiles come in the order in which they were asked for. */
export function parseTiles(
  report: number,
  scale: number,
  asked: Wanted[],
  bytes: ArrayBuffer,
): Tile[] {
  const u32 = new Uint32Array(bytes, 0, bytes.byteLength >> 2);
  if (u32[0] !== TILE_MAGIC)
    throw new ServerError("The server sent tiles that this page does not know; reload it.");
  const tileN = u32[1],
    nameN = u32[2],
    colours = u32[4];
  palettes[report] = u32.slice(5, 5 + colours);
  const tiles: Tile[] = [];
  let at = 5 + colours;
  for (let i = 0; i < tileN; i++) {
    const levels: TileLevel[] = [];
    const n = u32[at + 3];
    let rects = 0;
    for (let j = 0; j < n; j++) {
      levels.push({ from: rects, n: u32[at + 4 + j], wide: [] });
      rects += u32[at + 4 + j];
    }
    tiles.push({
      report,
      lane: asked[i].lane,
      k: scale,
      index: u32[at + 1] | 0,
      pending: u32[at + 2] !== 0,
      reading: u32[at + 2] === 1,
      asked: asked[i].levels,
      levels,
      bytes,
      offset: 0,
      rects,
      f32: new Float32Array(0),
      u32: new Uint32Array(0),
      u8: new Uint8Array(0),
      used: 0,
    });
    at += 4 + n;
  }
  let offset = at * 4;
  for (const tile of tiles) {
    const size = tile.rects * RECT_BYTES;
    // so that one tile can be let go without the others
    tile.bytes = bytes.slice(offset, offset + size);
    offset += size;
    tile.f32 = new Float32Array(tile.bytes);
    tile.u32 = new Uint32Array(tile.bytes);
    tile.u8 = new Uint8Array(tile.bytes);
    for (const level of tile.levels)
      for (let rect = level.from; rect < level.from + level.n; rect++)
        if (
          tile.f32[rect * RECT_WORDS + AT_X1] - tile.f32[rect * RECT_WORDS + AT_X0] >=
            LABEL_PIXELS &&
          !(tile.u8[rect * RECT_BYTES + AT_FLAGS] & (PREVIEW | COUNTER))
        )
          level.wide.push(rect);
  }
  const text = new TextDecoder();
  const known = (names[report] ??= new Map());
  if (known.size > 200000) known.clear();
  at = offset / 4;
  for (let i = 0; i < nameN; i++) {
    const len = u32[at + 1];
    known.set(u32[at], text.decode(new Uint8Array(bytes, (at + 2) * 4, len)));
    at += 2 + ((len + 3) >> 2);
  }
  return tiles;
}

export interface Wanted {
  report: number;
  lane: number;
  levels: number;
  // only events with these names of that lane; `lane` is then a number of the page's own
  of?: number;
  ids?: number[];
  plus?: number[]; // counters that are piled on that lane, a level for each
}

/**
 * The user's choices for names, by report: their numbers with the colour chosen, and those that are
 * highlighted (null: all are as usual).
 */
export const chosen: Map<number, number>[] = [];
export const lit: (Set<number> | null)[] = [];

/**
 * Note in a tile which of its rectangles have a chosen colour, and which are faded because others
 * are highlighted.
 */
export function markTile(tile: Tile): void {
  const colors = chosen[tile.report],
    bright = lit[tile.report];
  if (!colors && !bright && !tile.marked) return;
  tile.marked = true;
  for (let at = 0; at < tile.u8.length; at += RECT_BYTES) {
    const name = tile.u32[at / 4 + AT_NAME],
      flags = tile.u8[at + AT_FLAGS] & ~(CHOSEN | FADED);
    if (flags & (COUNTER | PREVIEW)) continue;
    const color = colors?.get(name);
    tile.u8[at + AT_FLAGS] =
      flags | (color === undefined ? 0 : CHOSEN) | (bright && !bright.has(name) ? FADED : 0);
    if (color !== undefined) tile.u8[at + AT_SRC] = color;
  }
}

/**
 * Keeps tiles, asks for those that are missing in as few requests as possible, and drops what was
 * not used for long.
 */
export class TileCache {
  private tiles = new Map<string, Tile>();
  private flying = new Set<string>();
  private bytes = 0;
  private scales = new Map<number, number>(); // how many tiles there are of each
  private clock = 0;
  onDrop: (t: Tile) => void = () => undefined;
  onArrive: () => void = () => undefined;
  onError: (e: Error) => void = () => undefined;
  onReading: () => void = () => undefined;
  onLevels: (t: Tile) => void = () => undefined; // of a row that is not read
  static MOST = 64 << 20;

  constructor(private source: Source) {}

  private makeKey(report: number, lane: number, scale: number, index: number): string {
    return `${report}/${lane}/${scale}/${index}`;
  }

  getTile(report: number, lane: number, scale: number, index: number): Tile | undefined {
    const tile = this.tiles.get(this.makeKey(report, lane, scale, index));
    if (tile) tile.used = ++this.clock;
    return tile;
  }

  hasScale(scale: number): boolean {
    return (this.scales.get(scale) ?? 0) > 0;
  }

  busy(): boolean {
    return this.flying.size > 0;
  }

  /**
   * Have all tiles of a report asked for again at the next frame that shows them; until then they
   * are as they were.
   */
  renewTiles(report: number): void {
    for (const tile of this.tiles.values()) if (tile.report === report) tile.asked = 0;
  }

  /** Have pending tiles asked for again at the next frame that shows them. */
  retryPending(): void {
    for (const tile of this.tiles.values()) if (tile.pending) tile.asked = 0;
  }

  private ahead: AbortController | null = null; // of what was asked for ahead

  /**
   * Ask for what of these lanes is not there, for tiles first..last of scale k. `ahead`: in case
   * they are looked at; what is wanted now does not wait for these: a browser has but six
   * connections to a server.
   */
  wantTiles(lanes: Wanted[], scale: number, first: number, last: number, ahead = false): void {
    const byReport = new Map<string, Wanted[]>();
    for (let i = first; i <= last; i++)
      for (const wanted of lanes) {
        const key = this.makeKey(wanted.report, wanted.lane, scale, i);
        const tile = this.tiles.get(key);
        if ((tile && tile.asked >= wanted.levels) || this.flying.has(key)) continue;
        const place = `${wanted.report} ${i}`;
        const list = byReport.get(place);
        if (list) list.push(wanted);
        else byReport.set(place, [wanted]);
      }
    if (byReport.size && !ahead) {
      this.ahead?.abort();
      this.ahead = null;
    }
    if (byReport.size && ahead) this.ahead ??= new AbortController();
    for (const [place, list] of byReport) {
      const [report, index] = place.split(" ").map(Number);
      for (let i = 0; i < list.length; i += 64)
        void this.fetchTiles(
          report,
          scale,
          index,
          list.slice(i, i + 64),
          ahead ? this.ahead!.signal : undefined,
        );
    }
  }

  private async fetchTiles(
    report: number,
    scale: number,
    index: number,
    lanes: Wanted[],
    signal?: AbortSignal,
  ): Promise<void> {
    const keys = lanes.map((wanted) => this.makeKey(report, wanted.lane, scale, index));
    keys.forEach((key) => this.flying.add(key));
    try {
      const bytes = await this.source.tiles(
        {
          r: report,
          k: scale,
          i: index,
          n: 1,
          lanes: lanes
            .map(
              ({ of, lane, levels, ids = [], plus = [] }) =>
                `${of ?? lane}.${levels}${ids.map((id) => `~${id}`).join("")}` +
                plus.map((part) => `+${part}`).join(""),
            )
            .join(","),
        },
        signal,
      );
      for (const tile of parseTiles(report, scale, lanes, bytes)) {
        this.putTile(tile);
        if (tile.reading) this.onReading();
        if (tile.pending && tile.levels.length > 1) this.onLevels(tile);
      }
      this.evictTiles();
    } catch (error) {
      if (!signal?.aborted) this.onError(error as Error);
    } finally {
      keys.forEach((key) => this.flying.delete(key));
      this.onArrive();
    }
  }

  private putTile(tile: Tile): void {
    const key = this.makeKey(tile.report, tile.lane, tile.k, tile.index);
    const old = this.tiles.get(key);
    if (old) this.dropTile(key, old);
    tile.used = ++this.clock;
    markTile(tile);
    this.tiles.set(key, tile);
    this.scales.set(tile.k, (this.scales.get(tile.k) ?? 0) + 1);
    this.bytes += tile.bytes.byteLength + 300;
  }

  /** Other colours were chosen, or something else highlighted. */
  markTiles(): void {
    for (const tile of this.tiles.values()) {
      markTile(tile);
      this.onDrop(tile); // what the renderer has of it is old
    }
  }

  private dropTile(key: string, tile: Tile): void {
    this.onDrop(tile);
    this.tiles.delete(key);
    this.scales.set(tile.k, this.scales.get(tile.k)! - 1);
    this.bytes -= tile.bytes.byteLength + 300;
  }

  private evictTiles(): void {
    if (this.bytes <= TileCache.MOST) return;
    const all = [...this.tiles].sort((a, b) => a[1].used - b[1].used);
    for (const [key, tile] of all) {
      if (this.bytes <= TileCache.MOST * 0.75) break;
      this.dropTile(key, tile);
    }
  }
}
