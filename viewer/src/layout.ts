/** The rows: the tree of each report, what of it is shown, and where. */

import { LANES } from "generated/constants";
import type { TreeRow } from "./data";
import { classOf, COUNTER_COLORS } from "./colors";

export interface Row extends TreeRow {
  key: string; // report and id
  report: number;
  parentKey: string;
  children: Row[];
  depth: number;
  open: boolean;
  hidden_: boolean;
  pinned: boolean;
  height: number; // of a level, or of the whole row without levels; CSS pixels
  cls: number;
  y: number; // set by layout, from the top of its pane
  h: number;
  shown: number; // levels that are drawn
}

export interface Saved {
  open: Record<string, boolean>;
  hidden: Record<string, boolean>;
  pinned: string[];
  order: Record<string, string[]>; // of children, by parent
  height: Record<string, number>;
  full: Record<string, boolean>; // rows with all of their levels
}

export const LEVEL = 18;
const GROUP_HEIGHT = 26;
const COUNTER_HEIGHT = 44;
/** An open row shows so many levels at first; a menu shows the others. */
export const FIRST_LEVELS = 10;
const PAD = 3;

/**
 * Shown on screen once around a group's lanes when it is closed: so many of them, on top of one
 * another.
 */
export const STRIPS = 4;

/**
 * A GPU shows so many streams, those with most work; the others are gathered in one row, and do not
 * push the rest out of sight.
 */
export const MOST_STREAMS = 8;

/** A stretch of a row's height in which one level of a lane is painted, from the row's top. */
export interface Band {
  lane: Row;
  level: number;
  y: number;
  h: number;
}

/** The bands of a row; `strips` are the lanes that it shows while it is closed. */
export function bandsOf(r: Row, strips: Row[]): Band[] {
  if (r.lane === undefined) {
    const each = (r.h - 2 * PAD) / Math.max(1, strips.length);
    return strips.map((lane, i) => ({
      lane,
      level: 0,
      y: PAD + i * each,
      h: Math.max(2, each - 1),
    }));
  }
  if (isCounter(r)) return [{ lane: r, level: 0, y: PAD, h: r.h - 2 * PAD }];
  return Array.from({ length: r.over ?? r.shown }, (_, level) => ({
    lane: r,
    level,
    y: PAD + (r.over === undefined ? level * r.height : 0), // or over one another
    h: r.height - 1,
  }));
}

export function isCounter(r: TreeRow): boolean {
  return LANES[r.type]?.counter ?? false;
}

/** What the values of a counter are in. */
export function unitOf(r: TreeRow): string {
  return r.unit ?? (r.type === "gpu_bytes" ? "B" : "");
}

/** Rows that open to one for each of their commonest names have so many of them. */
export const MOST_NAMES = 12;

export function opensToNames(r: TreeRow): boolean {
  return LANES[r.type]?.byName ?? false;
}

/** Rows of names have lanes of the page's own, beyond those of the server. */
const FIRST_OWN_LANE = 2 ** 30;

export class Rows {
  roots: Row[] = [];
  byKey = new Map<string, Row>();
  byLane = new Map<string, Row>();
  visible: Row[] = [];
  pinned: Row[] = [];
  height = 0;
  pinnedHeight = 0;
  filter = "";
  names = new Map<string, string>(); // key to the text shown, for filtering
  /** Metrics by name, in the order in which they came: each has a colour, on every GPU the same. */
  private metrics = new Map<string, number>();
  private byName = new Map<string, TreeRow[]>(); // rows of names, by the row that they are below
  private ownLane = FIRST_OWN_LANE;

  constructor(public saved: Saved) {}

  /** Put the tree of a report in place of what was there of it. */
  set(report: number, reportName: string, many: boolean, tree: TreeRow[]): void {
    const top: Row[] = [];
    this.roots = this.roots.filter((r) => r.report !== report);
    for (const [k, r] of this.byKey) if (r.report === report) this.byKey.delete(k);
    const make = (t: TreeRow): Row => this.make(report, many, t);
    if (many) top.push(make({ id: "", parent: "", type: "report", label: reportName }));
    if (many) top[0].parentKey = "";
    for (const t of tree) {
      const r = make(t);
      const parent = this.byKey.get(r.parentKey);
      if (parent && r.parentKey !== r.key) parent.children.push(r);
      else top.push(r);
    }
    for (const r of [...this.byKey.values()]) {
      if (r.report !== report) continue;
      if (r.type === "gpu") this.gather(r, make);
      for (const t of this.byName.get(r.key) ?? []) this.below(r, make(t));
    }
    this.roots.push(...top);
    this.roots.sort((a, b) => a.report - b.report);
    for (const r of top) this.prepare(r, 0);
  }

  private make(report: number, many: boolean, t: TreeRow): Row {
    const key = `${report}/${t.id}`;
    const r: Row = {
      ...t,
      key,
      report,
      parentKey: t.parent ? `${report}/${t.parent}` : many ? `${report}/` : "",
      children: [],
      depth: 0,
      open: false,
      hidden_: this.saved.hidden[key] ?? false,
      pinned: this.saved.pinned.includes(key),
      height:
        this.saved.height[key] ??
        (isCounter(t) ? COUNTER_HEIGHT : t.lane === undefined ? GROUP_HEIGHT : LEVEL),
      cls: classOf(t.type),
      y: 0,
      h: 0,
      shown: 0,
    };
    this.byKey.set(key, r);
    if (r.type === "counter" && !this.metrics.has(r.label ?? ""))
      this.metrics.set(r.label ?? "", this.metrics.size);
    if (r.lane !== undefined) this.byLane.set(`${report}/${r.lane}`, r);
    return r;
  }

  /** Which colour a counter has: a metric its own; memory of GPUs looks the same everywhere. */
  hueOf(r: Row): number {
    return r.type === "gpu_bytes" ? 3 : (this.metrics.get(r.label ?? "") ?? 0) % COUNTER_COLORS;
  }

  /** A row below one that is a lane itself. */
  private below(parent: Row, r: Row): void {
    r.cls = parent.cls;
    r.height = this.saved.height[r.key] ?? parent.height;
    r.over = parent.levels;
    parent.children.push(r);
  }

  /** Put a row for each of these names below a row, in place of those that it has. */
  /** Rows of names are to be asked for again. */
  forgetNames(): void {
    this.byName.clear();
  }

  setNames(parent: Row, names: { name: string; ids: number[]; count: number }[]): void {
    const many = this.byKey.has(`${parent.report}/`);
    for (const c of parent.children) this.byKey.delete(c.key);
    parent.children = [];
    const rows = names.map((n) => ({
      id: `${parent.id}:${n.name}`,
      parent: parent.id,
      type: "named",
      label: n.name,
      lane: this.ownLane++,
      of: parent.lane,
      ids: n.ids,
      count: n.count,
      levels: 1,
    }));
    this.byName.set(parent.key, rows);
    for (const t of rows) {
      const r = this.make(parent.report, many, t);
      this.below(parent, r);
      this.prepare(r, parent.depth + 1);
    }
  }

  /**
   * Streams by how much they worked; beyond MOST_STREAMS in a row of their own. While they are
   * still being read, by how many events they have.
   */
  private gather(gpu: Row, make: (t: TreeRow) => Row): void {
    const streams = gpu.children.filter((c) => c.type === "stream");
    if (streams.length <= MOST_STREAMS + 1) return;
    const known = streams.every((s) => s.ready);
    streams.sort((a, b) =>
      known ? (b.busy ?? 0) - (a.busy ?? 0) : (b.count ?? 0) - (a.count ?? 0),
    );
    const rest = streams.slice(MOST_STREAMS),
      group = make({ id: `${gpu.id}.streams`, parent: gpu.id, type: "streams" }),
      at = gpu.children.indexOf(gpu.children.find((c) => c.type === "stream")!);
    for (const s of rest) s.parentKey = group.key;
    group.children = rest;
    gpu.children = gpu.children.filter((c) => c.type !== "stream");
    gpu.children.splice(at, 0, ...streams.slice(0, MOST_STREAMS), group);
  }

  private prepare(r: Row, depth: number): void {
    r.depth = depth;
    r.open = this.saved.open[r.key] ?? this.openAtFirst(r);
    const order = this.saved.order[r.key];
    if (order) {
      const at = new Map(order.map((k, i) => [k, i]));
      r.children.sort((a, b) => (at.get(a.key) ?? 1e6) - (at.get(b.key) ?? 1e6));
    }
    for (const c of r.children) this.prepare(c, depth + 1);
  }

  /**
   * What matters first: reports, processes, GPUs, and in a process its main thread or the one
   * with most events.
   */
  private openAtFirst(r: Row): boolean {
    const several = this.byKey.has(`${r.report}/`); // reports: all of them should be in sight
    if (several && r.type === "process") {
      const siblings = this.byKey.get(r.parentKey)?.children ?? [];
      return siblings.find((c) => c.type === "process") === r;
    }
    if (several && (r.lane !== undefined || r.type === "gpu" || r.type === "thread")) return false;
    if (r.type === "thread") {
      const parent = this.byKey.get(r.parentKey);
      const n = parent ? parent.children.filter((c) => c.type === "thread").indexOf(r) : 0;
      return n < 2 && parent?.type !== "threads";
    }
    // the metrics of a GPU may be dozens, and would push threads out of sight
    if (r.type === "counter_group") return this.byKey.get(r.parentKey)?.type !== "gpu";
    if (
      r.type === "cores" ||
      r.type === "threads" ||
      r.type === "processes" ||
      r.type === "streams"
    )
      return false;
    if (r.lane !== undefined)
      return (
        (r.type === "nvtx" && !r.loose) ||
        r.type === "projected" ||
        (r.type === "op" && !r.python) ||
        r.type === "slice" ||
        r.type === "track"
      );
    return true;
  }

  private matches(r: Row): boolean {
    if (!this.filter) return true;
    return (
      (this.names.get(r.key) ?? "").toLowerCase().includes(this.filter) ||
      r.children.some((c) => this.matches(c))
    );
  }

  private place(r: Row, y: number): number {
    r.y = y;
    if (r.lane === undefined || isCounter(r)) {
      r.shown = isCounter(r) ? 1 : 0;
      r.h = r.height;
    } else {
      r.shown = r.open
        ? Math.max(1, Math.min(r.levels ?? 1, this.saved.full[r.key] ? 1000 : FIRST_LEVELS))
        : 1;
      r.h = r.shown * r.height + 2 * PAD;
    }
    return y + r.h;
  }

  /** Find out which rows are shown, and where. */
  layout(): void {
    let y = 0;
    this.visible = [];
    this.pinned = [];
    const walk = (r: Row, above: boolean): void => {
      const match =
        above ||
        (this.filter !== "" && (this.names.get(r.key) ?? "").toLowerCase().includes(this.filter));
      if (r.hidden_ || !(match || this.matches(r))) return;
      if (r.pinned) this.pinned.push(r);
      else {
        y = this.place(r, y);
        this.visible.push(r);
      }
      if (r.open || (this.filter && r.lane === undefined))
        for (const c of r.children) walk(c, match);
    };
    for (const r of this.roots) walk(r, false);
    this.height = y;
    y = 0;
    for (const r of this.pinned) y = this.place(r, y);
    this.pinnedHeight = y;
  }

  /** Lanes of a row and all below it. */
  lanesUnder(r: Row): Row[] {
    return r.lane !== undefined
      ? [r.of === undefined ? r : (this.byLane.get(`${r.report}/${r.of}`) ?? r)]
      : r.children.flatMap((c) => this.lanesUnder(c));
  }

  /** Lanes shown in a closed group's own row. */
  strips(r: Row): Row[] {
    if (r.lane !== undefined || (r.open && r.children.length)) return [];
    const want = [
      "kernels",
      "memory",
      "nvtx",
      "op",
      "slice",
      "cuda_api",
      "state",
      "sample",
      "cpu",
      "osrt",
      "track",
      ...(r.type === "streams" ? ["stream"] : []),
      ...(r.type === "counter_group" ? ["counter"] : []),
    ];
    return this.lanesUnder(r)
      .filter((l) => want.includes(l.type) && !l.hidden_)
      .sort((a, b) => want.indexOf(a.type) - want.indexOf(b.type))
      .slice(0, STRIPS);
  }

  hiddenRows(): Row[] {
    return [...this.byKey.values()].filter((r) => r.hidden_);
  }

  move(r: Row, by: number): void {
    const siblings = this.byKey.get(r.parentKey)?.children ?? this.roots;
    const i = siblings.indexOf(r),
      j = i + by;
    if (i < 0 || j < 0 || j >= siblings.length) return;
    siblings.splice(i, 1);
    siblings.splice(j, 0, r);
    this.saved.order[r.parentKey] = siblings.map((s) => s.key);
  }

  rowAt(list: Row[], y: number): Row | undefined {
    let low = 0,
      high = list.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (list[mid].y + list[mid].h <= y) low = mid + 1;
      else high = mid;
    }
    const r = list[low];
    return r && y >= r.y ? r : undefined;
  }
}
