/**
 * A kernel's source, PTX and instructions side by side. Each line shows its share of the samples; a
 * click marks what belongs to it in the other columns and shows what its warps waited for.
 */

import { fillElement, h } from "../dom";
import { cleanText } from "../format";
import { t } from "../i18n";
import type { SourceLine, SourceTable } from "./data";

const MOST_LINES = 3000,
  MOST_PLACE = 28 /* characters; the end of longer names of files is shown */,
  AROUND = 6;

interface Pane {
  title: string;
  rows: Row[];
}

/** A line of a pane, and the instructions that belong to it. */
interface Row {
  place: string;
  text: string;
  title: string;
  instructions: number[];
  element?: HTMLElement;
}

function placeOf(line: { file: string; line: number }): string {
  return `${line.file}:${line.line}`;
}

/** Instructions by a key; those without one are left out. */
function groupBy<K>(lines: SourceLine[], keyOf: (line: SourceLine) => K | null): Map<K, number[]> {
  const groups = new Map<K, number[]>();
  lines.forEach((line, i) => {
    const key = keyOf(line);
    if (key === null) return;
    const group = groups.get(key);
    if (group) group.push(i);
    else groups.set(key, [i]);
  });
  return groups;
}

export class Listing {
  readonly root = h("div", { class: "klisting" });
  private readonly panes: Pane[];
  private readonly stalls = h("div", { class: "kstalls" });
  private readonly all: number;

  constructor(private table: SourceTable) {
    this.all = this.sum(table.lines.map((_, i) => i)) || 1;
    this.panes = [this.makeSource(), this.makePtx(), this.makeSass()].filter(
      (pane) => pane.rows.length > 0,
    );
    fillElement(
      this.root,
      this.stalls,
      h(
        "div",
        { class: "kpanes" },
        this.panes.map((pane) => this.drawPane(pane)),
      ),
    );
    this.mark(this.findHottest());
  }

  /* ---- rows ---- */

  /** Lines of source around those that have instructions, file after file. */
  private makeSource(): Pane {
    const groups = groupBy(this.table.lines, (line) => (line.line ? placeOf(line) : null)),
      texts = this.table.texts ?? [],
      near = new Set<string>();
    for (const line of this.table.lines)
      for (let i = -AROUND; i <= AROUND; i++)
        near.add(placeOf({ file: line.file, line: line.line + i }));
    const rows = texts
      .filter((text) => near.has(placeOf(text)))
      .sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line)
      .map((text) => this.makeRow(placeOf(text), text.text, groups));
    const known = new Set(texts.map(placeOf));
    for (const place of groups.keys())
      if (!known.has(place)) rows.push(this.makeRow(place, "", groups));
    return { title: t("kernel_source"), rows };
  }

  private makeRow(place: string, text: string, groups: Map<string, number[]>): Row {
    return {
      place: place.replace(/.*\//, ""),
      text,
      title: place,
      instructions: groups.get(place) ?? [],
    };
  }

  private makePtx(): Pane {
    const groups = groupBy(this.table.lines, (line) => line.ptx ?? null);
    return {
      title: "PTX",
      rows: (this.table.ptx ?? []).map((line) => ({
        place: `${line.line}`,
        text: line.text,
        title: "",
        instructions: groups.get(line.line) ?? [],
      })),
    };
  }

  private makeSass(): Pane {
    return {
      title: "SASS",
      rows: this.table.lines.map((line, i) => ({
        place: (line.address ?? 0).toString(16).padStart(4, "0"),
        text: line.sass,
        title: [line.inlined ?? "", line.line ? placeOf(line) : "", line.callers ?? ""]
          .filter(Boolean)
          .join("\n"),
        instructions: [i],
      })),
    };
  }

  /* ---- drawing ---- */

  /** Samples; without any, how often instructions ran. */
  private sum(instructions: number[], column = 0): number {
    return instructions.reduce((sum, i) => sum + (this.table.lines[i].values[column] ?? 0), 0);
  }

  private drawPane(pane: Pane): HTMLElement {
    const rows = pane.rows.slice(0, MOST_LINES),
      width = Math.max(...rows.map((row) => Math.min(row.place.length, MOST_PLACE)), 4);
    return h(
      "div",
      { class: "kpane", role: "region", tabindex: "0", "aria-label": pane.title },
      h("h5", null, pane.title),
      rows.map((row) => (row.element = this.drawRow(row, width))),
    );
  }

  /** `width`: of the column of places, in characters. */
  private drawRow(row: Row, width: number): HTMLElement {
    const share = this.sum(row.instructions) / this.all,
      found = row.instructions.length > 0,
      percent = share > 0 ? `${(share * 100).toFixed(1)} %` : "";
    return h(
      found ? "button" : "div",
      {
        class: "kcode",
        title: cleanText(row.title) || undefined,
        style: {
          backgroundSize: `${(share * 100).toFixed(1)}% 100%`,
          gridTemplateColumns: `${width}ch 4em 1fr`,
        },
        onclick: found ? () => this.mark(row) : undefined,
      },
      h("span", { class: "quiet" }, cleanText(row.place.slice(-MOST_PLACE))),
      h("span", { class: "n" }, percent),
      h("bdi", null, cleanText(row.text, 300)),
    );
  }

  private findHottest(): Row | undefined {
    let best: Row | undefined;
    for (const row of this.panes[0]?.rows ?? [])
      if (
        row.instructions.length &&
        (!best || this.sum(row.instructions) > this.sum(best.instructions))
      )
        best = row;
    return best;
  }

  /** Mark a row and what belongs to it in the other panes. */
  private mark(row: Row | undefined): void {
    if (!row) return;
    const wanted = new Set(row.instructions);
    for (const pane of this.panes) {
      let first: HTMLElement | undefined;
      for (const other of pane.rows) {
        const on = other.instructions.some((i) => wanted.has(i));
        other.element?.classList.toggle("on", on);
        if (on) first ??= other.element;
      }
      if (first && !row.element?.parentElement?.contains(first)) {
        const box = first.parentElement as HTMLElement;
        box.scrollTop = first.offsetTop - box.clientHeight / 3;
      }
    }
    this.drawStalls(row);
  }

  /** What the warps of a row waited for. */
  private drawStalls(row: Row): void {
    const { metrics } = this.table,
      samples = this.sum(row.instructions) || 1;
    fillElement(
      this.stalls,
      h("b", null, h("bdi", null, cleanText(row.place))),
      metrics.map((metric, i) => {
        const share = this.sum(row.instructions, i) / samples;
        if (!metric.stall || share < 0.01) return null;
        return h(
          "span",
          {
            class: "bar",
            title: cleanText(metric.metric ?? ""),
            style: { backgroundSize: `${Math.min(share * 100, 100).toFixed(1)}% 100%` },
          },
          `${cleanText(metric.label).replaceAll("_", " ")} ${(share * 100).toFixed(0)} %`,
        );
      }),
    );
  }
}
