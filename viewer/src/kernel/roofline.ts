/**
 * Rooflines, on logarithmic axes: what the arithmetic of the GPU and each level of its memory
 * allow, and where the kernel is beneath that. A point stands for a kind of arithmetic and a level:
 * its distance to the line above is what is lost.
 */

import { h, s } from "../dom";
import { cleanText } from "../format";
import { t } from "../i18n";
import { HUES } from "./bars";
import type { RooflineChart } from "./data";
import { formatScaled } from "./figure";
import { drawAxes, makeLogScale, makePicture, writeTick, type Frame, type Scale } from "./plot";
import { addTip } from "./tips";

const WIDTH = 660,
  HEIGHT = 340,
  FRAME: Frame = { left: 62, top: 26, right: WIDTH - 90, bottom: HEIGHT - 40 };

type Point = RooflineChart["points"][0];

interface Plot {
  chart: RooflineChart;
  x: Scale; // operations a byte
  y: Scale; // operations a second
}

const intensityOf = (point: Point): number => point.flops / point.bytes;

/** What the GPU allows at an intensity. */
function allowed(chart: RooflineChart, point: Point): number {
  const roof = chart.roofs[point.roof],
    slope = chart.slopes[point.slope];
  return Math.min(roof.flops, slope.bytes * intensityOf(point));
}

function listShown(chart: RooflineChart): Point[] {
  return chart.points.filter((point) => point.flops > 0 && point.bytes > 0);
}

/** Wide enough for all points, and for where each slope meets each roof. */
function makeScales(chart: RooflineChart, others: Point[]): Plot {
  const points = [...listShown(chart), ...others],
    ridges = chart.slopes.flatMap((slope) => chart.roofs.map((roof) => roof.flops / slope.bytes)),
    xs = [...ridges, ...points.map(intensityOf)],
    lowest = Math.min(...xs) / 3,
    ys = [
      ...chart.roofs.map((roof) => roof.flops * 1.3),
      ...points.map((point) => point.flops / 2),
      Math.min(...chart.slopes.map((slope) => slope.bytes)) * lowest,
    ];
  return {
    chart,
    x: makeLogScale(lowest, Math.max(...xs) * 3, FRAME.left, FRAME.right),
    y: makeLogScale(Math.min(...ys), Math.max(...ys), FRAME.bottom, FRAME.top),
  };
}

function drawRoofs({ chart, x, y }: Plot): SVGElement[] {
  const steepest = Math.max(...chart.slopes.map((slope) => slope.bytes));
  return chart.roofs.map((roof, i) => {
    const line = s("g", null, [
      s("line", {
        class: "kroof",
        x1: x(Math.min(x.high, Math.max(x.low, roof.flops / steepest))),
        x2: x(x.high),
        y1: y(roof.flops),
        y2: y(roof.flops),
      }),
      s(
        "text",
        { x: FRAME.right + 4, y: y(roof.flops) + 4 + labelShift(chart, i, y) },
        cleanText(roof.label, 14),
      ),
    ]);
    addTip(line, () => [
      cleanText(roof.label),
      formatScaled(roof.flops, "FLOP/s"),
      roof.metric ?? "",
    ]);
    return line;
  });
}

/** Labels of roofs that lie close to one another make room for each other. */
function labelShift(chart: RooflineChart, which: number, y: Scale): number {
  const order = chart.roofs
    .map((roof, i) => ({ i, at: y(roof.flops) }))
    .sort((a, b) => a.at - b.at);
  let last = -Infinity;
  for (const one of order) {
    const placed = Math.max(one.at, last + 12);
    if (one.i === which) return placed - one.at;
    last = placed;
  }
  return 0;
}

function drawSlopes({ chart, x, y }: Plot): SVGElement[] {
  const highest = Math.max(...chart.roofs.map((roof) => roof.flops));
  return chart.slopes.map((slope, i) => {
    const from = Math.max(x.low, y.low / slope.bytes),
      to = Math.min(x.high, highest / slope.bytes),
      // one above another, each on the part of its slope that is drawn
      share = 0.06 + (0.7 * (chart.slopes.length - 1 - i)) / chart.slopes.length,
      label = from * (to / from) ** share,
      angle =
        (Math.atan2(y(slope.bytes * to) - y(slope.bytes * from), x(to) - x(from)) * 180) / Math.PI;
    const line = s("g", null, [
      s("line", {
        class: "kslope",
        stroke: HUES[i % HUES.length],
        x1: x(from),
        y1: y(slope.bytes * from),
        x2: x(to),
        y2: y(slope.bytes * to),
      }),
      s(
        "text",
        {
          transform: `translate(${x(label)} ${y(slope.bytes * label) - 5}) rotate(${angle})`,
          fill: HUES[i % HUES.length],
          class: "kslopename",
        },
        cleanText(slope.label, 20),
      ),
    ]);
    addTip(line, () => [
      cleanText(slope.label),
      formatScaled(slope.bytes, "B/s"),
      slope.metric ?? "",
    ]);
    return line;
  });
}

function describePoint(chart: RooflineChart, point: Point): string[] {
  const most = allowed(chart, point),
    share = (point.flops / most) * 100;
  return [
    cleanText(point.label),
    `${formatScaled(point.flops, "FLOP/s")}, ${intensityOf(point).toPrecision(3)} FLOP/B`,
    t("kernel_of_roof", share.toFixed(1), formatScaled(most, "FLOP/s")),
  ];
}

function drawPoints({ chart, x, y }: Plot, points: Point[], cls: string): SVGElement[] {
  return points.map((point) => {
    const [cx, cy] = [x(intensityOf(point)), y(point.flops)],
      hue = HUES[point.slope % HUES.length];
    const mark = s("g", { class: cls }, [
      s("line", { class: "kdrop", x1: cx, x2: cx, y1: cy, y2: y(allowed(chart, point)) }),
      s("circle", { cx, cy, r: 5, fill: hue, stroke: hue }),
      s("circle", { cx, cy, r: 11, class: "ktarget" }),
    ]);
    addTip(mark, () => describePoint(chart, point));
    return mark;
  });
}

/** The same figures in words, for those who do not see the picture. */
function listPoints(chart: RooflineChart): HTMLElement {
  const points = listShown(chart);
  return h(
    "ul",
    { class: "kpoints" },
    points.map((point) =>
      h(
        "li",
        null,
        h("span", {
          class: "swatch",
          style: { background: HUES[point.slope % HUES.length] },
        }),
        " ",
        describePoint(chart, point).join(": "),
      ),
    ),
  );
}

/** Without limits that were not measured, and without what they would have limited. */
function keepKnown(chart: RooflineChart): RooflineChart {
  const roofs = chart.roofs.filter((roof) => roof.flops > 0),
    slopes = chart.slopes.filter((slope) => slope.bytes > 0);
  return {
    ...chart,
    roofs,
    slopes,
    points: chart.points
      .map((point) => ({
        ...point,
        roof: roofs.indexOf(chart.roofs[point.roof]),
        slope: slopes.indexOf(chart.slopes[point.slope]),
      }))
      .filter((point) => point.roof >= 0 && point.slope >= 0),
  };
}

export function drawRoofline(all: RooflineChart, old: RooflineChart | undefined): HTMLElement {
  const chart = keepKnown(all),
    before = old && keepKnown(old);
  if (!chart.roofs.length || !chart.slopes.length)
    return h("p", { class: "quiet" }, t("kernel_unmeasured"));
  const others = before ? listShown(before) : [],
    plot = makeScales(chart, others);
  const picture = makePicture(
    WIDTH,
    HEIGHT,
    cleanText(chart.title),
    drawAxes(
      FRAME,
      { scale: plot.x, title: t("kernel_intensity"), write: writeTick },
      { scale: plot.y, title: "FLOP/s", write: writeTick },
    ),
    drawRoofs(plot),
    drawSlopes(plot),
    drawPoints(plot, others, "kpoint before"),
    drawPoints(plot, listShown(chart), "kpoint"),
  );
  return h("div", { class: "kplot" }, picture, listPoints(chart));
}
