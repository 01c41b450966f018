/** Figures as people read them, in the units that metrics come in. */

import { cleanText, formatDuration, formatPlain } from "../format";
import type { Figure } from "./data";

/** Nanoseconds of a unit of time. */
const TIMES: Record<string, number> = {
  ns: 1,
  nsecond: 1,
  us: 1e3,
  usecond: 1e3,
  ms: 1e6,
  msecond: 1e6,
  s: 1e9,
  second: 1e9,
};

const PREFIXES: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** "1.234 TB/s": rates and counts in thousands, unlike sizes of memory. */
export function formatScaled(value: number, unit: string): string {
  const [size, prefix] = PREFIXES.find(([least]) => Math.abs(value) >= least) ?? [1, ""],
    scaled = value / size,
    digits = size === 1 && Number.isInteger(value) ? 0 : Math.abs(scaled) >= 100 ? 1 : 2;
  return `${scaled.toFixed(digits)} ${prefix}${unit}`.trim();
}

const FORMATS: Record<string, (value: number) => string> = {
  "%": (value) => `${value.toFixed(Math.abs(value) < 1 && value !== 0 ? 2 : 1)} %`,
  byte: (value) => formatScaled(value, "B"),
  bytes: (value) => formatScaled(value, "B"),
  "byte/block": (value) => formatScaled(value, "B"),
  "byte/s": (value) => formatScaled(value, "B/s"),
  "byte/second": (value) => formatScaled(value, "B/s"),
  hz: (value) => formatScaled(value, "Hz"),
  "cycle/second": (value) => formatScaled(value, "Hz"),
  "cycle/s": (value) => formatScaled(value, "Hz"),
};

export function formatFigure(value: number, unit = ""): string {
  const time = TIMES[unit],
    format = FORMATS[unit] ?? FORMATS[unit.toLowerCase()];
  if (time) return formatDuration(value * time);
  if (format) return format(value);
  return unit && unit !== "1" ? `${formatPlain(value)} ${unit}` : formatPlain(value);
}

/** A figure's value; a dash where it was not measured. */
export function writeFigure(figure: Figure | null | undefined): string {
  if (figure?.text !== undefined) return cleanText(figure.text, 300);
  if (figure?.value === undefined || figure.value === null) return "–";
  return formatFigure(figure.value, figure.unit);
}

export function valueOf(figure: Figure | null | undefined): number | null {
  return figure?.value ?? null;
}
