/**
 * What changed between two reports, how certain that is, and what explains the change of the step
 * time: what `warpsight diff` says, above the table of names.
 */

import type { App } from "../app";
import { fillElement, h } from "../dom";
import { cleanText, formatCount, formatDuration } from "../format";
import { t } from "../i18n";
import { writeSigned } from "./grid";

type Sides = [before: number, after: number];
interface Figures {
  verdict: keyof typeof VERDICTS;
  ns: Sides; // of a step, or of the run
  change_ns: number;
  change: number | null; // shares: 0.05 is 5 % more
  typical_change: number | null; // beside what the machine did, and without outliers
  low: number | null; // its 95 % interval
  high: number | null;
  count: Sides;
}
interface Item extends Figures {
  id: string;
  kind: string;
  name: string;
  new_name?: string;
}
interface Explained {
  cause: string;
  what?: string;
  ns: Sides;
  change_ns: number;
}
interface Explanation {
  of: string;
  ns: Sides;
  change_ns: number;
  causes: Explained[];
  rows: Explained[];
}
interface Answer {
  error?: string;
  unit: "step" | "run";
  step: Figures;
  explanation: Explanation;
  gpus: Explanation[];
  common_change: Record<string, number>;
  changed: number;
  items: Item[];
}

const VERDICTS = {
  no_change: "verdict_no_change",
  slower: "verdict_slower",
  faster: "verdict_faster",
  new: "verdict_new",
  gone: "verdict_gone",
} as const;

const MOST_ROWS = 10,
  MOST_CHANGES = 100;

const inPercent = (share: number): string =>
  Math.abs(share) >= 9.995
    ? `× ${(1 + share).toFixed(1)}`
    : `${writeSigned(share, (Math.abs(share) * 100).toFixed(1))} %`;

/** "+4.9 % (+2.1 % … +7.7 %)" */
function writeChange(figures: Figures): string {
  const change = figures.typical_change;
  if (change === null) return "";
  if (figures.low === null || figures.high === null)
    return `${inPercent(change)} (${t("changes_unknown")})`;
  return `${inPercent(change)} (${inPercent(figures.low)} … ${inPercent(figures.high)})`;
}

const signedTime = (ns: number): string => writeSigned(ns, formatDuration(Math.abs(ns)));

export class Changes {
  readonly root = h("div", { class: "changes" });
  private shown = ""; // the pair of reports that is there
  private answer: Answer | undefined;
  private opened = true; // the details, by the user

  constructor(private app: App) {}

  /** Show what changed from one report to another; null: the sides are no whole reports. */
  async showPair(pair: [number, number] | null): Promise<void> {
    if (!pair || pair[0] === pair[1]) {
      this.shown = "";
      this.answer = undefined;
      fillElement(this.root);
      return;
    }
    const key = pair.map((side) => this.nameState(side)).join(" ");
    if (key !== this.shown) {
      this.shown = key;
      this.answer = undefined;
      fillElement(this.root, h("p", { class: "quiet" }, t("changes_wait")));
      const answer = await this.app.ask<Answer>("changes", { a: pair[0], b: pair[1] });
      if (key !== this.shown) return;
      this.answer = answer;
    }
    this.draw();
  }

  /** One that is being recorded is not compared again whenever it has grown. */
  private nameState(side: number): string {
    const report = this.app.reports[side];
    return `${side}:${report.complete ? report.bytes : "growing"}`;
  }

  private draw(): void {
    const answer = this.answer;
    if (!answer) fillElement(this.root);
    else if (answer.error) fillElement(this.root, h("p", { class: "quiet" }, answer.error));
    else fillElement(this.root, this.makeSummary(answer), this.makeDetails(answer));
  }

  private makeSummary(answer: Answer): HTMLElement {
    const { step } = answer;
    const common = Object.entries(answer.common_change)
      .filter(([, by]) => Math.abs(by) >= 0.01)
      .map(([kind, by]) => `${kind} ${inPercent(by)}`)
      .join(", ");
    return h(
      "p",
      { class: "summary" },
      h(
        "b",
        null,
        `${t(answer.unit === "step" ? "step_time" : "run_time")}: ` +
          `${formatDuration(step.ns[0])} → ${formatDuration(step.ns[1])}`,
      ),
      `, ${inPercent(step.change ?? 0)} (95 %: ` +
        (step.low === null || step.high === null
          ? t("changes_unknown")
          : `${inPercent(step.low)} … ${inPercent(step.high)}`) +
        "): ",
      h("b", { class: `verdict ${step.verdict}` }, t(VERDICTS[step.verdict])),
      answer.changed ? `; ${t("parts_changed", formatCount(answer.changed))}` : null,
      common ? h("span", { class: "quiet" }, ` ${t("common_change", common)}`) : null,
    );
  }

  private makeDetails(answer: Answer): HTMLElement {
    const changed = answer.items.filter((item) => item.verdict !== "no_change");
    const details = h(
      "details",
      { open: this.opened },
      h("summary", null, t("what_changed")),
      changed.length ? this.makeItems(changed) : null,
      this.makeExplanation(
        t(answer.unit === "step" ? "explains_step" : "explains_run"),
        answer.explanation,
        answer.explanation.causes,
      ),
      this.makeExplanation(t("by_code"), answer.explanation, answer.explanation.rows),
      answer.gpus.map((gpu) => this.makeExplanation(gpu.of, gpu, gpu.causes)),
    );
    details.addEventListener("toggle", () => (this.opened = details.open));
    return details;
  }

  private makeItems(items: Item[]): HTMLElement {
    const head = [
      t("verdict"),
      t("part_kind"),
      t("name"),
      "A",
      "B",
      t("difference"),
      `${t("change_of")} (95 %)`,
    ];
    return h(
      "table",
      { class: "grid" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          head.map((word) => h("th", { scope: "col" }, word)),
        ),
      ),
      h(
        "tbody",
        null,
        items
          .slice(0, MOST_CHANGES)
          .map((item) =>
            h(
              "tr",
              null,
              h("td", { class: `verdict ${item.verdict}` }, t(VERDICTS[item.verdict])),
              h("td", null, item.kind),
              h(
                "td",
                { class: "wide" },
                h("bdi", null, cleanText(item.name, 200)),
                item.new_name ? h("bdi", null, ` → ${cleanText(item.new_name, 200)}`) : null,
              ),
              h("td", { class: "n" }, item.ns[0] ? formatDuration(item.ns[0]) : ""),
              h("td", { class: "n" }, item.ns[1] ? formatDuration(item.ns[1]) : ""),
              h("td", { class: "n" }, signedTime(item.change_ns)),
              h("td", { class: "n" }, item.ns[0] && item.ns[1] ? writeChange(item) : ""),
            ),
          ),
      ),
    );
  }

  /** Rows that add up to the change: those that changed most, and all others as one. */
  private makeExplanation(title: string, whole: Explanation, rows: Explained[]): HTMLElement {
    const shown = rows.slice(0, MOST_ROWS),
      rest: Sides = [whole.ns[0], whole.ns[1]];
    for (const row of shown) for (const side of [0, 1]) rest[side] -= row.ns[side];
    const makeRow = (name: string, [before, after]: Sides, last = false): HTMLElement =>
      h(
        "tr",
        { class: last ? "sum" : "" },
        h("td", { class: "n" }, formatDuration(before)),
        h("td", { class: "n" }, formatDuration(after)),
        h("td", { class: "n" }, signedTime(after - before)),
        h("td", { class: "wide" }, h("bdi", null, name)),
      );
    return h(
      "table",
      { class: "grid" },
      h("caption", null, title),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["A", "B", t("difference"), t("cause")].map((word) => h("th", { scope: "col" }, word)),
        ),
      ),
      h(
        "tbody",
        null,
        shown.map((row) =>
          makeRow(cleanText(row.what ? `${row.cause}: ${row.what}` : row.cause, 300), row.ns),
        ),
        rows.length > shown.length ? makeRow(t("everything_else"), rest) : null,
        makeRow(t("together"), whole.ns, true),
      ),
    );
  }
}
