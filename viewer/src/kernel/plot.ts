/** Axes of plots: scales, linear and logarithmic, with their ticks and the grid behind. */

import { s } from "../dom";

export interface Scale {
  (value: number): number; // pixels
  ticks: number[];
  low: number;
  high: number;
}

/** A number on an axis: 0.001, 10, 2 k, 50 T. */
export function writeTick(value: number): string {
  const prefixes: [number, string][] = [
      [1e12, " T"],
      [1e9, " G"],
      [1e6, " M"],
      [1e3, " k"],
    ],
    [size, prefix] = prefixes.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / size).toPrecision(3))}${prefix}`;
}

/** Powers of ten from the first below `low` to the first above `high`. */
export function makeLogScale(low: number, high: number, from: number, to: number): Scale {
  const first = Math.floor(Math.log10(low)),
    last = Math.max(first + 1, Math.ceil(Math.log10(high))),
    scale = (value: number): number =>
      from + ((Math.log10(value) - first) / (last - first)) * (to - from);
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  return Object.assign(scale, { ticks, low: 10 ** first, high: 10 ** last });
}

/** 1, 2 or 5 times a power of ten: about `count` of them up to `most`. */
export function chooseStep(most: number, count: number): number {
  const rough = most / count,
    power = 10 ** Math.floor(Math.log10(rough)),
    factor = [1, 2, 5, 10].find((one) => one * power >= rough) ?? 10;
  return factor * power;
}

export function makeLinearScale(most: number, from: number, to: number, count = 5): Scale {
  const step = chooseStep(most, count),
    high = Math.max(step, most),
    scale = (value: number): number => from + (value / high) * (to - from);
  const ticks = Array.from({ length: Math.floor(high / step) + 1 }, (_, i) => i * step);
  return Object.assign(scale, { ticks, low: 0, high });
}

export interface Frame {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

interface Axis {
  scale: Scale;
  title: string;
  write: (value: number) => string;
}

function gridLines({ left, top, right, bottom }: Frame, x: Axis, y: Axis): SVGElement[] {
  return [
    ...x.scale.ticks.map((tick) =>
      s("line", { class: "kgrid", x1: x.scale(tick), x2: x.scale(tick), y1: top, y2: bottom }),
    ),
    ...y.scale.ticks.map((tick) =>
      s("line", { class: "kgrid", x1: left, x2: right, y1: y.scale(tick), y2: y.scale(tick) }),
    ),
  ];
}

/** The grid, the numbers beside it, and what the axes are. */
export function drawAxes(frame: Frame, x: Axis, y: Axis): SVGElement {
  const { left, top, right, bottom } = frame;
  return s(
    "g",
    { class: "kaxes" },
    gridLines(frame, x, y),
    x.scale.ticks.map((tick) =>
      s("text", { x: x.scale(tick), y: bottom + 14, "text-anchor": "middle" }, x.write(tick)),
    ),
    y.scale.ticks.map((tick) =>
      s("text", { x: left - 5, y: y.scale(tick) + 4, "text-anchor": "end" }, y.write(tick)),
    ),
    s("text", { x: (left + right) / 2, y: bottom + 30, "text-anchor": "middle" }, x.title),
    s("text", { x: left, y: top - 7, "text-anchor": "start" }, y.title),
  );
}

/** A picture that says what it is to those who cannot see it. */
export function makePicture(
  width: number,
  height: number,
  label: string,
  ...children: (SVGElement | null | (SVGElement | null)[])[]
): SVGElement {
  return s(
    "svg",
    {
      class: "kchart",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": label,
    },
    children.flat(),
  );
}
