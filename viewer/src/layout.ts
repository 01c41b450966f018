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
  parts?: Row[]; // counters that it piles on one another, the lowest first
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
export function bandsOf(row: Row, strips: Row[]): Band[] {
  if (row.lane === undefined) {
    const each = (row.h - 2 * PAD) / Math.max(1, strips.length);
    return strips.map((lane, i) => ({
      lane,
      level: 0,
      y: PAD + i * each,
      h: Math.max(2, each - 1),
    }));
  }
  // of a pile the sum of all first, what it consists of in front
  if (isCounter(row))
    return Array.from(
      { length: row.parts?.length ?? 1 },
      (_, i, last = row.parts?.length ?? 1) => ({
        lane: row,
        level: last - 1 - i,
        y: PAD,
        h: row.h - 2 * PAD,
      }),
    );
  return Array.from({ length: row.over ?? row.shown }, (_, level) => ({
    lane: row,
    level,
    y: PAD + (row.over === undefined ? level * row.height : 0), // or over one another
    h: row.height - 1,
  }));
}

export function isCounter(node: TreeRow): boolean {
  return LANES[node.type]?.counter ?? false;
}

/** The unit of a counter's values. */
export function unitOf(node: TreeRow): string {
  return node.unit ?? (node.type === "gpu_bytes" ? "B" : "");
}

/** Rows that open to one for each of their commonest names have so many of them. */
export const MOST_NAMES = 12;

export function opensToNames(node: TreeRow): boolean {
  return LANES[node.type]?.byName ?? false;
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
  private pileLanes = new Map<string, number>(); // by the row's key: they stay the same
  piles = true; // whether counters that add up can be piled

  constructor(public saved: Saved) {}

  /** Put the tree of a report in place of what was there of it. */
  setTree(report: number, reportName: string, many: boolean, tree: TreeRow[]): void {
    const top: Row[] = [];
    this.roots = this.roots.filter((line) => line.report !== report);
    for (const [key, other] of this.byKey) if (other.report === report) this.byKey.delete(key);
    const makeRow = (node: TreeRow): Row => this.makeRow(report, many, node);
    if (many) top.push(makeRow({ id: "", parent: "", type: "report", label: reportName }));
    if (many) top[0].parentKey = "";
    for (const node of tree) {
      const row = makeRow(node);
      const parent = this.byKey.get(row.parentKey);
      if (parent && row.parentKey !== row.key) parent.children.push(row);
      else top.push(row);
    }
    for (const row of [...this.byKey.values()]) {
      if (row.report !== report) continue;
      if (row.type === "gpu") this.gatherStreams(row, makeRow);
      if (row.type === "counter_group" && this.piles) this.pileCounters(row, makeRow);
      for (const node of this.byName.get(row.key) ?? []) this.putBelow(row, makeRow(node));
    }
    this.roots.push(...top);
    this.roots.sort((a, b) => a.report - b.report);
    for (const row of top) this.prepareRow(row, 0);
  }

  private makeRow(report: number, many: boolean, tree: TreeRow): Row {
    const key = `${report}/${tree.id}`;
    const row: Row = {
      ...tree,
      key,
      report,
      parentKey: tree.parent ? `${report}/${tree.parent}` : many ? `${report}/` : "",
      children: [],
      depth: 0,
      open: false,
      hidden_: this.saved.hidden[key] ?? false,
      pinned: this.saved.pinned.includes(key),
      height:
        this.saved.height[key] ??
        (isCounter(tree) ? COUNTER_HEIGHT : tree.lane === undefined ? GROUP_HEIGHT : LEVEL),
      cls: classOf(tree.type),
      y: 0,
      h: 0,
      shown: 0,
    };
    this.byKey.set(key, row);
    if (row.type === "counter" && !this.metrics.has(row.label ?? ""))
      this.metrics.set(row.label ?? "", this.metrics.size);
    if (row.lane !== undefined) this.byLane.set(`${report}/${row.lane}`, row);
    return row;
  }

  /** Which colour a counter has: a metric its own; memory of GPUs looks the same everywhere. */
  hueOf(row: Row): number {
    return row.type === "gpu_bytes" ? 3 : (this.metrics.get(row.label ?? "") ?? 0) % COUNTER_COLORS;
  }

  /** A row below one that is a lane itself. */
  private putBelow(parent: Row, row: Row): void {
    row.cls = parent.cls;
    row.height = this.saved.height[row.key] ?? parent.height;
    row.over = parent.levels;
    parent.children.push(row);
  }

  /** Put a row for each of these names below a row, in place of those that it has. */
  /** Rows of names are to be asked for again. */
  forgetNames(): void {
    this.byName.clear();
  }

  setNames(parent: Row, names: { name: string; ids: number[]; count: number }[]): void {
    const many = this.byKey.has(`${parent.report}/`);
    for (const row of parent.children) this.byKey.delete(row.key);
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
      const line = this.makeRow(parent.report, many, t);
      this.putBelow(parent, line);
      this.prepareRow(line, parent.depth + 1);
    }
  }

  /**
   * Streams by how much they worked; beyond MOST_STREAMS in a row of their own. While they are
   * still being read, by how many events they have.
   */
  private gatherStreams(gpu: Row, make: (t: TreeRow) => Row): void {
    const streams = gpu.children.filter((row) => row.type === "stream");
    if (streams.length <= MOST_STREAMS + 1) return;
    const known = streams.every((line) => line.ready);
    streams.sort((a, b) =>
      known ? (b.busy ?? 0) - (a.busy ?? 0) : (b.count ?? 0) - (a.count ?? 0),
    );
    const rest = streams.slice(MOST_STREAMS),
      group = make({ id: `${gpu.id}.streams`, parent: gpu.id, type: "streams" }),
      at = gpu.children.indexOf(gpu.children.find((other) => other.type === "stream")!);
    for (const row of rest) row.parentKey = group.key;
    group.children = rest;
    gpu.children = gpu.children.filter((row) => row.type !== "stream");
    gpu.children.splice(at, 0, ...streams.slice(0, MOST_STREAMS), group);
  }

  /** Counters whose values add up are one row, which opens to them. */
  private pileCounters(group: Row, make: (t: TreeRow) => Row): void {
    const names = new Set(group.children.map((row) => row.pile).filter((name) => name));
    for (const name of names) {
      const parts = group.children.filter((row) => row.pile === name);
      if (parts.length < 2 || parts.some((row) => row.unit !== parts[0].unit)) continue;
      const at = group.children.indexOf(parts[0]),
        id = `${group.id}.${name}`,
        lane = this.pileLanes.get(`${group.report}/${id}`) ?? this.ownLane++,
        high = parts.reduce((sum, row) => sum + Math.max(0, row.high ?? 0), 0);
      this.pileLanes.set(`${group.report}/${id}`, lane);
      const pile = make({
        id,
        parent: group.id,
        type: "counter",
        label: name,
        unit: parts[0].unit,
        lane,
        of: parts[0].lane,
        plus: parts.slice(1).map((row) => row.lane!),
        low: 0,
        high: parts[0].unit === "%" ? Math.min(high, 100) : high,
      });
      pile.parts = parts;
      pile.children = parts;
      for (const row of parts) row.parentKey = pile.key;
      group.children = group.children.filter((row) => row.pile !== name);
      group.children.splice(at, 0, pile);
    }
  }

  private prepareRow(row: Row, depth: number): void {
    row.depth = depth;
    row.open = this.saved.open[row.key] ?? this.openAtFirst(row);
    const order = this.saved.order[row.key];
    if (order) {
      const at = new Map(order.map((key, i) => [key, i]));
      row.children.sort((a, b) => (at.get(a.key) ?? 1e6) - (at.get(b.key) ?? 1e6));
    }
    for (const line of row.children) this.prepareRow(line, depth + 1);
  }

  /**
   * What matters first: reports, processes, GPUs, and in a process its main thread or the one
   * with most events.
   */
  private openAtFirst(row: Row): boolean {
    const several = this.byKey.has(`${row.report}/`); // reports: all of them should be in sight
    if (several && row.type === "process") {
      const siblings = this.byKey.get(row.parentKey)?.children ?? [];
      return siblings.find((line) => line.type === "process") === row;
    }
    if (several && (row.lane !== undefined || row.type === "gpu" || row.type === "thread"))
      return false;
    if (row.type === "thread") {
      const parent = this.byKey.get(row.parentKey);
      const n = parent
        ? parent.children.filter((other) => other.type === "thread").indexOf(row)
        : 0;
      return n < 2 && parent?.type !== "threads";
    }
    if (row.parts) return false;
    // the metrics of a GPU or of the cores may be dozens, and would push threads out of sight
    if (row.type === "counter_group")
      return this.byKey.get(row.parentKey)?.type !== "gpu" && row.children.length <= 3;
    if (
      row.type === "cores" ||
      row.type === "threads" ||
      row.type === "processes" ||
      row.type === "streams"
    )
      return false;
    if (row.lane !== undefined)
      return (
        (row.type === "nvtx" && !row.loose) ||
        row.type === "projected" ||
        (row.type === "op" && !row.python) ||
        row.type === "slice" ||
        row.type === "track"
      );
    return true;
  }

  private matchesFilter(row: Row): boolean {
    if (!this.filter) return true;
    return (
      (this.names.get(row.key) ?? "").toLowerCase().includes(this.filter) ||
      row.children.some((line) => this.matchesFilter(line))
    );
  }

  private placeRow(row: Row, y: number): number {
    row.y = y;
    if (row.lane === undefined || isCounter(row)) {
      row.shown = isCounter(row) ? 1 : 0;
      row.h = row.height;
    } else {
      row.shown = row.open
        ? Math.max(1, Math.min(row.levels ?? 1, this.saved.full[row.key] ? 1000 : FIRST_LEVELS))
        : 1;
      row.h = row.shown * row.height + 2 * PAD;
    }
    return y + row.h;
  }

  /** Find out which rows are shown, and where. */
  placeRows(): void {
    let y = 0;
    this.visible = [];
    this.pinned = [];
    const walkRow = (row: Row, above: boolean): void => {
      const match =
        above ||
        (this.filter !== "" && (this.names.get(row.key) ?? "").toLowerCase().includes(this.filter));
      if (row.hidden_ || !(match || this.matchesFilter(row))) return;
      if (row.pinned) this.pinned.push(row);
      else {
        y = this.placeRow(row, y);
        this.visible.push(row);
      }
      if (row.open || (this.filter && row.lane === undefined))
        for (const line of row.children) walkRow(line, match);
    };
    for (const other of this.roots) walkRow(other, false);
    this.height = y;
    y = 0;
    for (const row of this.pinned) y = this.placeRow(row, y);
    this.pinnedHeight = y;
  }

  /** Lanes of a row and all below it. */
  lanesUnder(row: Row): Row[] {
    if (row.parts) return row.parts;
    return row.lane !== undefined
      ? [row.of === undefined ? row : (this.byLane.get(`${row.report}/${row.of}`) ?? row)]
      : row.children.flatMap((line) => this.lanesUnder(line));
  }

  /** Lanes shown in a closed group's own row. */
  stripsOf(row: Row): Row[] {
    if (row.lane !== undefined || (row.open && row.children.length)) return [];
    const want = [
      "kernels",
      "memory",
      "nvtx",
      "op",
      "slice",
      "openmp",
      "openacc",
      "cuda_api",
      "state",
      "sample",
      "cpu",
      "osrt",
      "syscall",
      "track",
      ...(row.type === "streams" ? ["stream"] : []),
      ...(row.type === "counter_group" ? ["counter"] : []),
    ];
    return this.lanesUnder(row)
      .filter((line) => want.includes(line.type) && !line.hidden_)
      .sort((a, b) => want.indexOf(a.type) - want.indexOf(b.type))
      .slice(0, STRIPS);
  }

  hiddenRows(): Row[] {
    return [...this.byKey.values()].filter((row) => row.hidden_);
  }

  moveRow(row: Row, by: number): void {
    const siblings = this.byKey.get(row.parentKey)?.children ?? this.roots;
    const i = siblings.indexOf(row),
      j = i + by;
    if (i < 0 || j < 0 || j >= siblings.length) return;
    siblings.splice(i, 1);
    siblings.splice(j, 0, row);
    this.saved.order[row.parentKey] = siblings.map((line) => line.key);
  }

  rowAt(list: Row[], y: number): Row | undefined {
    let low = 0,
      high = list.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (list[mid].y + list[mid].h <= y) low = mid + 1;
      else high = mid;
    }
    const row = list[low];
    return row && y >= row.y ? row : undefined;
  }
}
