/** What the GPU's units did over the time of a kernel: a graph for each metric. */

import { h, s } from "../dom";
import { cleanText, formatDuration } from "../format";
import { t } from "../i18n";
import { findBefore, type Context } from "./bars";
import type { SeriesChart } from "./data";
import { writeDifference } from "./differ";
import { formatFigure, writeFigure } from "./figure";
import { makePicture } from "./plot";
import { addTip, explainFigure } from "./tips";

type Series = SeriesChart["series"][0];

const WIDTH = 420,
  HEIGHT = 34;

/** Steps as high as the values; a percentage is drawn up to 100, others up to their highest. */
function writeArea(values: (number | null)[], most: number): string {
  const x = (i: number): string => ((i / values.length) * WIDTH).toFixed(1),
    y = (value: number | null): string =>
      (HEIGHT - (most > 0 ? Math.min(1, (value ?? 0) / most) : 0) * (HEIGHT - 1)).toFixed(1);
  const steps = values.map((value, i) => `V${y(value)}H${x(i + 1)}`);
  return `M0,${HEIGHT}${steps.join("")}V${HEIGHT}Z`;
}

function drawOne(chart: SeriesChart, series: Series, context: Context): HTMLElement {
  const known = series.values.filter((value): value is number => value !== null),
    highest = Math.max(0, ...known),
    mean = known.reduce((sum, value) => sum + value, 0) / Math.max(1, known.length),
    figure = { label: series.label, metric: series.metric, unit: series.unit, value: mean },
    picture = makePicture(
      WIDTH,
      HEIGHT,
      `${cleanText(series.label)}: ${writeFigure(figure)}`,
      s("path", {
        class: "kseries",
        d: writeArea(series.values, series.unit === "%" ? 100 : highest),
      }),
    );
  let at = -1;
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(),
      share = (event.clientX - box.left) / Math.max(1, box.width);
    at = Math.floor(Math.max(0, Math.min(0.9999, share)) * series.values.length);
  });
  addTip(picture, () => {
    const value = series.values[at];
    if (value === undefined || value === null) return explainFigure(figure, context.words);
    const when = formatDuration((at / series.values.length) * chart.span);
    return [
      `${when}: ${formatFigure(value, series.unit)}`,
      ...explainFigure(figure, context.words),
    ];
  });
  return h(
    "div",
    { class: "kbar ktimed" },
    h("span", { class: "kname" }, cleanText(series.label)),
    picture,
    h("span", { class: "n" }, writeFigure(figure)),
    h("span", { class: "n quiet" }, `≤ ${formatFigure(highest, series.unit)}`),
    context.before ? writeDifference(figure, findBefore(figure, context)) : null,
  );
}

export function drawSeries(chart: SeriesChart, context: Context): HTMLElement {
  return h(
    "div",
    { class: `kbars${context.before ? " compared" : ""}` },
    h("p", { class: "quiet" }, `${t("duration")}: ${formatDuration(chart.span)}`),
    chart.series.map((series) => drawOne(chart, series, context)),
  );
}
