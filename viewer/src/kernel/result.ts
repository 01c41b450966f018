/** One measured kernel: its sections with charts, figures and what the rules found in them. */

import { fillElement, h } from "../dom";
import { cleanText, formatDuration, formatPercent } from "../format";
import { t } from "../i18n";
import { drawBars, drawStack, drawTable, type Context } from "./bars";
import { drawCurves } from "./curves";
import { keyOf, type Chart, type Figure, type KernelFinding } from "./data";
import type { Result, Section } from "./data";
import { writeDifference } from "./differ";
import { writeFigure } from "./figure";
import { drawMemory } from "./memory";
import { drawRoofline } from "./roofline";
import { drawSeries } from "./series";
import { SourceView } from "./source";
import { addTip, explainFigure } from "./tips";

/** Words that came with the report or the program, in English. */
export function said(text: string): HTMLElement {
  return h("bdi", { lang: "en" }, cleanText(text));
}

/** All figures of a result by metric, or by name where they have none. */
function listFigures(result: Result): Map<string, Figure> {
  const all = new Map<string, Figure>(),
    add = (figure: Figure | null): void => {
      if (figure) all.set(figure.metric ?? figure.label, figure);
    };
  result.metrics.forEach(add);
  for (const section of result.sections)
    for (const group of section.groups) group.lines.forEach(add);
  for (const chart of result.sections.flatMap((section) => section.charts)) {
    if (chart.kind === "bars")
      for (const bar of chart.bars) [bar, ...(bar.parts ?? [])].forEach(add);
    if (chart.kind === "stack") chart.parts.forEach(add);
    if (chart.kind === "table") chart.rows.forEach((row) => row.cells.forEach(add));
    if (chart.kind === "memory") {
      chart.units.forEach((unit) => unit.figures.forEach(add));
      chart.links.forEach((link) => [link.there, link.back].forEach(add));
    }
  }
  return all;
}

/** Up and Down go from row to row of a table, of which one can be reached by Tab. */
function stepRows(event: KeyboardEvent): void {
  const row = (event.target as Element).closest("tr"),
    by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (by === undefined || !row?.parentElement) return;
  const rows = [...row.parentElement.children] as HTMLElement[],
    next = rows[rows.indexOf(row) + by];
  event.preventDefault();
  event.stopPropagation();
  if (!next) return;
  row.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

export class ResultView {
  readonly root = h("div", { class: "kresult" });
  private context: Context = { words: {}, before: null };
  private result!: Result;
  private baseline: Result | null = null;
  private toggled = new Map<string, boolean>(); // sections that the user opened or closed

  show(result: Result, baseline: Result | null): void {
    this.result = result;
    this.baseline = baseline;
    this.context = {
      words: result.words ?? {},
      before: baseline && listFigures(baseline),
    };
    fillElement(
      this.root,
      result.error ? h("p", { class: "warning" }, said(result.error)) : null,
      this.makeContents(),
      this.makeLoose(),
      result.sections.map((section) => this.makeSection(section)),
      this.makeSources(),
      this.makeRaw(),
    );
  }

  /* ---- getting about ---- */

  private makeContents(): HTMLElement {
    const goTo = (id: string): void => {
      const section = this.root.querySelector<HTMLDetailsElement>(`[data-section="${id}"]`);
      if (!section) return;
      section.open = true;
      section.scrollIntoView({ block: "start" });
      section.querySelector("summary")?.focus({ preventScroll: true });
    };
    const makeLink = (id: string, title: string): HTMLElement =>
      h("button", { class: "link", onclick: () => goTo(id) }, said(title), this.markLevel(id));
    return h(
      "nav",
      { class: "kcontents", "aria-label": t("kernel_sections") },
      this.result.sections.map((section) => makeLink(section.id, section.title)),
      this.result.sources.length ? makeLink("sources", t("kernel_source")) : null,
    );
  }

  /** Whether rules found something in a section. */
  private markLevel(id: string): HTMLElement | null {
    const faults = this.listFindings(id).filter(({ level }) =>
      ["warning", "critical"].includes(level),
    );
    if (!faults.length) return null;
    const level = faults.some((one) => one.level === "critical") ? "critical" : "warning";
    return h("span", { class: `kcount ${level}` }, String(faults.length));
  }

  private listFindings(section: string): KernelFinding[] {
    return (this.result.findings ?? [])
      .filter((finding) => finding.section === section)
      .sort((a, b) => (b.gain ?? 0) - (a.gain ?? 0));
  }

  /* ---- sections ---- */

  private makeSection(section: Section): HTMLElement {
    const details = h(
      "details",
      { class: "ksection", open: this.isOpen(section), "data-section": section.id },
      h("summary", null, h("h3", null, said(section.title)), this.markLevel(section.id)),
      this.listFindings(section.id).map((finding) => this.makeFinding(finding)),
      h(
        "div",
        { class: "kbody" },
        section.charts.map((chart) => this.makeChart(section, chart)),
        section.groups
          .filter((group) => group.lines.length > 0)
          .map((group) => this.makeGroup(section, group)),
      ),
    );
    this.keepOpen(details, section.id);
    return details;
  }

  /** A roofline without a point under it is there for who asks for it. */
  private isOpen(section: Section): boolean {
    const idle = (chart: Chart): boolean =>
      chart.kind === "roofline" && !chart.points.some((point) => point.flops > 0);
    return this.toggled.get(section.id) ?? !(section.charts.length && section.charts.every(idle));
  }

  private keepOpen(details: HTMLDetailsElement, id: string): void {
    details.addEventListener("toggle", () => {
      this.toggled.set(id, details.open);
    });
  }

  /** The chart of the baseline's section with the same name. */
  private findChart<K extends Chart["kind"]>(
    section: Section,
    chart: Chart & { kind: K },
  ): Extract<Chart, { kind: K }> | undefined {
    return this.baseline?.sections
      .find((one) => one.id === section.id)
      ?.charts.find((one) => one.kind === chart.kind && one.title === chart.title) as
      | Extract<Chart, { kind: K }>
      | undefined;
  }

  private makeChart(section: Section, chart: Chart): HTMLElement {
    const figure = this.drawChart(section, chart);
    if (chart.kind === "table") return h("div", { class: `kfigure ${chart.kind}` }, figure);
    return h("div", { class: `kfigure ${chart.kind}` }, h("h4", null, said(chart.title)), figure);
  }

  private drawChart(section: Section, chart: Chart): HTMLElement {
    switch (chart.kind) {
      case "bars":
        return drawBars(chart, this.context);
      case "stack":
        return drawStack(chart, this.context);
      case "table":
        return drawTable(chart, this.context);
      case "series":
        return drawSeries(chart, this.context);
      case "roofline":
        return drawRoofline(chart, this.findChart(section, chart));
      case "curves":
        return drawCurves(chart, this.findChart(section, chart));
      case "memory":
        return drawMemory(chart, this.context);
    }
  }

  private makeGroup(section: Section, group: Section["groups"][0]): HTMLElement {
    const lines = this.makeLines(group.lines, group.title || section.title);
    if (!group.title) return lines;
    return h("div", { class: "kfigure" }, h("h4", null, said(group.title)), lines);
  }

  private makeLines(lines: Figure[], title: string): HTMLElement {
    const sections = this.baseline?.sections ?? [],
      groups = sections.flatMap((section) => section.groups),
      old = groups.flatMap((group) => group.lines).concat(this.baseline?.metrics ?? []),
      before = new Map(old.map((line) => [keyOf(line), line])),
      compared = this.baseline !== null;
    const table = h(
      "table",
      { class: "grid klines", "aria-label": cleanText(title) },
      compared
        ? h(
            "thead",
            null,
            h(
              "tr",
              null,
              h("td", null),
              ["kernel_this", "kernel_baseline", "kernel_change"].map((word) =>
                h("th", { scope: "col", class: "n" }, t(word as "kernel_this")),
              ),
            ),
          )
        : null,
      h(
        "tbody",
        null,
        lines.map((line, i) => this.makeLine(line, i === 0, compared, before.get(keyOf(line)))),
      ),
    );
    table.addEventListener("keydown", stepRows);
    return table;
  }

  private makeLine(
    line: Figure,
    first: boolean,
    compared: boolean,
    before: Figure | undefined,
  ): HTMLElement {
    const row = h(
      "tr",
      { tabindex: first ? 0 : -1 },
      h("th", { scope: "row" }, said(line.label)),
      h("td", { class: "n" }, h("bdi", null, writeFigure(line))),
      compared ? h("td", { class: "n" }, h("bdi", null, writeFigure(before))) : null,
      compared ? writeDifference(line, before, "td") : null,
    );
    addTip(row, () => explainFigure(line, this.context.words));
    return row;
  }

  /* ---- findings ---- */

  /** Findings about no section that is there. */
  private makeLoose(): HTMLElement[] {
    const ids = new Set(this.result.sections.map((section) => section.id));
    return (this.result.findings ?? [])
      .filter((finding) => !ids.has(finding.section))
      .map((finding) => this.makeFinding(finding));
  }

  private makeFinding(finding: KernelFinding): HTMLElement {
    const { gain } = finding;
    return h(
      "div",
      { class: `finding ${finding.level}`, "data-rule": finding.rule },
      h(
        "p",
        { class: "head" },
        h("span", { class: "level" }, t(`level_${finding.level}`)),
        h("b", null, said(finding.title)),
        gain ? h("span", { class: "gain" }, `−${formatPercent(gain)}`) : null,
      ),
      finding.advice ? h("p", { class: "advice" }, said(finding.advice)) : null,
      gain ? this.makePrice(finding, gain) : null,
      finding.evidence.length ? this.makeEvidence(finding.evidence) : null,
    );
  }

  private makePrice(finding: KernelFinding, gain: number): HTMLElement {
    return h(
      "p",
      { class: "price quiet" },
      t("kernel_gain", formatPercent(gain), formatDuration(gain * (this.result.duration ?? 0))),
      finding.assumption ? [" ", t("findings_if"), " ", said(finding.assumption)] : null,
    );
  }

  private makeEvidence(evidence: Figure[]): HTMLElement {
    return h(
      "ul",
      { class: "evidence" },
      evidence.map((figure) => {
        const item = h("li", null, said(figure.label), " ", h("b", null, writeFigure(figure)));
        addTip(item, () => explainFigure(figure, this.context.words));
        return item;
      }),
    );
  }

  /* ---- source, and all metrics ---- */

  private makeSources(): HTMLElement | null {
    const { sources, words = {} } = this.result;
    if (!sources.length) return null;
    const details = h(
      "details",
      { class: "ksection", open: this.toggled.get("sources") ?? true, "data-section": "sources" },
      h("summary", null, h("h3", null, t("kernel_source"))),
      sources.map((source) => new SourceView(source, words).root),
    );
    this.keepOpen(details, "sources");
    return details;
  }

  private makeRaw(): HTMLElement {
    return h(
      "details",
      { class: "ksection" },
      h("summary", null, h("h3", null, t("kernel_all_metrics", this.result.metrics.length))),
      this.makeLines(this.result.metrics, t("kernel_all_metrics", this.result.metrics.length)),
    );
  }
}
