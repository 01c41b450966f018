/** How many warps would be resident with other launches: stairs, and where the kernel stands. */

import { h, s } from "../dom";
import { cleanText, formatPlain } from "../format";
import { t } from "../i18n";
import type { CurvesChart } from "./data";
import { drawAxes, makeLinearScale, makePicture, writeTick, type Frame, type Scale } from "./plot";
import { addTip } from "./tips";

const WIDTH = 300,
  HEIGHT = 190,
  FRAME: Frame = { left: 34, top: 22, right: WIDTH - 12, bottom: HEIGHT - 38 };

type Curve = CurvesChart["curves"][0];

/** Each value holds from its point to the next. */
function writeStairs(points: Curve["points"], x: Scale, y: Scale): string {
  let path = "";
  points.forEach(([at, warps], i) => {
    const [px, py] = [x(at).toFixed(1), y(warps).toFixed(1)];
    path += i ? `H${px}V${py}` : `M${px},${py}`;
  });
  return points.length ? `${path}H${x(x.high).toFixed(1)}` : path;
}

function warpsAt(curve: Curve, at: number): number {
  let warps = 0;
  for (const [x, value] of curve.points) if (x <= at) warps = value;
  return warps;
}

function drawCurve(curve: Curve, most: number, before: Curve | undefined): SVGElement {
  const last = curve.points.length ? curve.points[curve.points.length - 1][0] : 1,
    x = makeLinearScale(Math.max(last, curve.at), FRAME.left, FRAME.right, 4),
    y = makeLinearScale(most, FRAME.bottom, FRAME.top, 4),
    write = writeTick,
    label = cleanText(curve.label);
  const mark = s("circle", {
    class: "kmark",
    cx: x(curve.at),
    cy: y(warpsAt(curve, curve.at)),
    r: 5,
  });
  const picture = makePicture(
    WIDTH,
    HEIGHT,
    `${label}: ${formatPlain(curve.at)} → ${warpsAt(curve, curve.at)} ${t("kernel_warps")}`,
    drawAxes(
      FRAME,
      { scale: x, title: label, write },
      { scale: y, title: t("kernel_warps"), write },
    ),
    s("path", { class: "kstairs", d: writeStairs(curve.points, x, y) }),
    before
      ? s("circle", {
          class: "kmark before",
          cx: x(before.at),
          cy: y(warpsAt(before, before.at)),
          r: 5,
        })
      : null,
    mark,
  );
  followPointer(picture, curve, x);
  return picture;
}

/** The pointer reads the curve off. */
function followPointer(picture: SVGElement, curve: Curve, x: Scale): void {
  let at = 0;
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(),
      px = ((event.clientX - box.left) / box.width) * WIDTH,
      share = (px - FRAME.left) / (FRAME.right - FRAME.left);
    at = Math.round(Math.max(0, Math.min(1, share)) * x.high);
  });
  addTip(picture, () => [
    `${cleanText(curve.label)} ${formatPlain(at)}: ${warpsAt(curve, at)} ${t("kernel_warps")}`,
    t("kernel_is_at", formatPlain(curve.at), warpsAt(curve, curve.at)),
  ]);
}

export function drawCurves(chart: CurvesChart, before: CurvesChart | undefined): HTMLElement {
  return h(
    "div",
    { class: "kcurves" },
    chart.curves.map((curve) =>
      drawCurve(
        curve,
        chart.most,
        before?.curves.find((one) => one.label === curve.label),
      ),
    ),
  );
}
