/** How the durations of some events are spread: bars of equal factors, and percentiles. */

import type { Durations } from "../data";
import { fillElement, h } from "../dom";
import { formatCount, formatDuration, formatPercent } from "../format";
import { t } from "../i18n";

export type Slice = [from: number, to: number]; // ns, the second no longer among them

export class Histogram {
  readonly root = h("div", { class: "histogram", hidden: true });

  constructor(private onChoose: (slice: Slice | null) => void) {}

  hideBars(): void {
    this.root.hidden = true;
    fillElement(this.root);
  }

  /** One of each report, named where there are several. */
  showDurations(parts: { name: string; durations: Durations }[], chosen: Slice | null): void {
    this.root.hidden = false;
    fillElement(
      this.root,
      parts.flatMap(({ name, durations }) => [
        parts.length > 1 ? h("h3", null, h("bdi", null, name)) : null,
        this.listFigures(durations),
        durations.count ? this.makeBars(durations, chosen) : null,
        durations.count ? this.makeAxis(durations) : null,
      ]),
    );
  }

  private listFigures(durations: Durations): HTMLElement {
    const pairs: [string, string][] = [[t("count"), formatCount(durations.count)]];
    if (durations.count)
      pairs.push(
        [t("minimum"), formatDuration(durations.min!)],
        [t("median"), formatDuration(durations.median!)],
        [t("average"), formatDuration(durations.total / durations.count)],
        ["p90", formatDuration(durations.p90!)],
        ["p99", formatDuration(durations.p99!)],
        [t("maximum"), formatDuration(durations.max!)],
      );
    if (durations.without) pairs.push([t("without_duration"), formatCount(durations.without)]);
    return h(
      "dl",
      null,
      pairs.map(([key, value]) => h("div", null, h("dt", null, key), h("dd", null, value))),
    );
  }

  private makeBars(durations: Durations, chosen: Slice | null): HTMLElement {
    const most = Math.max(...durations.buckets.map(([, , n]) => n));
    return h(
      "div",
      { class: "bars", role: "group", "aria-label": t("durations") },
      durations.buckets.map(([from, to, n]) => {
        const on = chosen?.[0] === from && chosen[1] === to,
          share = formatPercent(n / durations.count),
          says = t("bucket", formatDuration(from), formatDuration(to), formatCount(n), share);
        return h(
          "button",
          {
            title: says,
            "aria-label": says,
            "aria-pressed": String(on),
            class: on ? "on" : "",
            disabled: n === 0,
            onclick: () => this.onChoose(on ? null : [from, to]),
          },
          h("span", { style: { height: `${n ? Math.max(2, (n / most) * 100) : 0}%` } }),
        );
      }),
    );
  }

  /** The bounds of some buckets, from left to right. */
  private makeAxis(durations: Durations): HTMLElement {
    const n = durations.buckets.length,
      step = Math.max(1, Math.ceil(n / 5)),
      marks = durations.buckets.filter((_, i) => i % step === 0);
    return h(
      "div",
      { class: "axis", "aria-hidden": "true" },
      marks.map(([from], i) =>
        h(
          "span",
          { style: { flexGrow: String(Math.min(step, n - i * step)) } },
          formatDuration(from),
        ),
      ),
    );
  }
}
