/**
 * The critical path on the time line: a line along the rows that it runs through, threads and
 * streams, that goes from one to another where one waited for the other. Pieces too short to see
 * are joined by the server; the path is requested again when the window comes to rest.
 */

import type { App } from "./app";
import { ServerError } from "./data";
import type { Link, Linked, LinkPairs } from "./link";
import type { Row } from "./layout";
import type { Timeline } from "./timeline";
import type { Place } from "./goto";
import { delayCalls } from "./dom";
import { cleanText, formatDuration } from "./format";
import { hasWord, t, type Word } from "./i18n";

/** [start, end, cause, lane, how many were joined, text] */
type Piece = [number, number, number, number, number, number];

export interface PathAnswer {
  window: [number, number];
  causes: string[];
  pieces: Piece[];
  texts: string[];
}

export interface CodeRow extends Place {
  cause: string;
  what: string;
  ns: number;
  pieces: number;
}

export type Causes = [cause: string, ns: number][];

export interface Gpu {
  name: string;
  compute: number;
  overlapped: number; // of computation, with communication or copies beside it
  communicate: number; // that nothing hides
  copy: number;
  idle: Causes;
}

export interface Spent {
  from: number;
  to: number;
  total: number;
  by_cause: Causes;
  rows: CodeRow[];
  rest: number; // of rows that are not listed
  gpus: Gpu[];
}

export interface PathTimes extends PathAnswer {
  spent: Spent;
}

interface Shown {
  answer: PathAnswer;
  report: number;
}

const FINE = 4, // pixels that a piece has at least
  THICK = 4,
  MARGIN = 0.5; // of the window that is asked for on either side

/** The name of a cause in the page's words; a cause that the page has no word for is named by the
 * program. */
export function nameCause(cause: string): string {
  const word = `cause_${cause}`;
  return hasWord(word) ? t(word as Word) : cause;
}

export class CriticalPath implements Linked {
  shown = false;
  private paths: (Shown | undefined)[] = [];
  private asking: AbortController | null = null;
  private failed = false; // it cannot be had; said once

  constructor(
    private app: App,
    private timeline: Timeline,
  ) {
    app.linkedParts.push(this);
    timeline.layers.push((context) => this.drawPath(context));
    for (const what of ["view", "built", "findings"]) app.on(what, () => this.askSoon());
    app.on("ready", () => (this.paths = []));
  }

  /** Whether an answer is under way. */
  isAsking(): boolean {
    return this.asking !== null;
  }

  writeLink(): LinkPairs {
    return this.shown ? [["path", "1"]] : [];
  }

  readLink(link: Link): void {
    if (link.get("path") === "1") this.toggle(true);
  }

  toggle(shown = !this.shown): void {
    this.shown = shown;
    this.failed = false;
    if (shown) void this.askPath();
    this.app.emitEvent("path");
    this.app.emitEvent("link");
    this.app.emitEvent("draw");
  }

  /* ---- asking ---- */

  private askSoon = delayCalls(120, () => void this.askPath());

  private async askPath(): Promise<void> {
    if (!this.shown || this.app.building || this.failed) return;
    this.asking?.abort();
    const mine = (this.asking = new AbortController());
    try {
      for (const { id } of this.app.reports) await this.askReport(id, mine.signal);
    } catch (error) {
      if (this.asking === mine && !mine.signal.aborted) this.sayFailed(error);
    }
    if (this.asking === mine) this.asking = null;
    this.app.emitEvent("draw");
  }

  private async askReport(report: number, signal: AbortSignal): Promise<void> {
    const { view, offsets } = this.app,
      margin = (view.t1 - view.t0) * MARGIN,
      question = {
        r: report,
        t0: Math.floor(view.t0 - offsets[report] - margin),
        t1: Math.ceil(view.t1 - offsets[report] + margin),
        least: Math.round(view.scale * FINE),
      };
    const answer = await this.app.source.json<PathAnswer>("path", question, signal);
    if (!signal.aborted) this.paths[report] = { answer, report };
  }

  private sayFailed(error: unknown): void {
    this.failed = true;
    if (error instanceof ServerError) this.app.showNotice(cleanText(error.message, 600));
    else this.app.showFailure(error);
  }

  /* ---- drawing ---- */

  private drawPath(context: CanvasRenderingContext2D): void {
    if (!this.shown) return;
    for (const path of this.paths) if (path) this.drawReport(context, path);
  }

  /** Lines first, then what joins them, in the colour of the path on one of the background. */
  private drawReport(context: CanvasRenderingContext2D, { answer, report }: Shown): void {
    const { view, offsets, theme } = this.app,
      offset = offsets[report],
      heights = new Map<number, number | null>(),
      heightOf = (lane: number): number | null => {
        if (!heights.has(lane)) heights.set(lane, this.lineOf(report, lane));
        return heights.get(lane)!;
      };
    const lines: [number, number, number][] = []; // from x to x at y
    for (const [start, end, , lane] of answer.pieces) {
      const y = lane < 0 ? null : heightOf(lane);
      if (end + offset < view.t0 || start + offset > view.t1 || y === null) continue;
      const [x0, x1] = [view.x(start + offset), view.x(end + offset)],
        last = lines[lines.length - 1];
      if (last && last[2] === y && last[1] > x0 - 1.5) last[1] = x1;
      else lines.push([x0, x1, y]);
    }
    const strokes: [string, number][] = [
      [theme.back, 2],
      [theme.path, 0],
    ];
    for (const [color, wider] of strokes) {
      context.fillStyle = color;
      lines.forEach(([x0, x1, y], i) => {
        context.fillRect(x0, y - wider / 2, Math.max(1, x1 - x0), THICK + wider);
        if (i && lines[i - 1][1] > x0 - 1.5) this.joinLines(context, lines[i - 1], lines[i], wider);
      });
    }
  }

  private joinLines(
    context: CanvasRenderingContext2D,
    [, x, from]: [number, number, number],
    [, , to]: [number, number, number],
    wider: number,
  ): void {
    if (from === to) return;
    context.fillRect(
      x - 0.75 - wider / 2,
      Math.min(from, to),
      1.5 + wider,
      Math.abs(to - from) + THICK,
    );
  }

  /** Where the line runs along a row: at its lower edge; null where the row is out of sight. */
  private lineOf(report: number, lane: number): number | null {
    const band = this.timeline.bandOf(report, { lane, level: 0 });
    if (!band) return null;
    const y = band.y + band.h - THICK,
      least = band.row.pinned ? 0 : this.timeline.pinnedHeight;
    return y < least - THICK ? null : y;
  }

  /* ---- under the pointer ---- */

  /** What bounds the program at a moment, if the path runs through the row then. */
  describeAt(row: Row | undefined, time: number): string[] {
    const path = row && this.shown ? this.paths[row.report] : undefined;
    if (!path || !row) return [];
    const at = time - this.app.offsets[row.report],
      piece = path.answer.pieces.find(([start, end]) => start <= at && at < end);
    if (!piece) return [];
    const [start, end, cause, lane, joined, text] = piece;
    if (lane < 0 || this.timeline.bandOf(row.report, { lane, level: 0 })?.row !== row) return [];
    const name = cleanText((path.answer.texts[text] ?? "").replace(/_v\d+$/, ""), 120),
      what = nameCause(path.answer.causes[cause]);
    return [
      t("path_here", name ? `${what}: ${name}` : what, formatDuration(end - start)),
      ...(joined > 1 ? [t("path_joined", joined)] : []),
    ];
  }
}
