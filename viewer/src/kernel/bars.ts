/** Bars of percentages and counts, values that add up, and tables of what goes where. */

import { h } from "../dom";
import { cleanText } from "../format";
import type { Bar, BarsChart, Figure, StackChart, TableChart, Words } from "./data";
import { formatFigure, valueOf, writeFigure } from "./figure";
import { writeDifference } from "./differ";
import { addTip, explainFigure } from "./tips";

export interface Context {
  words: Words;
  /** The figures of the baseline by metric; null without one. */
  before: Map<string, Figure> | null;
}

export function findBefore(figure: Figure, context: Context): Figure | undefined {
  return context.before?.get(figure.metric ?? figure.label);
}

const inPercent = (value: number, most: number): string =>
  `${Math.max(0, Math.min(100, most > 0 ? (value / most) * 100 : 0)).toFixed(2)}%`;

/** How near to its limit something is: a word of the style sheet. */
function levelOf(bar: Figure, value: number, most: number): string {
  if (most !== 100 || bar.good) return "";
  return value >= 80 ? "high" : value >= 60 ? "much" : "";
}

function makeBar(bar: Figure, most: number, context: Context, cls = ""): HTMLElement {
  const value = valueOf(bar),
    before = valueOf(findBefore(bar, context));
  const row = h(
    "div",
    { class: `kbar ${cls}` },
    h("span", { class: "kname" }, cleanText(bar.label)),
    h(
      "span",
      { class: "ktrack" },
      value === null
        ? null
        : h("span", {
            class: `kfill ${levelOf(bar, value, most)}`,
            style: { width: inPercent(value, most) },
          }),
      before === null
        ? null
        : h("span", { class: "kbefore", style: { left: inPercent(before, most) } }),
    ),
    h("span", { class: "n" }, writeFigure(bar)),
    context.before ? writeDifference(bar, findBefore(bar, context)) : null,
  );
  addTip(row, () => explainFigure(bar, context.words));
  return row;
}

function makeParts(bar: Bar, most: number, context: Context): HTMLElement | null {
  const parts = (bar.parts ?? []).filter((part) => valueOf(part) !== null);
  if (!parts.length) return null;
  parts.sort((a, b) => (valueOf(b) ?? 0) - (valueOf(a) ?? 0));
  return h(
    "details",
    { class: "kparts" },
    h("summary", null, `${cleanText(bar.label)}: ${cleanText(parts[0].label)}`),
    parts.map((part) => makeBar(part, most, context, "part")),
  );
}

export function drawBars(chart: BarsChart, context: Context): HTMLElement {
  const values = chart.bars.map((bar) => valueOf(bar) ?? 0),
    before = chart.bars.map((bar) => valueOf(findBefore(bar, context)) ?? 0),
    most = chart.most || Math.max(...values, ...before, 1e-9);
  return h(
    "div",
    { class: `kbars${context.before ? " compared" : ""}` },
    chart.bars.map((bar) => makeBar(bar, most, context)),
    chart.bars.map((bar) => makeParts(bar, most, context)),
  );
}

/* ---- stacks ---- */

/** Okabe and Ito's colours, which the colour-blind tell apart; what is beyond them is grey. */
export const HUES = ["#d55e00", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9"];

function makeStack(parts: Figure[], most: number, hues: Map<string, string>): HTMLElement {
  return h(
    "span",
    { class: "kstack" },
    parts.map((part) =>
      h("span", {
        style: {
          width: inPercent(valueOf(part) ?? 0, most),
          background: hues.get(part.label) ?? "var(--dim)",
        },
      }),
    ),
  );
}

function makeStackRow(part: Figure, sum: number, hue: string | undefined, context: Context) {
  const value = valueOf(part) ?? 0,
    row = h(
      "div",
      { class: "kbar" },
      h(
        "span",
        { class: "kname" },
        h("span", { class: "swatch", style: { background: hue ?? "var(--dim)" } }),
        " ",
        cleanText(part.label),
      ),
      h(
        "span",
        { class: "ktrack" },
        h("span", {
          class: "kfill",
          style: { width: inPercent(value, sum), background: hue ?? "var(--dim)" },
        }),
      ),
      h("span", { class: "n" }, writeFigure(part)),
      h("span", { class: "n quiet" }, sum > 0 ? `${((value / sum) * 100).toFixed(1)} %` : ""),
      context.before ? writeDifference(part, findBefore(part, context)) : null,
    );
  addTip(row, () => explainFigure(part, context.words));
  return row;
}

/** One bar of all, above it the baseline's, and under it each by itself, the largest first. */
export function drawStack(chart: StackChart, context: Context): HTMLElement {
  const parts = chart.parts
      .filter((part) => (valueOf(part) ?? 0) > 0)
      .sort((a, b) => (valueOf(b) ?? 0) - (valueOf(a) ?? 0)),
    sumOf = (all: Figure[]): number => all.reduce((sum, part) => sum + (valueOf(part) ?? 0), 0),
    hues = new Map(parts.slice(0, HUES.length).map((part, i) => [part.label, HUES[i]])),
    before = parts.map((part) => ({ ...part, value: valueOf(findBefore(part, context)) })),
    most = Math.max(sumOf(parts), context.before ? sumOf(before) : 0);
  return h(
    "div",
    { class: `kstacks kbars${context.before ? " compared" : ""}` },
    context.before ? makeStack(before, most, hues) : null,
    makeStack(parts, most, hues),
    h("p", { class: "quiet" }, `Σ ${formatFigure(sumOf(parts), chart.unit)}`),
    parts.map((part) => makeStackRow(part, sumOf(parts), hues.get(part.label), context)),
  );
}

/* ---- tables ---- */

export function drawTable(chart: TableChart, context: Context): HTMLElement {
  const makeCell = (cell: Figure | null): HTMLElement => {
    if (!cell) return h("td", { class: "n quiet" }, "");
    const td = h(
      "td",
      { class: "n" },
      writeFigure(cell),
      context.before ? writeDifference(cell, findBefore(cell, context), "span") : null,
    );
    addTip(td, () => explainFigure(cell, context.words));
    return td;
  };
  return h(
    "table",
    { class: "grid ktable" },
    h("caption", null, cleanText(chart.title)),
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("td", null),
        chart.columns.map((column) =>
          h("th", { scope: "col", class: "n" }, cleanText(column.label)),
        ),
      ),
    ),
    h(
      "tbody",
      null,
      chart.rows.map((row) =>
        h("tr", null, h("th", { scope: "row" }, cleanText(row.label)), row.cells.map(makeCell)),
      ),
    ),
  );
}
