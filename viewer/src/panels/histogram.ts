/** How the durations of some events are spread: bars of equal factors, and percentiles. */

import type { Durations } from "../data";
import { fill, h } from "../dom";
import { count, duration, percent } from "../format";
import { t } from "../i18n";

export type Slice = [from: number, to: number]; // ns, the second no longer among them

export class Histogram {
  readonly root = h("div", { class: "histogram", hidden: true });

  constructor(private onChoose: (slice: Slice | null) => void) {}

  hide(): void {
    this.root.hidden = true;
    fill(this.root);
  }

  /** One of each report, named where there are several. */
  show(parts: { name: string; durations: Durations }[], chosen: Slice | null): void {
    this.root.hidden = false;
    fill(
      this.root,
      parts.flatMap(({ name, durations }) => [
        parts.length > 1 ? h("h4", null, h("bdi", null, name)) : null,
        this.figures(durations),
        durations.count ? this.bars(durations, chosen) : null,
        durations.count ? this.axis(durations) : null,
      ]),
    );
  }

  private figures(d: Durations): HTMLElement {
    const pairs: [string, string][] = [[t("count"), count(d.count)]];
    if (d.count)
      pairs.push(
        [t("minimum"), duration(d.min!)],
        [t("median"), duration(d.median!)],
        [t("average"), duration(d.total / d.count)],
        ["p90", duration(d.p90!)],
        ["p99", duration(d.p99!)],
        [t("maximum"), duration(d.max!)],
      );
    if (d.without) pairs.push([t("without_duration"), count(d.without)]);
    return h(
      "dl",
      null,
      pairs.map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))),
    );
  }

  private bars(d: Durations, chosen: Slice | null): HTMLElement {
    const most = Math.max(...d.buckets.map(([, , n]) => n));
    return h(
      "div",
      { class: "bars", role: "group", "aria-label": t("durations") },
      d.buckets.map(([from, to, n]) => {
        const on = chosen?.[0] === from && chosen[1] === to,
          share = percent(n / d.count),
          says = t("bucket", duration(from), duration(to), count(n), share);
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
  private axis(d: Durations): HTMLElement {
    const n = d.buckets.length,
      step = Math.max(1, Math.ceil(n / 5)),
      marks = d.buckets.filter((_, i) => i % step === 0);
    return h(
      "div",
      { class: "axis", "aria-hidden": "true" },
      marks.map(([from], i) =>
        h("span", { style: { flexGrow: String(Math.min(step, n - i * step)) } }, duration(from)),
      ),
    );
  }
}
