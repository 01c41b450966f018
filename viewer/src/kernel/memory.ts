/**
 * The memory system as a diagram: units with their hit rates, and between them what went there and
 * back. The colour of a link says how near it is to the most that can go there.
 */

import { h, s } from "../dom";
import { cleanText } from "../format";
import { t } from "../i18n";
import { findBefore, type Context } from "./bars";
import type { Figure, MemoryChart, MemoryLink, MemoryUnit } from "./data";
import { describeDifference, directionOf } from "./differ";
import { valueOf, writeFigure } from "./figure";
import { makePicture } from "./plot";
import { addTip, explainFigure } from "./tips";

const UNIT_WIDTH = 118,
  COLUMN = 290, // from unit to unit
  ROW = 62,
  GAP = 12,
  EDGE = 8;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

function boxOf(unit: MemoryUnit): Box {
  return {
    x: EDGE + unit.column * COLUMN,
    y: EDGE + unit.row * ROW,
    width: UNIT_WIDTH,
    height: unit.rows * ROW - GAP,
  };
}

function drawUnit(unit: MemoryUnit, context: Context): SVGElement {
  const { x, y, width, height } = boxOf(unit),
    middle = y + height / 2,
    lines = unit.figures.filter((figure) => valueOf(figure) !== null),
    top = middle - (lines.length * 14) / 2;
  const group = s("g", { class: "kunit" }, [
    s("rect", { x, y, width, height, rx: 5 }),
    s(
      "text",
      { x: x + width / 2, y: top + 4, "text-anchor": "middle", class: "kunitname" },
      cleanText(unit.label, 20),
    ),
    ...lines.map((figure, i) =>
      s(
        "text",
        { x: x + width / 2, y: top + 20 + i * 14, "text-anchor": "middle" },
        `${cleanText(figure.label, 12)} ${writeFigure(figure)}`,
      ),
    ),
  ]);
  addTip(group, () => [
    cleanText(unit.label),
    ...unit.figures.flatMap((figure) => explainFigure(figure, context.words)),
  ]);
  return group;
}

/** From 0 (idle) to 4 (at its limit): a word of the style sheet. */
function loadOf(link: MemoryLink): string {
  const { busy } = link;
  if (busy === null) return "kload";
  return `kload load${Math.min(4, Math.floor(Math.max(0, busy) / 20))}`;
}

function writeChange(figure: Figure, context: Context): string {
  const [now, before] = [valueOf(figure), valueOf(findBefore(figure, context))];
  if (now === null || before === null || directionOf(now, before) === "same") return "";
  return ` (${describeDifference(now, before, figure.unit)})`;
}

interface Way {
  figure: Figure;
  y: number;
  from: number;
  to: number;
}

function drawWay(link: MemoryLink, { figure, y, from, to }: Way, context: Context): SVGElement {
  const idle = !valueOf(figure),
    tip = to > from ? -6 : 6;
  const group = s("g", { class: `${loadOf(link)}${idle ? " idle" : ""}` }, [
    s("line", { x1: from, x2: to + tip, y1: y, y2: y }),
    s("path", { d: `M${to},${y}l${tip},-5v10z` }),
    s(
      "text",
      { x: (from + to) / 2, y: y - 4, "text-anchor": "middle" },
      `${writeFigure(figure)}${context.before ? writeChange(figure, context) : ""}`,
    ),
    s("rect", {
      class: "ktarget",
      x: Math.min(from, to),
      y: y - 15,
      width: Math.abs(to - from),
      height: 20,
    }),
  ]);
  addTip(group, () => [
    ...explainFigure(figure, context.words),
    ...(link.busy === null ? [] : [t("kernel_link_busy", link.busy.toFixed(1))]),
  ]);
  return group;
}

function drawLink(chart: MemoryChart, link: MemoryLink, context: Context): SVGElement[] {
  const from = chart.units.find((unit) => unit.id === link.from),
    to = chart.units.find((unit) => unit.id === link.to);
  if (!from || !to) return [];
  const [a, b] = [boxOf(from), boxOf(to)],
    narrow = a.height <= b.height ? a : b,
    middle = narrow.y + narrow.height / 2,
    both = link.there && link.back ? 11 : 0,
    [left, right] = [a.x + a.width + 2, b.x - 2],
    ways: Way[] = [];
  if (link.there) ways.push({ figure: link.there, y: middle - both + 4, from: left, to: right });
  if (link.back) ways.push({ figure: link.back, y: middle + both + 4, from: right, to: left });
  return ways.map((way) => drawWay(link, way, context));
}

function makeLegend(): HTMLElement {
  return h(
    "p",
    { class: "klegend quiet" },
    t("kernel_link_legend"),
    [0, 1, 2, 3, 4].map((load) =>
      h(
        "span",
        { class: "legend" },
        h("span", { class: `swatch load${load}` }),
        `${load * 20}–${load * 20 + 20} %`,
      ),
    ),
  );
}

/** What the diagram shows, for those who cannot see it. */
function describeChart(chart: MemoryChart): string {
  const figures = chart.links.flatMap(({ from, to, there, back }) => [
    [from, to, there] as const,
    [to, from, back] as const,
  ]);
  const nameUnit = (id: string): string => chart.units.find((unit) => unit.id === id)?.label ?? id;
  const texts = figures.flatMap(([from, to, figure]) =>
    valueOf(figure) ? [`${nameUnit(from)} → ${nameUnit(to)} ${writeFigure(figure)}`] : [],
  );
  return cleanText(`${chart.title}: ${texts.join(", ")}`);
}

export function drawMemory(chart: MemoryChart, context: Context): HTMLElement {
  const boxes = chart.units.map(boxOf),
    width = Math.max(...boxes.map((box) => box.x + box.width)) + EDGE,
    height = Math.max(...boxes.map((box) => box.y + box.height)) + EDGE;
  return h(
    "div",
    { class: "kplot kmemory" },
    makePicture(
      width,
      height,
      describeChart(chart),
      chart.links.flatMap((link) => drawLink(chart, link, context)),
      chart.units.map((unit) => drawUnit(unit, context)),
    ),
    makeLegend(),
  );
}
