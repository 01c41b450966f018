/** What counters were like in the selected stretch: asked of the server for the rows in sight. */

import type { App } from "./app";
import type { Row } from "./layout";

export interface StretchValue {
  mean: number;
  high?: number; // the greatest value; of a pile it is not known
}

interface Answer {
  counters: { lane: number; mean: number; low: number; high: number }[];
  unread: number;
}

export class Stretch {
  private values = new Map<string, StretchValue>(); // by report and lane
  private asked = new Set<string>();
  private range = "";

  constructor(private app: App) {}

  private keyOf(row: Row, lane: number): string {
    return `${row.report}/${lane}`;
  }

  valuesOf(row: Row): StretchValue | undefined {
    if (!row.parts) return this.values.get(this.keyOf(row, row.lane!));
    const found = row.parts.map((part) => this.values.get(this.keyOf(part, part.lane!)));
    if (found.every((value) => value === undefined)) return undefined;
    return { mean: found.reduce((sum, value) => sum + (value?.mean ?? 0), 0) };
  }

  /** Ask for what is not known of these rows. */
  look(rows: Row[]): void {
    const { range } = this.app,
      wanted = new Map<number, number[]>();
    if (this.range !== String(range)) {
      this.range = String(range);
      this.values.clear();
      this.asked.clear();
    }
    if (!range) return;
    for (const row of rows.flatMap((line) => line.parts ?? [line])) {
      const key = this.keyOf(row, row.lane!);
      if (this.asked.has(key)) continue;
      this.asked.add(key);
      wanted.set(row.report, [...(wanted.get(row.report) ?? []), row.lane!]);
    }
    for (const [report, lanes] of wanted) void this.fetchValues(report, lanes, range);
  }

  private async fetchValues(
    report: number,
    lanes: number[],
    [from, to]: [number, number],
  ): Promise<void> {
    const range = this.range,
      offset = this.app.offsets[report];
    for (let wait = 50; this.range === range; wait = Math.min(wait * 1.5, 1000)) {
      const answer = await this.app.ask<Answer>("counters", {
        r: report,
        lanes: lanes.join(),
        t0: Math.floor(from - offset),
        t1: Math.ceil(to - offset),
      });
      if (!answer || this.range !== range) return;
      for (const { lane, mean, high } of answer.counters)
        this.values.set(`${report}/${lane}`, { mean, high });
      this.app.emitEvent("draw");
      if (!answer.unread) return;
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}
