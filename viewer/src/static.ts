/**
 * A page that carries its events (`warpsight export -t html`): the same answers as the server's,
 * from arrays. Events of a level do not overlap and ascend, so everything is a search and a walk;
 * such a page holds at most some hundred thousand of them.
 */

import {
  AT_COLOR,
  AT_EVENT,
  COUNTER,
  EVENT_MOMENT,
  EVENT_OPEN,
  EVENT_SOURCE,
  GROUP,
  LANES,
  MOMENT,
  OPEN,
  PAINTED,
  RECT_BYTES,
  STATE_WORDS,
  TILE_MAGIC,
  TILE_PIXELS,
} from "generated/constants";
import {
  AGAIN,
  FORM,
  ServerError,
  type Column,
  type Durations,
  type EventDetail,
  type EventTable,
  type Frame,
  type Group,
  type KindSum,
  type Params,
  type ReportInfo,
  type Source,
  type Spot,
  type TreeRow,
} from "./data";
import type { CodeRow, PathTimes, Spent } from "./critical";
import { makeFilter, type Holds } from "./conditions";
import { describeSpread } from "./spread";
import { compareCells } from "./values";

interface Carried {
  session: { version: string; reports: ReportInfo[] };
  tree: { rows: TreeRow[] };
  window: [number, number];
  lanes: { lane: number; kind: string; counter: number; levels: number[] }[];
  // numbers and texts; where names differ only in numbers also what they are shown as
  names: [id: number, text: string, form?: number, formText?: string][];
  palette: number[];
  findings?: object; // answers of the server
  path?: PathTimes;
  kernels?: object;
  kernel?: { id: number }[];
  details?: {
    tables: CarriedTable[];
    stacks: number[][]; // frames, innermost first; rows number them from 1
    frames: [number, Frame[]][];
    texts: [number, string][];
    threads: [id: number, tid: number, process: number, name: string][];
    processes: [id: number, pid: number, name: string][];
  };
}

type Value = number | string | null;

/** Rows of a table, as events number them (`row` ascends), column by column. */
interface CarriedTable {
  source: number;
  table: string;
  sqlite: string;
  row: number[];
  stack?: number[];
  columns: { name: string; doc: string; type: string; same?: Value; values?: Value[] }[];
}

interface Level {
  n: number;
  start: Float64Array;
  dur: Float64Array; // of counters the value
  name: Uint32Array;
  row: Uint32Array;
  src: Uint8Array;
  paint: Uint8Array;
  color: Uint8Array;
}

interface Tie {
  role: string;
  lane: number;
  level: number;
  event: number;
}

interface Lane {
  lane: number;
  kind: string;
  counter: boolean;
  levels: Level[];
}

function unpackBytes(text: string): ArrayBuffer {
  const bin = atob(text.trim()),
    out = new Uint8Array(bin.length);
  for (let i = 0; i < bin.length; i++) out[i] = bin.charCodeAt(i);
  return out.buffer;
}

/** The first event at or after `t`. */
function seekEvent(level: Level, time: number): number {
  let low = 0,
    high = level.n;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (level.start[mid] < time) low = mid + 1;
    else high = mid;
  }
  return low;
}

/**
 * For a thread's states (colors.ts): whether it is on a core. Everything else counts as busy while
 * it is there.
 */
function isRunning(lane: Lane, level: Level, i: number): boolean {
  return lane.kind !== "state" || level.color[i] < STATE_WORDS.indexOf("ready");
}

/** Where the time of a part of the path went, by its pieces; of GPUs nothing is known then. */
function sumPath(path: PathTimes, t0: number, t1: number): Spent {
  const rows = new Map<string, CodeRow>(),
    from = Math.max(t0, path.spent.from),
    to = Math.max(from, Math.min(t1, path.spent.to));
  for (const [start, end, number, lane, , text] of path.pieces) {
    const [first, last] = [Math.max(start, from), Math.min(end, to)],
      cause = path.causes[number],
      key = `${cause} ${text}`;
    if (last <= first) continue;
    const place = lane < 0 ? { start: first, end: last } : { start: first, end: last, lane },
      row = rows.get(key) ?? { cause, what: path.texts[text] ?? "", ns: 0, pieces: 0, ...place };
    if (last - first > row.end - row.start) Object.assign(row, place);
    row.ns += last - first;
    row.pieces++;
    rows.set(key, row);
  }
  const all = [...rows.values()].sort((a, b) => b.ns - a.ns),
    causes = [...new Set(all.map((row) => row.cause))];
  return {
    from,
    to,
    total: to - from,
    by_cause: causes.map((cause) => [
      cause,
      all.reduce((ns, row) => ns + (row.cause === cause ? row.ns : 0), 0),
    ]),
    rows: all,
    rest: to - from - all.reduce((ns, row) => ns + row.ns, 0),
    gpus: [],
  };
}

export class StaticSource implements Source {
  readonly piles = false;
  private data: Carried;
  private lanes = new Map<number, Lane>();
  private names: Map<number, string>;
  private forms = new Map<number, [number, string]>(); // names that are shown as one

  static isCarried(): boolean {
    return document.getElementById("warpsight-data") !== null;
  }

  constructor() {
    this.data = JSON.parse(document.getElementById("warpsight-data")!.textContent ?? "") as Carried;
    this.names = new Map(this.data.names.map(([id, text]) => [id, text]));
    for (const [id, , form, text] of this.data.names)
      if (form !== undefined) this.forms.set(id, [form, text ?? ""]);
    const bytes = unpackBytes(document.getElementById("warpsight-events")!.textContent ?? "");
    let at = 0;
    for (const l of this.data.lanes) {
      const lane: Lane = { lane: l.lane, kind: l.kind, counter: l.counter === 1, levels: [] };
      for (const n of l.levels) {
        const level: Level = {
          n,
          start: new Float64Array(bytes, at, n),
          dur: new Float64Array(bytes, at + n * 8, n),
          name: new Uint32Array(0),
          row: new Uint32Array(0),
          src: new Uint8Array(0),
          paint: new Uint8Array(0),
          color: new Uint8Array(0),
        };
        at += n * 16;
        if (!lane.counter) {
          level.name = new Uint32Array(bytes, at, n);
          level.row = new Uint32Array(bytes, at + n * 4, n);
          level.src = new Uint8Array(bytes, at + n * 8, n);
          level.paint = new Uint8Array(bytes, at + n * 9, n);
          level.color = new Uint8Array(bytes, at + n * 10, n);
          at += (n * 11 + 7) & ~7;
        }
        lane.levels.push(level);
      }
      this.lanes.set(l.lane, lane);
    }
  }

  /** How many it holds, each counted once. */
  get held(): number {
    return [...this.lanes.values()]
      .filter((lane) => !AGAIN.includes(lane.kind))
      .reduce((n, found) => n + found.levels.reduce((m, level) => m + level.n, 0), 0);
  }

  get window(): [number, number] {
    return this.data.window;
  }

  private findRange(lane: Lane, level: Level, t0: number, t1: number): [number, number] {
    let from = seekEvent(level, t0);
    const to = seekEvent(level, t1);
    if (from && (lane.counter || level.start[from - 1] + level.dur[from - 1] > t0)) from--;
    return [Math.min(from, to), to];
  }

  /* ---- tiles ---- */

  tiles(params: Params): Promise<ArrayBuffer> {
    const depth = Number(params.k),
      index = Number(params.i);
    const heads: number[] = [],
      rects: { f: number[]; u: number[]; b: number[]; counter: boolean }[] = [],
      used = new Set<number>();
    const asked = String(params.lanes).split(",");
    for (const text of asked) {
      const [where, ...only] = text.split("~"),
        [lane, most] = where.split(".").map(Number);
      const found = this.lanes.get(lane);
      const levels = found ? found.levels.slice(0, most) : [];
      heads.push(lane, index >>> 0, 0, levels.length);
      for (const level of levels) {
        const before = rects.length;
        this.drawLevel(
          found!,
          only.length ? this.keepNamed(level, new Set(only.map(Number))) : level,
          depth,
          index,
          rects,
          used,
        );
        heads.push(rects.length - before);
      }
    }
    return Promise.resolve(this.packTiles(asked.length, heads, rects, used));
  }

  private drawLevel(
    lane: Lane,
    level: Level,
    scale: number,
    index: number,
    out: { f: number[]; u: number[]; b: number[]; counter: boolean }[],
    used: Set<number>,
  ): void {
    const px = 2 ** scale,
      t0 = index * TILE_PIXELS * px,
      [from, to] = this.findRange(lane, level, t0, t0 + TILE_PIXELS * px);
    const clampPixel = (x: number): number => Math.max(-65536, Math.min(65536, (x - t0) / px));
    for (let i = from; i < to; ) {
      const edge = t0 + (Math.floor(Math.max(0, level.start[i] - t0) / px) + 1) * px;
      let j = i + 1;
      if (lane.counter || level.dur[i] < px)
        while (j < to && level.start[j] < edge && (lane.counter || level.dur[j] < px)) j++;
      let busy = 0,
        running = 0,
        rest = -1,
        longest = i,
        low = level.dur[i],
        high = level.dur[i];
      for (let m = i; m < j; m++) {
        busy += level.dur[m];
        if (level.dur[m] > level.dur[longest]) longest = m;
        if (!isRunning(lane, level, m) && (rest < 0 || level.dur[m] > level.dur[rest])) rest = m;
        if (isRunning(lane, level, m)) running += level.dur[m];
        low = Math.min(low, level.dur[m]);
        high = Math.max(high, level.dur[m]);
      }
      if (lane.counter)
        out.push({
          f: [
            clampPixel(level.start[i]),
            clampPixel(j < level.n ? level.start[j] : this.data.window[1]),
            high,
            low,
            level.dur[j - 1],
          ],
          u: [],
          b: [0, 255, COUNTER, 0],
          counter: true,
        });
      else {
        const states = lane.kind === "state" && j > i + 1,
          painted = level.paint[longest] !== 0,
          moment = (level.src[longest] & EVENT_MOMENT) !== 0;
        const x0 = clampPixel(level.start[i]),
          x1 = clampPixel(level.start[j - 1] + level.dur[j - 1]);
        out.push({
          f: [x0, x1],
          u: [longest, j - i, level.name[longest]],
          b: [
            painted ? level.paint[longest] : level.color[states && rest >= 0 ? rest : longest],
            states
              ? Math.min(255, (running * 255) / px)
              : moment || (j === i + 1 && level.dur[i] >= px)
                ? 255
                : Math.min(255, (busy * 255) / px),
            (painted ? PAINTED : 0) |
              (level.src[longest] & EVENT_OPEN ? OPEN : 0) |
              (moment ? MOMENT : 0) |
              (j > i + 1 ? GROUP : 0),
            level.src[longest] & EVENT_SOURCE,
          ],
          counter: false,
        });
        if (x1 - x0 >= 20) used.add(level.name[longest]);
      }
      i = j;
    }
  }

  /**
   * A level with only those events that have one of these names. They are distinguished by their
   * place in it, which is good enough for drawing.
   */
  private keepNamed(level: Level, ids: Set<number>): Level {
    const at = [...level.name.keys()].filter(
      (i) => ids.has(level.name[i]) || ids.has(FORM + (this.forms.get(level.name[i])?.[0] ?? NaN)),
    );
    const pickFrom = <T extends Float64Array | Uint32Array | Uint8Array>(from: T, to: T): T => (
      at.forEach((i, j) => (to[j] = from[i])), to
    );
    const n = at.length;
    return {
      n,
      start: pickFrom(level.start, new Float64Array(n)),
      dur: pickFrom(level.dur, new Float64Array(n)),
      name: pickFrom(level.name, new Uint32Array(n)),
      row: pickFrom(level.row, new Uint32Array(n)),
      src: pickFrom(level.src, new Uint8Array(n)),
      paint: pickFrom(level.paint, new Uint8Array(n)),
      color: pickFrom(level.color, new Uint8Array(n)),
    };
  }

  private packTiles(
    tiles: number,
    heads: number[],
    rects: { f: number[]; u: number[]; b: number[]; counter: boolean }[],
    used: Set<number>,
  ): ArrayBuffer {
    const text = new TextEncoder(),
      names = [...used].map((id) => ({
        id,
        bytes: text.encode((this.names.get(id) ?? "").slice(0, 200)),
      }));
    const nameBytes = names.reduce((s, n) => s + 8 + ((n.bytes.length + 3) & ~3), 0);
    const head = (5 + this.data.palette.length + heads.length) * 4;
    const out = new ArrayBuffer(head + rects.length * RECT_BYTES + nameBytes),
      view = new DataView(out);
    [
      TILE_MAGIC,
      tiles,
      names.length,
      nameBytes,
      this.data.palette.length,
      ...this.data.palette,
      ...heads,
    ].forEach((x, i) => view.setUint32(i * 4, x, true));
    rects.forEach((r, i) => {
      const at = head + i * RECT_BYTES;
      r.f.forEach((x, j) => view.setFloat32(at + j * 4, x, true));
      r.u.forEach((x, j) => view.setUint32(at + (AT_EVENT + j) * 4, x, true));
      r.b.forEach((x, j) => view.setUint8(at + AT_COLOR + j, x));
    });
    let at = head + rects.length * RECT_BYTES;
    for (const n of names) {
      view.setUint32(at, n.id, true);
      view.setUint32(at + 4, n.bytes.length, true);
      new Uint8Array(out, at + 8, n.bytes.length).set(n.bytes);
      at += 8 + ((n.bytes.length + 3) & ~3);
    }
    return out;
  }

  /* ---- questions ---- */

  private makeSpot(lane: Lane, level: number, i: number): Spot {
    const levelEvents = lane.levels[level];
    if (lane.counter)
      return {
        lane: lane.lane,
        level,
        event: i,
        start: levelEvents.start[i],
        end: i + 1 < levelEvents.n ? levelEvents.start[i + 1] : this.window[1],
        flags: 0,
        name: "",
        value: levelEvents.dur[i],
      };
    return {
      lane: lane.lane,
      level,
      event: i,
      start: levelEvents.start[i],
      end: levelEvents.start[i] + levelEvents.dur[i],
      flags: levelEvents.src[i] & 0xc0,
      name: this.names.get(levelEvents.name[i]) ?? "",
    };
  }

  /** The lanes that are meant, and the window. */
  private findWanted(params: Params, without: string[]): { lanes: Lane[]; t0: number; t1: number } {
    const chosen =
      params.lanes === undefined ? null : new Set(String(params.lanes).split(",").map(Number));
    return {
      lanes: [...this.lanes.values()].filter(
        (lane) => !lane.counter && (chosen ? chosen.has(lane.lane) : !without.includes(lane.kind)),
      ),
      t0: Number(params.t0 ?? -Infinity),
      t1: Number(params.t1 ?? Infinity),
    };
  }

  private makeMatcher(params: Params): (name: number) => boolean {
    const text = String(params.q ?? "");
    if (params.form !== undefined) return (name) => this.forms.get(name)?.[0] === params.form;
    if (params.exact)
      return (name) =>
        params.exact === 2
          ? (this.names.get(name) ?? "").startsWith(text)
          : (this.names.get(name) ?? "") === text;
    if (!text) return () => true;
    let re: RegExp;
    try {
      re = new RegExp(
        Number(params.re) ? text : text.replace(/[\\^$.[\]|()*+?{}]/g, "\\$&"),
        Number(params.case) ? "" : "i",
      );
    } catch (error) {
      throw new ServerError(`the regular expression cannot be used: ${(error as Error).message}`);
    }
    const seen = new Map<number, boolean>();
    return (name) => {
      let v = seen.get(name);
      if (v === undefined) seen.set(name, (v = re.test(this.names.get(name) ?? "")));
      return v;
    };
  }

  /** `without`: rows that show again what others have. */
  private sumNames(params: Params, without: string[]): unknown {
    const { lanes, t0, t1 } = this.findWanted(params, without),
      match = this.makeMatcher(params),
      groups = new Map<string, Group>(),
      named: Record<string, Set<number>> = {},
      busy: [number, number, number][] = [];
    for (const lane of lanes)
      lane.levels.forEach((level, scale) => {
        const [from, to] = this.findRange(lane, level, t0, t1);
        let total = 0;
        for (let i = from; i < to; i++) {
          const distance = StaticSource.clipDuration(level, i, t0, t1);
          if (isRunning(lane, level, i)) total += distance;
          if (!match(level.name[i])) continue;
          const form = params.fold ? this.forms.get(level.name[i]) : undefined,
            key = `${lane.kind} ${form?.[0] ?? level.name[i]}`;
          let group = groups.get(key);
          if (!group)
            groups.set(
              key,
              (group = {
                kind: lane.kind,
                name: form?.[1] ?? this.names.get(level.name[i]) ?? "",
                form: form?.[0],
                count: 0,
                total: 0,
                min: Infinity,
                max: -1,
                self: LANES[lane.kind]?.nests ? 0 : undefined,
                longest: [0, 0, 0],
              }),
            );
          if (form) {
            const texts = (named[key] ??= new Set());
            group.names = texts.add(level.name[i]).size;
          }
          group.count++;
          group.total += distance;
          if (group.self !== undefined)
            group.self += this.ownTime(lane, scale, i, t0, t1) ?? distance;
          group.min = Math.min(group.min, distance);
          if (distance > group.max) {
            group.max = distance;
            group.longest = [lane.lane, scale, i];
          }
        }
        if (lane.levels.length === 1) busy.push([lane.lane, total, to - from]);
      });
    for (const found of lanes)
      if (found.levels.length > 1) busy.push(this.sumCovered(found, t0, t1));
    const all = [...groups.values()].sort((a, b) => b.total - a.total);
    return {
      ...StaticSource.takePart(all, params),
      names: all.slice(0, 200),
      count: all.reduce((s, mine) => s + mine.count, 0),
      distinct: all.length,
      folds: Number(this.forms.size > 0),
      lanes: busy,
    };
  }

  /** The sums that were asked for, of each kind or of one, and the totals of each kind. */
  private static takePart(all: Group[], params: Params): { kinds: KindSum[]; groups: Group[] } {
    const valueOf = (group: Group): number | string =>
        params.sort === "average"
          ? group.total / group.count
          : group[(params.sort ?? "total") as "total"],
      way = params.down === 0 ? 1 : -1,
      compareSpots = (a: Group, b: Group): number =>
        valueOf(a) === valueOf(b) ? 0 : valueOf(a) < valueOf(b) ? -way : way,
      from = Number(params.offset ?? 0),
      to = from + Number(params.limit ?? 200),
      kinds = [...new Set(all.map((mine) => mine.kind))].map((kind) => {
        const groups = all.filter((group) => group.kind === kind).sort(compareSpots);
        return {
          kind,
          groups: params.kind === undefined || params.kind === kind ? groups.slice(from, to) : [],
          names: groups.length,
          count: groups.reduce((n, mine) => n + mine.count, 0),
          total: groups.reduce((n, other) => n + other.total, 0),
        };
      });
    return {
      kinds: kinds.map(({ kind, names, count, total }) => ({ kind, names, count, total })),
      groups: kinds.flatMap((k) => k.groups),
    };
  }

  private static clipDuration(level: Level, i: number, t0: number, t1: number): number {
    return Math.max(0, Math.min(t1, level.start[i] + level.dur[i]) - Math.max(t0, level.start[i]));
  }

  /** An event's time in a window without those directly inside of it; undefined where none nest. */
  private ownTime(
    lane: Lane,
    scale: number,
    i: number,
    t0: number,
    t1: number,
  ): number | undefined {
    this.loose ??= new Set(
      this.data.tree.rows.flatMap((node) =>
        node.loose && node.lane !== undefined ? [node.lane] : [],
      ),
    );
    if (!LANES[lane.kind]?.nests || this.loose.has(lane.lane)) return undefined;
    const level = lane.levels[scale],
      inner = lane.levels[scale + 1],
      end = level.start[i] + level.dur[i];
    let own = StaticSource.clipDuration(level, i, t0, t1);
    if (!inner) return own;
    for (let j = seekEvent(inner, level.start[i]); j < inner.n && inner.start[j] < end; j++)
      if (inner.start[j] + inner.dur[j] <= end) own -= StaticSource.clipDuration(inner, j, t0, t1);
    return own;
  }
  private loose?: Set<number>;

  /** How long anything on a lane of several levels was under way. */
  private sumCovered(lane: Lane, t0: number, t1: number): [number, number, number] {
    const spans: [number, number][] = [];
    for (const level of lane.levels) {
      const [from, to] = this.findRange(lane, level, t0, t1);
      for (let i = from; i < to; i++)
        spans.push([Math.max(t0, level.start[i]), Math.min(t1, level.start[i] + level.dur[i])]);
    }
    spans.sort((a, b) => a[0] - b[0]);
    let total = 0,
      end = -Infinity;
    for (const [a, b] of spans) {
      total += Math.max(0, b - Math.max(a, end));
      end = Math.max(end, b);
    }
    return [lane.lane, total, spans.length];
  }

  /** Show each event that is asked for. */
  private eachEvent(
    params: Params,
    show: (lane: Lane, depth: number, event: number) => void,
  ): void {
    const { lanes, t0, t1 } = this.findWanted(params, AGAIN),
      match = this.makeMatcher(params),
      meets = makeFilter(String(params.where ?? ""), (name) => this.findTypes(name));
    for (const lane of lanes)
      lane.levels.forEach((level, depth) => {
        const [from, to] = this.findRange(lane, level, t0, t1);
        for (let i = from; i < to; i++)
          if (
            match(level.name[i]) &&
            StaticSource.isAsLong(level, i, params) &&
            meets((name) => this.cellOf(level, i, name))
          )
            show(lane, depth, i);
      });
  }

  private listSpots(params: Params): Spot[] {
    const out: Spot[] = [];
    this.eachEvent(params, (lane, depth, i) => out.push(this.makeSpot(lane, depth, i)));
    return out;
  }

  /** Moments and what never ended have no duration. */
  private static hasDuration(level: Level, i: number): boolean {
    return !(level.src[i] & (EVENT_MOMENT | EVENT_OPEN));
  }

  private static isAsLong(level: Level, i: number, params: Params): boolean {
    if (params.below === undefined) return true;
    return (
      StaticSource.hasDuration(level, i) &&
      level.dur[i] >= Number(params.at_least ?? 0) &&
      level.dur[i] < Number(params.below)
    );
  }

  private answerDurations(params: Params): Durations {
    const durations: number[] = [];
    let without = 0;
    this.eachEvent({ ...params, below: undefined }, (lane, depth, i) => {
      const level = lane.levels[depth];
      if (StaticSource.hasDuration(level, i)) durations.push(level.dur[i]);
      else without++;
    });
    return describeSpread(durations, without);
  }

  /* ---- columns of tables ---- */

  /** Tables that events are rows of; states are computed. */
  private listTables(): CarriedTable[] {
    return (this.data.details?.tables ?? []).filter((table) => table.sqlite !== "");
  }

  private findTypes(name: string): ReturnType<Holds> {
    const types = this.listTables()
      .flatMap((table) => table.columns)
      .filter((column) => column.name === name)
      .map((column) => column.type);
    if (!types.length) return undefined;
    return {
      numbers: types.some((type) => type !== "STR"),
      texts: types.some((type) => ["STR", "THREAD", "NTHREAD", "PROCESS"].includes(type)),
    };
  }

  /** The value of an event in a column, or its duration; undefined where its table lacks the
   * column. */
  private cellOf(level: Level, i: number, name: string): Column | undefined {
    if (name === "duration") {
      const value = StaticSource.hasDuration(level, i) ? level.dur[i] : null;
      return { name, doc: "", type: "U64", value };
    }
    if (!this.data.details) return undefined;
    const table = this.getDictionaries().tables.get(level.src[i] & EVENT_SOURCE),
      column = table?.sqlite ? table.columns.find((c) => c.name === name) : undefined,
      at = table && column ? StaticSource.rowIndex(table, level.row[i]) : -1;
    return column && at >= 0 ? this.describeColumn(column, at) : undefined;
  }

  /** Columns of the tables that events of some rows come from. */
  private offerColumns(lanes: Lane[]): NonNullable<EventTable["columns"]> {
    const sources = new Set<number>(),
      offered = new Map<string, NonNullable<EventTable["columns"]>[number]>();
    for (const level of lanes.flatMap((lane) => lane.levels))
      for (const src of level.src) sources.add(src & EVENT_SOURCE);
    for (const { source, columns } of this.listTables())
      for (const { name, doc, type } of sources.has(source) ? columns : [])
        if (!offered.has(name)) offered.set(name, { name, doc, type });
    return [...offered.values()];
  }

  private checkColumn(name: string): void {
    if (!this.findTypes(name)) throw new ServerError(`no events have a column ${name}`);
  }

  private answerEvents(params: Params): unknown {
    const all = this.listSpots(params),
      sign = Number(params.down) ? -1 : 1,
      lanes = new Map(
        String(params.lanes ?? "")
          .split(",")
          .map((line, i) => [Number(line), i]),
      ),
      by: Record<string, (a: Spot, b: Spot) => number> = {
        start: (a, b) => a.start - b.start,
        duration: (a, b) => a.end - a.start - b.end + b.start,
        name: (a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)),
        row: (a, b) => (lanes.get(a.lane) ?? a.lane) - (lanes.get(b.lane) ?? b.lane),
      };
    if (params.column === undefined)
      all.sort((a, b) => sign * by[String(params.sort ?? "start")](a, b) || a.start - b.start);
    else this.sortByColumn(all, String(params.column), Number(params.down) === 1);
    const offset = Number(params.offset ?? 0),
      columns = String(params.columns ?? "")
        .split(",")
        .filter(Boolean);
    columns.forEach((name) => this.checkColumn(name));
    return {
      events: all.slice(offset, offset + Number(params.limit ?? 100)).map((spot) => ({
        ...spot,
        ...(columns.length && {
          values: columns.map((name) => this.cellOf(this.levelOf(spot), spot.event, name) ?? {}),
        }),
      })),
      count: all.length,
      columns: this.offerColumns(this.findWanted(params, AGAIN).lanes),
    };
  }

  private levelOf(spot: Spot): Level {
    return this.lanes.get(spot.lane)!.levels[spot.level];
  }

  private sortByColumn(spots: Spot[], name: string, down: boolean): void {
    this.checkColumn(name);
    const cells = new Map(
      spots.map((spot) => [spot, this.cellOf(this.levelOf(spot), spot.event, name)]),
    );
    spots.sort((a, b) => compareCells(cells.get(a), cells.get(b), down) || a.start - b.start);
  }

  private answerStep(params: Params): unknown {
    const time = Number(params.t),
      back = Number(params.back) === 1,
      beside = params.lane === undefined ? null : [Number(params.lane), Number(params.level)],
      compareSpots = (tie: Spot, lane: number, level: number): number =>
        tie.lane - lane || tie.level - level,
      sign = back ? -1 : 1;
    let best: Spot | null = null;
    for (const spot of this.listSpots({ ...params, t0: undefined, t1: undefined })) {
      const after = spot.start - time || (beside ? compareSpots(spot, beside[0], beside[1]) : 0);
      if (
        sign * after > 0 &&
        (!best || sign * (spot.start - best.start || compareSpots(spot, best.lane, best.level)) < 0)
      )
        best = spot;
    }
    return best ?? {};
  }

  private answerEvent(params: Params): unknown {
    const lane = this.lanes.get(Number(params.lane)),
      level = lane?.levels[Number(params.level)];
    if (!lane || !level || Number(params.event) >= level.n)
      throw new ServerError("there is no such event");
    if (lane.counter) {
      const spot = this.makeSpot(lane, Number(params.level), Number(params.event));
      return {
        ...spot,
        table: lane.kind,
        sqlite: "",
        columns: [],
        stack: [],
        links: [],
        of: level.n,
      };
    }
    return {
      ...this.makeSpot(lane, Number(params.level), Number(params.event)),
      ...this.describeEvent(lane, level, Number(params.event)),
      self: this.ownTime(lane, Number(params.level), Number(params.event), -Infinity, Infinity),
      of: level.n,
    };
  }

  /* ---- columns, stacks and links, where they are carried ---- */

  private who?: {
    threads: Map<number, [number, number, string]>;
    processes: Map<number, [number, string]>;
    texts: Map<number, string>;
    frames: Map<number, Frame[]>;
    tables: Map<number, CarriedTable>;
  };

  private getDictionaries(): NonNullable<StaticSource["who"]> {
    const d = this.data.details!;
    return (this.who ??= {
      threads: new Map(d.threads.map(([id, ...pair]) => [id, pair])),
      processes: new Map(d.processes.map(([id, ...entry]) => [id, entry])),
      texts: new Map(d.texts),
      frames: new Map(d.frames),
      tables: new Map(d.tables.map((table) => [table.source, table])),
    });
  }

  private static rowIndex(table: CarriedTable, row: number): number {
    let low = 0,
      high = table.row.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (table.row[mid] < row) low = mid + 1;
      else high = mid;
    }
    return table.row[low] === row ? low : -1;
  }

  private static readValue(table: CarriedTable, name: string, i: number): Value {
    const c = table.columns.find((x) => x.name === name);
    return c ? (c.values ? c.values[i] : (c.same ?? null)) : null;
  }

  private describeColumn(c: CarriedTable["columns"][number], i: number): Column {
    const w = this.getDictionaries(),
      cell = c.values ? c.values[i] : (c.same ?? null),
      out: Column = { name: c.name, doc: c.doc, type: c.type };
    if (cell === null) return out;
    if (c.type === "WORD") return { ...out, text: String(cell) };
    if (c.type === "STR") return { ...out, text: w.texts.get(Number(cell)) ?? "" };
    if (c.type === "THREAD" || c.type === "NTHREAD")
      return {
        ...out,
        text: w.threads.get(Number(cell))?.[2],
        value: w.threads.get(Number(cell))?.[0],
      };
    if (c.type === "PROCESS")
      return {
        ...out,
        text: w.processes.get(Number(cell))?.[1],
        value: w.processes.get(Number(cell))?.[0],
      };
    return { ...out, value: c.type === "F64" ? cell : String(cell) };
  }

  private describeEvent(
    found: Lane,
    levelEvents: Level,
    event: number,
  ): Omit<EventDetail, keyof Spot | "of"> {
    const none = { table: "", sqlite: "", columns: [], stack: [], links: [] };
    if (!this.data.details) return none;
    const w = this.getDictionaries(),
      table = w.tables.get(levelEvents.src[event] & EVENT_SOURCE),
      i = table ? StaticSource.rowIndex(table, levelEvents.row[event]) : -1;
    if (!table || i < 0) return none;
    const tied = this.findTied(table, i);
    let at = table.stack?.[i] ?? 0;
    if (!at && tied[0]?.role === "call") at = tied[0].stack; // the call that launched it
    return {
      table: table.table,
      sqlite: table.sqlite,
      columns: table.columns.map((c) => this.describeColumn(c, i)),
      stack: at ? this.data.details.stacks[at - 1].flatMap((f) => w.frames.get(f) ?? []) : [],
      links: [...tied, ...this.findRanges(found, levelEvents, event, tied)].map(
        ({ role, lane, level, event: n }) => ({
          role,
          ...this.makeSpot(this.lanes.get(lane)!, level, n),
        }),
      ),
    };
  }

  /** Rows below the same thread. */
  private findBeside(lane: Lane, kinds: string[]): Lane[] {
    this.parents ??= new Map(
      this.data.tree.rows
        .filter((node) => node.lane !== undefined)
        .map((tree) => [tree.lane!, tree.parent]),
    );
    return [...this.lanes.values()].filter(
      (x) => kinds.includes(x.kind) && this.parents!.get(x.lane) === this.parents!.get(lane.lane),
    );
  }
  private parents?: Map<number, string>;

  /** Ranges of a call's thread around its start, innermost first. */
  private findAround(call: Lane, time: number): Tie[] {
    return this.findBeside(call, ["nvtx", "op"]).flatMap((lane) =>
      lane.levels
        .map((levelEvents, level): Tie | null => {
          const [from, to] = this.findRange(lane, levelEvents, time, time + 1);
          return from < to && !(levelEvents.src[from] & EVENT_MOMENT)
            ? { role: "range", lane: lane.lane, level, event: from }
            : null;
        })
        .filter((x): x is Tie => x !== null)
        .reverse(),
    );
  }

  /** What a range is tied to: itself as the GPU saw it, or as the program did. */
  private findSame(levelEvents: Level, event: number, kind: string, role: string): Tie[] {
    return [...this.lanes.values()]
      .filter((found) => found.kind === kind)
      .flatMap((lane) =>
        lane.levels.flatMap((x, level) =>
          [...x.row.keys()]
            .filter(
              (i) =>
                x.row[i] === levelEvents.row[event] &&
                (x.src[i] & EVENT_SOURCE) === (levelEvents.src[event] & EVENT_SOURCE),
            )
            .map((i) => ({ role, lane: lane.lane, level, event: i })),
        ),
      );
  }

  private findRanges(lane: Lane, level: Level, event: number, tied: Tie[]): Tie[] {
    if (lane.kind === "cuda_api") return this.findAround(lane, level.start[event]);
    if (lane.kind === "nvtx") return this.findSame(level, event, "projected", "on_gpu");
    if (lane.kind === "projected") return this.findSame(level, event, "nvtx", "range");
    const call = tied.find((x) => x.role === "call"),
      by = call && this.lanes.get(call.lane);
    return call && by ? this.findAround(by, by.levels[call.level].start[call.event]) : [];
  }

  private calls?: Map<
    string,
    { role: string; lane: number; level: number; event: number; stack: number }[]
  >;

  /** A call and the work that it launched have one correlation id in their process. */
  private tieOf(table: CarriedTable, i: number): { key: string; call: boolean } | null {
    const id = StaticSource.readValue(table, "correlation", i),
      call = table.table === "cuda_api",
      process = call
        ? this.getDictionaries().threads.get(
            Number(StaticSource.readValue(table, "thread", i)),
          )?.[1]
        : StaticSource.readValue(table, "process", i);
    return id === null || id === 0 || process === undefined || process === null
      ? null
      : { key: `${process} ${id}`, call };
  }

  private findTied(
    table: CarriedTable,
    i: number,
  ): { role: string; lane: number; level: number; event: number; stack: number }[] {
    if (!this.calls) {
      this.calls = new Map();
      for (const lane of this.lanes.values()) {
        if (lane.counter || !["cuda_api", "stream", "sync"].includes(lane.kind)) continue;
        lane.levels.forEach((levelEvents, level) => {
          for (let n = 0; n < levelEvents.n; n++) {
            const table = this.getDictionaries().tables.get(levelEvents.src[n] & EVENT_SOURCE),
              scale = table ? StaticSource.rowIndex(table, levelEvents.row[n]) : -1,
              tie = table && scale >= 0 ? this.tieOf(table, scale) : null;
            if (!table || !tie) continue;
            const list = this.calls!.get(tie.key) ?? [];
            list.push({
              role: tie.call ? "call" : "work",
              lane: lane.lane,
              level,
              event: n,
              stack: table.stack?.[scale] ?? 0,
            });
            this.calls!.set(tie.key, list);
          }
        });
      }
    }
    const tie = this.tieOf(table, i);
    return tie
      ? (this.calls.get(tie.key) ?? []).filter((x) => (x.role === "call") !== tie.call)
      : [];
  }

  private answerAt(params: Params): unknown {
    const lane = this.lanes.get(Number(params.lane)),
      level = lane?.levels[Number(params.level)],
      events: Spot[] = [];
    if (!lane || !level) return { events, count: 0, busy: 0 };
    const [from, to] =
      params.event === undefined
        ? this.findRange(lane, level, Number(params.t0), Number(params.t1))
        : [Math.min(level.n, Number(params.event)), Math.min(level.n, Number(params.event) + 1)];
    for (let i = from; i < to && events.length < Number(params.limit ?? 20); i++)
      events.push(this.makeSpot(lane, Number(params.level), i));
    return { events, count: to - from, busy: 0 };
  }

  get hasPath(): boolean {
    return this.data.path !== undefined;
  }

  /**
   * The path as it was worked out; of a part of it where its time went, by cause and by what is
   * known of the pieces.
   */
  private answerPath(params: Params): unknown {
    const { path } = this.data,
      [t0, t1] = [Number(params.t0 ?? -Infinity), Number(params.t1 ?? Infinity)];
    if (!path) throw new ServerError("An exported page does not carry this.");
    if (t0 <= path.spent.from && t1 >= path.spent.to) return path;
    return { ...path, spent: sumPath(path, t0, t1) };
  }

  private answerKernel(params: Params): unknown {
    const result = this.data.kernel?.find(({ id }) => id === Number(params.id));
    if (!result) throw new ServerError("An exported page does not carry this.");
    return result;
  }

  json<T>(path: string, params: Params = {}): Promise<T> {
    const answers: Record<string, (p: Params) => unknown> = {
      session: () => this.data.session,
      tree: () => this.data.tree,
      progress: () => ({ events: 1, built: 1, done: 1, all: 1 }),
      sum: (question) => this.sumNames(question, question.names === 0 ? [] : ["stream", "cpu"]),
      search: (part) => this.sumNames(part, AGAIN),
      events: (params) => this.answerEvents(params),
      durations: (params) => this.answerDurations(params),
      step: (params) => this.answerStep(params),
      event: (params) => this.answerEvent(params),
      names: (params) => ({
        ids: [...this.names]
          .filter(([, text]) =>
            params.cut ? text.startsWith(String(params.q)) : text === params.q,
          )
          .map(([id]) => id),
      }),
      at: (params) => this.answerAt(params),
      findings: () => this.data.findings ?? { state: "none" },
      path: (params) => this.answerPath(params),
      kernels: () => this.data.kernels ?? { results: [] },
      kernel: (params) => this.answerKernel(params),
    };
    try {
      if (!answers[path]) throw new ServerError("An exported page does not carry this.");
      return Promise.resolve(answers[path](params) as T);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }
}
