/** Differences from the baseline. */

import { h } from "../dom";
import { writeSigned } from "../panels/grid";
import type { Figure } from "./data";
import { formatFigure, formatScaled, valueOf } from "./figure";

/** Less than a thousandth is as much as before. */
const LEAST = 0.001;

/** By how much: points of percentages, otherwise a share of what it was. */
export function describeDifference(now: number, before: number, unit = ""): string {
  if (unit === "%") return writeSigned(now - before, Math.abs(now - before).toFixed(1));
  if (before === 0) return now === 0 ? "" : writeSigned(now, formatFigure(Math.abs(now), unit));
  const share = now / before - 1;
  if (share >= 999) return `× ${formatScaled(share + 1, "")}`;
  if (share >= 9.995) return `× ${(share + 1).toFixed(1)}`;
  return `${writeSigned(share, (Math.abs(share) * 100).toFixed(1))} %`;
}

/** "more", "less" or "same": how it is coloured. */
export function directionOf(now: number, before: number): "more" | "less" | "same" {
  const size = Math.max(Math.abs(now), Math.abs(before));
  if (size === 0 || Math.abs(now - before) <= size * LEAST) return "same";
  return now > before ? "more" : "less";
}

export function writeDifference(
  now: Figure,
  before: Figure | undefined,
  tag: "span" | "td" = "span",
): HTMLElement {
  const [a, b] = [valueOf(now), valueOf(before)];
  if (a === null || b === null) return h(tag, { class: "n kdiff" }, "");
  const direction = directionOf(a, b);
  return h(
    tag,
    { class: `n kdiff ${direction}` },
    direction === "same" ? "=" : describeDifference(a, b, now.unit),
  );
}
