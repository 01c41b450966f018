/**
 * The strip above the axis: how busy GPUs and cores were over the whole of the reports, from the
 * coarsest tiles that show it.
 */

import {
  AT_COLOR,
  AT_FILL,
  AT_X0,
  AT_X1,
  RECT_BYTES,
  RECT_WORDS,
  TILE_PIXELS,
} from "generated/constants";
import type { App } from "./app";
import { parseTiles, tileStart, type Tile, type Wanted } from "./data";
import { delayCalls } from "./dom";
import type { Row } from "./layout";

/** What is shown: of each device the share of time in which it was busy, and the mean of these. */
export type Band = "gpu" | "cpu";
export const OVERVIEW_BANDS: Band[] = ["gpu", "cpu"];

/** So many rows of a band are looked at; of more, every n-th. */
const MOST_ROWS = 256;
const ROWS_A_REQUEST = 64;
const MOST_LEVELS = 4;
/** States of threads in which they are on a core: the first two colours. */
const ON_CORE = 1;

interface Shares {
  start: number; // time of the report at which the first begins
  step: number; // ns that each is for
  shares: Float32Array; // 0 to 1
}

/** Add to each bin the part of it that a level's rectangles fill. */
function addLevel(tile: Tile, level: number, isState: boolean, bins: Float32Array): void {
  const { from, n } = tile.levels[level];
  for (let rect = from; rect < from + n; rect++) {
    const fill = tile.u8[rect * RECT_BYTES + AT_FILL] / 255,
      begins = Math.max(0, tile.f32[rect * RECT_WORDS + AT_X0]),
      ends = Math.min(TILE_PIXELS, tile.f32[rect * RECT_WORDS + AT_X1]);
    // of several states `fill` is how much was on a core
    if (isState && fill === 1 && tile.u8[rect * RECT_BYTES + AT_COLOR] > ON_CORE) continue;
    // what is shorter than a bin says by `fill` how much of that it takes
    if (ends - begins <= 1) bins[Math.min(TILE_PIXELS - 1, Math.floor(begins))] += fill;
    else
      for (let bin = Math.floor(begins); bin < ends; bin++)
        bins[bin] += fill * (Math.min(ends, bin + 1) - Math.max(begins, bin));
  }
}

export class Overview {
  private shares = new Map<string, Shares>(); // by report and band
  private asked = 0; // the last question
  private answered = 0; // and the last one that was answered
  version = 0; // of what is shown

  constructor(private app: App) {
    app.on("ready", () => {
      this.shares.clear();
      this.seen = "";
      this.expectMore();
    });
    for (const what of ["built", "layout"]) app.on(what, () => this.expectMore());
  }

  private askSoon = delayCalls(200, () => void this.askShares());
  private seen = "";
  /** Whether something is to be requested, or has been requested and not answered. */
  expecting = false;

  private expectMore(): void {
    this.expecting = true;
    this.askSoon();
  }

  private async askShares(): Promise<void> {
    if (this.app.building) return;
    const ready = [...this.app.rows.byLane.values()].filter((row) => row.ready).length,
      key = `${ready} ${this.app.view.first} ${this.app.view.last}`;
    if (key === this.seen) {
      this.expecting = this.answered !== this.asked;
      return;
    }
    this.seen = key;
    const mine = ++this.asked;
    for (const report of this.app.reports)
      for (const band of OVERVIEW_BANDS) {
        const shares = await this.measureShares(report.id, this.rowsOf(report.id, band));
        if (mine !== this.asked) return;
        if (shares) this.shares.set(`${report.id} ${band}`, shares);
      }
    this.version++;
    this.answered = mine;
    this.expecting = false;
    this.app.emitEvent("draw");
  }

  /** Rows whose mean shows how busy the machine was: those of cores, where these are known. */
  private rowsOf(report: number, band: Band): Row[][] {
    const rows = [...this.app.rows.byLane.values()].filter(
        (row) => row.report === report && row.of === undefined,
      ),
      ofType = (type: string): Row[] => rows.filter((row) => row.type === type);
    if (band === "gpu") {
      const gpus = new Map<string, Row[]>();
      for (const row of [...ofType("kernels"), ...ofType("memory")])
        gpus.set(row.parentKey, [...(gpus.get(row.parentKey) ?? []), row]);
      return [...gpus.values()];
    }
    const cores = ofType("cpu").length ? ofType("cpu") : ofType("state"),
      every = Math.ceil(cores.length / MOST_ROWS);
    return cores.filter((_, i) => i % every === 0).map((row) => [row]);
  }

  /** The mean over devices, each with all that its rows show. */
  private async measureShares(report: number, devices: Row[][]): Promise<Shares | null> {
    const { view, offsets } = this.app,
      from = view.first - offsets[report],
      scale = Math.max(0, Math.ceil(Math.log2((view.last - view.first) / TILE_PIXELS))),
      first = Math.floor(from / (TILE_PIXELS * 2 ** scale)),
      shares = new Float32Array(2 * TILE_PIXELS);
    if (!devices.length) return null;
    const lanes: Wanted[] = devices.flat().map((row) => ({
      report,
      lane: row.lane!,
      levels: Math.min(MOST_LEVELS, row.levels ?? 1),
    }));
    const parts = new Map<number, Float32Array>();
    for (let i = 0; i < 2; i++)
      for (const tile of await this.loadTile(report, scale, first + i, lanes)) {
        const bins = parts.get(tile.lane) ?? new Float32Array(2 * TILE_PIXELS);
        parts.set(tile.lane, bins);
        this.addTile(tile, bins.subarray(i * TILE_PIXELS, (i + 1) * TILE_PIXELS));
      }
    for (const rows of devices)
      for (let bin = 0; bin < shares.length; bin++) {
        let busy = 0;
        for (const row of rows) busy += parts.get(row.lane!)?.[bin] ?? 0;
        shares[bin] += Math.min(1, busy);
      }
    const isThreads = devices[0][0].type === "state",
      // of threads it is not known how many could run: the busiest moment is all that there is
      whole = isThreads ? Math.max(1, ...shares) : devices.length;
    return {
      start: tileStart(scale, first),
      step: 2 ** scale,
      shares: shares.map((share) => share / whole),
    };
  }

  /** Levels above the first overlap it: of them what it does not fill counts. */
  private addTile(tile: Tile, bins: Float32Array): void {
    const isState = this.app.laneRow(tile.report, tile.lane)?.type === "state";
    tile.levels.forEach((_, level) => {
      const own = new Float32Array(TILE_PIXELS);
      addLevel(tile, level, isState, own);
      own.forEach((share, bin) => (bins[bin] = Math.max(bins[bin], Math.min(1, share))));
    });
  }

  private async loadTile(
    report: number,
    scale: number,
    i: number,
    lanes: Wanted[],
  ): Promise<Tile[]> {
    const tiles: Tile[] = [];
    for (let at = 0; at < lanes.length; at += ROWS_A_REQUEST) {
      const some = lanes.slice(at, at + ROWS_A_REQUEST),
        text = some.map((wanted) => `${wanted.lane}.${wanted.levels}`).join(",");
      try {
        const bytes = await this.app.source.tiles({ r: report, k: scale, i, n: 1, lanes: text });
        tiles.push(...parseTiles(report, scale, some, bytes));
      } catch {
        return tiles; // the strip stays as empty as it is; what is wrong is said elsewhere
      }
    }
    return tiles;
  }

  /** Whether there is anything to show of a band. */
  hasTiles(band: Band): boolean {
    return this.app.reports.some((report) => this.shares.has(`${report.id} ${band}`));
  }

  /** How busy it was between two times of the page: the mean, of the busiest report. */
  shareOf(band: Band, from: number, to: number): number {
    let most = 0;
    for (const report of this.app.reports) {
      const found = this.shares.get(`${report.id} ${band}`);
      if (!found) continue;
      const offset = this.app.offsets[report.id] + found.start,
        first = Math.max(0, Math.floor((from - offset) / found.step)),
        last = Math.min(found.shares.length - 1, Math.floor((to - offset) / found.step));
      let sum = 0;
      for (let bin = first; bin <= last; bin++) sum += found.shares[bin];
      if (last >= first) most = Math.max(most, sum / (last - first + 1));
    }
    return most;
  }
}
