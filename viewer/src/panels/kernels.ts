/**
 * Kernels that were measured (`warpsight kernel`): a table of all, sorted by what could be saved;
 * one of them with what limits it; and any two beside one another, of one report or of two.
 */

import type { App } from "../app";
import { ServerError } from "../data";
import { fillElement, h } from "../dom";
import { cleanText, formatCount, formatDuration, formatPercent, formatPlain } from "../format";
import { t, type Word } from "../i18n";
import { isSame, writeShape } from "../kernel/data";
import type { Launches, Result, ResultRef, Summary } from "../kernel/data";
import { describeDifference, directionOf } from "../kernel/differ";
import { formatScaled } from "../kernel/figure";
import { ResultView, said } from "../kernel/result";
import type { Link, Linked, LinkPairs } from "../link";
import { alignNumbers, sortHead, type Sorting } from "./grid";
import type { Panel, Panels } from "./panels";

interface Entry extends Summary {
  report: number;
}

type Key =
  | "id"
  | "gain"
  | "name"
  | "duration"
  | "saving"
  | "run"
  | "compute"
  | "memory"
  | "registers"
  | "cycles";

const MOST_ROWS = 1000,
  TABLE = "kernel_result"; // what reports with results have

/** What could be saved of one launch, ns. */
function savingOf(entry: Summary): number | null {
  return entry.gain && entry.duration ? entry.gain * entry.duration : null;
}

/** What could be saved of the run: the share of all launches of this name and shape. */
function runSavingOf(entry: Summary): number | null {
  const launches = entry.launches.reduce<Launches | undefined>(
    (best, one) => (best && best.total >= one.total ? best : one),
    undefined,
  );
  return entry.gain && launches ? entry.gain * launches.total : null;
}

const VALUES: Record<Key, (entry: Entry) => number | string | null> = {
  id: (entry) => entry.report * 1e9 + entry.id,
  gain: (entry) => entry.gain ?? null,
  name: (entry) => entry.name,
  duration: (entry) => entry.duration,
  saving: savingOf,
  run: runSavingOf,
  compute: (entry) => entry.compute,
  memory: (entry) => entry.memory,
  registers: (entry) => entry.registers,
  cycles: (entry) => entry.cycles,
};

/** Ascending; what has no value is last either way. */
function compareBy(key: Key, down: boolean): (a: Entry, b: Entry) => number {
  const value = VALUES[key],
    sign = down ? -1 : 1;
  return (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    if (typeof x === "string") return sign * x.localeCompare(String(y));
    return sign * (x - Number(y)) || Number(VALUES.id(a)) - Number(VALUES.id(b));
  };
}

const writePercent = (value: number | null): string => (value === null ? "–" : value.toFixed(1));

export class Kernels implements Panel, Linked {
  readonly root = h("div", { class: "kernels" });
  private entries: Entry[] = [];
  private asked = "";
  private sorting: Sorting<Key> = { key: "run", down: true };
  private open: ResultRef | null = null;
  private baseline: ResultRef | null = null;
  private results = new Map<string, Promise<Result>>();
  private view = new ResultView();
  private drawing = 0;
  onArrive: () => void = () => undefined;

  constructor(
    private app: App,
    private panels: Panels,
  ) {
    app.linkedParts.push(this);
    app.on("built", () => void this.askSummaries());
    app.on("words", () => {
      void this.draw();
    });
    this.root.addEventListener("keydown", (event) => this.pressKey(event));
  }

  hasContent(): boolean {
    return this.entries.length > 0;
  }

  updatePanel(): void {
    void this.draw();
  }

  /* ---- links ---- */

  writeLink(): LinkPairs {
    const pairs: LinkPairs = [];
    if (this.open) pairs.push(["k", `${this.open.report},${this.open.id}`]);
    if (this.baseline) pairs.push(["kb", `${this.baseline.report},${this.baseline.id}`]);
    return pairs;
  }

  readLink(link: Link): void {
    const read = (key: string): ResultRef | null => {
      const [report, id] = link.getNumbers(key, 2) ?? [];
      return id === undefined ? null : { report, id };
    };
    this.open = read("k");
    this.baseline = read("kb");
  }

  /* ---- asking ---- */

  /** What was measured in the reports; asked again when one was added or has grown. */
  private async askSummaries(): Promise<void> {
    const { reports } = this.app,
      key = reports.map((report) => `${report.path} ${report.bytes}`).join("|");
    if (key === this.asked) return;
    this.asked = key;
    const entries: Entry[] = [];
    for (let report = 0; report < reports.length; report++) {
      if (!reports[report].tables.some(({ name, rows }) => name === TABLE && rows > 0)) continue;
      const question = { r: report },
        answer = await this.app.ask<{ results: Summary[] }>("kernels", question);
      for (const result of answer?.results ?? []) entries.push({ ...result, report });
    }
    if (key !== this.asked) return;
    this.entries = entries;
    this.results.clear();
    this.onArrive();
  }

  private askResult(ref: ResultRef): Promise<Result> {
    const key = `${ref.report}:${ref.id}`,
      question = { r: ref.report, id: ref.id },
      found = this.results.get(key) ?? this.app.askOrThrow<Result>("kernel", question);
    this.results.set(key, found);
    found.catch(() => this.results.delete(key));
    return found;
  }

  /** The results of a kernel, by its name and the shape of its launch. */
  findResults(name: string, grid: number[], block: number[]): Entry[] {
    return this.entries.filter(
      (entry) =>
        [entry.name, entry.demangled].includes(name) &&
        entry.grid.every((n, i) => n === grid[i]) &&
        entry.block.every((n, i) => n === block[i]),
    );
  }

  private findEntry(ref: ResultRef | null): Entry | undefined {
    return ref
      ? this.entries.find((one) => one.report === ref.report && one.id === ref.id)
      : undefined;
  }

  nameResult(entry: Entry): string {
    const report = this.app.reports.length > 1 ? `${this.app.reports[entry.report].name} ` : "";
    return cleanText(`${report}#${entry.id} ${entry.name}`, 80);
  }

  /* ---- showing ---- */

  openResult(ref: ResultRef | null): void {
    this.open = ref && { report: ref.report, id: ref.id };
    this.root.parentElement?.scrollTo({ top: 0 });
    this.app.emitEvent("link");
    void this.draw().then(() => this.root.querySelector<HTMLElement>("[data-first]")?.focus());
  }

  private async draw(): Promise<void> {
    const drawing = ++this.drawing,
      entry = this.findEntry(this.open);
    if (!entry) {
      fillElement(this.root, this.makeHeader(), this.makeTable());
      return;
    }
    const base = this.findEntry(isSame(this.baseline, this.open) ? null : this.baseline),
      asked = [this.askResult(this.open!), base ? this.askResult(this.baseline!) : null] as const;
    try {
      const [result, before] = await Promise.all(asked);
      if (drawing !== this.drawing) return;
      this.view.show(result, before);
      fillElement(this.root, this.makeHead(entry, base), this.view.root);
    } catch (error) {
      if (drawing !== this.drawing) return;
      const why = error instanceof ServerError ? cleanText(error.message, 600) : t("error");
      fillElement(this.root, this.makeHead(entry, undefined), h("p", { class: "warning" }, why));
      if (!(error instanceof ServerError)) throw error; // the console says what it is
    }
  }

  /* ---- the table of all ---- */

  /** The GPU, and who measured. */
  private makeHeader(): HTMLElement {
    const texts = this.entries.map((entry) =>
      [entry.gpu, entry.chip, entry.clock ? formatScaled(entry.clock, "Hz") : "", entry.tool]
        .filter(Boolean)
        .join(" · "),
    );
    const gpus = [...new Set(this.entries.map((entry) => `${entry.gpu} (${entry.chip})`))],
      tools = [...new Set(this.entries.map((entry) => entry.tool).filter(Boolean))];
    return h(
      "p",
      {
        class: "quiet",
        title: [...new Set(texts)]
          .slice(0, 20)
          .map((text) => cleanText(text))
          .join("\n"),
      },
      t("kernel_count", formatCount(this.entries.length)),
      " · ",
      h("bdi", null, cleanText([...gpus, ...tools].join(" · "), 200)),
    );
  }

  private makeTable(): HTMLElement {
    const hasRun = this.entries.some((entry) => entry.launches.length > 0);
    if (!hasRun && this.sorting.key === "run") this.sorting.key = "saving";
    const sorted = [...this.entries].sort(compareBy(this.sorting.key, this.sorting.down)),
      longest = Math.max(...this.entries.map((entry) => entry.duration ?? 0));
    const table = h(
      "table",
      { class: "grid ksummary" },
      h("thead", null, h("tr", null, this.makeHeads())),
      h(
        "tbody",
        null,
        sorted.slice(0, MOST_ROWS).map((entry, i) => this.makeRow(entry, i === 0, longest)),
      ),
    );
    return h(
      "div",
      null,
      table,
      sorted.length > MOST_ROWS ? h("p", { class: "quiet" }, t("first_of", MOST_ROWS)) : null,
    );
  }

  private makeHeads(): HTMLElement[] {
    const many = this.app.reports.length > 1,
      hasRun = this.entries.some((entry) => entry.launches.length > 0);
    const again = (): void => void this.draw(),
      sort = (key: Key, word: Word, down = true): HTMLElement => {
        const head = sortHead(this.sorting, key, t(word), again, down);
        if (key !== "name") alignNumbers(head);
        return head;
      },
      plain = (word: Word): HTMLElement => h("th", { scope: "col" }, t(word));
    return [
      sort("id", "kernel_id", false),
      sort("gain", "kernel_estimate"),
      sort("name", "function", false),
      plain("kernel_bound"),
      sort("duration", "duration"),
      sort("saving", "kernel_saving"),
      ...(hasRun ? [sort("run", "kernel_run_saving")] : []),
      sort("compute", "kernel_compute"),
      sort("memory", "kernel_memory"),
      sort("registers", "registers"),
      plain("grid"),
      plain("block"),
      sort("cycles", "kernel_cycles"),
      ...(many ? [plain("report")] : []),
    ];
  }

  private makeRow(entry: Entry, first: boolean, longest: number): HTMLElement {
    const n = (text: string, cls = ""): HTMLElement => h("td", { class: `n ${cls}` }, text),
      time = (ns: number | null): string => (ns === null ? "–" : formatDuration(ns)),
      full = entry.demangled ?? entry.name,
      share = longest > 0 ? (entry.duration ?? 0) / longest : 0;
    return h(
      "tr",
      {
        tabindex: first ? 0 : -1,
        "data-id": entry.id,
        onclick: () => this.openResult(entry),
      },
      n(String(entry.id)),
      n(entry.gain ? formatPercent(entry.gain) : "–"),
      h(
        "td",
        { class: "wide", title: cleanText(full, 2000) },
        h("bdi", null, cleanText(entry.name, 200)),
        full !== entry.name ? h("bdi", { class: "quiet" }, ` ${cleanText(full, 120)}`) : null,
      ),
      h("td", { class: "kbound", title: cleanText(entry.verdict ?? "") }, this.sayBound(entry)),
      h(
        "td",
        { class: "n bar", style: { backgroundSize: `${(share * 100).toFixed(1)}% 100%` } },
        time(entry.duration),
      ),
      n(time(savingOf(entry))),
      this.entries.some((one) => one.launches.length) ? n(time(runSavingOf(entry))) : null,
      this.makeLoad(entry.compute),
      this.makeLoad(entry.memory),
      n(formatCount(entry.registers)),
      h("td", null, writeShape(entry.grid)),
      h("td", null, writeShape(entry.block)),
      n(entry.cycles === null ? "–" : formatPlain(entry.cycles)),
      this.app.reports.length > 1
        ? h("td", null, h("bdi", null, cleanText(this.app.reports[entry.report].name, 40)))
        : null,
    );
  }

  private makeLoad(value: number | null): HTMLElement {
    const level = value === null || value < 60 ? "" : value < 80 ? "much" : "high";
    return h(
      "td",
      {
        class: `n bar ${level}`,
        style: { backgroundSize: `${Math.min(100, value ?? 0).toFixed(1)}% 100%` },
      },
      writePercent(value),
    );
  }

  /** What it is bound by, in a word or two; why is in its findings. */
  private sayBound(entry: Summary): HTMLElement | string {
    if (entry.error) return t("kernel_failed");
    return entry.verdict ? said(entry.verdict.replace(/:.*/, "")) : "";
  }

  /** Up, Down, Home and End go from row to row, Enter opens, Escape goes back to the table. */
  private pressKey(event: KeyboardEvent): void {
    const row = (event.target as Element).closest<HTMLElement>(".ksummary tbody tr"),
      rows = [...this.root.querySelectorAll<HTMLElement>(".ksummary tbody tr")],
      at = row ? rows.indexOf(row) : -1;
    const next = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: rows.length - 1 }[event.key];
    if (event.key === "Escape" && this.open) this.openResult(null);
    else if (row && event.key === "Enter") row.click();
    else if (row && next !== undefined && rows[next]) {
      row.tabIndex = -1;
      rows[next].tabIndex = 0;
      rows[next].focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /* ---- the head of one ---- */

  private makeHead(entry: Entry, base: Entry | undefined): HTMLElement {
    const full = entry.demangled ?? entry.name;
    return h(
      "div",
      { class: "khead" },
      h(
        "p",
        { class: "actions" },
        h(
          "button",
          { "data-first": "", onclick: () => this.openResult(null) },
          `← ${t("kernels")}`,
        ),
        this.makeStep(entry, -1),
        this.makeStep(entry, 1),
        this.makeBaseline(entry),
        entry.launches.map((one) => this.makeLaunches(entry, one)),
      ),
      h("h3", null, h("bdi", null, cleanText(`#${entry.id} ${full}`, 1000))),
      this.makeFacts(entry, base),
    );
  }

  /** The result before or after it in the table. */
  private makeStep(entry: Entry, by: number): HTMLElement {
    const sorted = [...this.entries].sort(compareBy(this.sorting.key, this.sorting.down)),
      other = sorted[sorted.indexOf(entry) + by];
    return h(
      "button",
      {
        disabled: !other,
        title: t(by < 0 ? "previous" : "next"),
        "aria-label": t(by < 0 ? "previous" : "next"),
        onclick: () => this.openResult(other),
      },
      by < 0 ? "‹" : "›",
    );
  }

  private makeBaseline(entry: Entry): HTMLElement | null {
    if (this.entries.length < 2) return null;
    const choose = h("select", { "aria-label": t("kernel_baseline") }) as HTMLSelectElement,
      others = this.entries.filter((one) => one !== entry);
    fillElement(
      choose,
      h("option", { value: "" }, t("kernel_no_baseline")),
      others.map((one) => h("option", { value: `${one.report},${one.id}` }, this.nameResult(one))),
    );
    choose.value = this.baseline ? `${this.baseline.report},${this.baseline.id}` : "";
    choose.addEventListener("change", () => {
      const [report, id] = choose.value.split(",").map(Number);
      this.baseline = choose.value ? { report, id } : null;
      this.app.emitEvent("link");
      void this.draw();
    });
    return h("label", null, `${t("kernel_baseline")} `, choose);
  }

  /** To the launches of the kernel on a time line. */
  private makeLaunches(entry: Entry, launches: Launches): HTMLElement {
    const report = this.app.reports.length > 1 ? `${this.app.reports[launches.r].name}: ` : "",
      share = launches.busy > 0 ? launches.total / launches.busy : 0,
      text = t("kernel_launches", formatCount(launches.count), formatPercent(share));
    return h(
      "button",
      {
        title: t("show_in_events"),
        onclick: () => void this.showLaunches(entry, launches.r),
      },
      cleanText(report, 60) + text,
    );
  }

  /** Kernels whose short names are equal are called by their full names there. */
  private async showLaunches(entry: Entry, report: number): Promise<void> {
    const called = await this.app.ask<{ ids: number[] }>("names", { r: report, q: entry.name }),
      name = called?.ids.length ? entry.name : (entry.demangled ?? entry.name);
    this.panels.showEvents(this.panels.lanesOf(report, "kernels"), name);
  }

  private makeFacts(entry: Entry, base: Entry | undefined): HTMLElement {
    const percent = (value: number | null): string =>
        value === null ? "–" : `${value.toFixed(1)} %`,
      pairs: [Word, string, (one: Entry) => number | null, string?][] = [
        [
          "duration",
          entry.duration === null ? "–" : formatDuration(entry.duration),
          (one) => one.duration,
          "ns",
        ],
        [
          "kernel_cycles",
          entry.cycles === null ? "–" : formatPlain(entry.cycles),
          (one) => one.cycles,
        ],
        ["kernel_compute", percent(entry.compute), (one) => one.compute, "%"],
        ["kernel_memory", percent(entry.memory), (one) => one.memory, "%"],
        ["grid", writeShape(entry.grid), () => null],
        ["block", writeShape(entry.block), () => null],
        ["registers", formatCount(entry.registers), (one) => one.registers],
        ["kernel_clock", entry.clock ? formatScaled(entry.clock, "Hz") : "–", (one) => one.clock],
      ];
    return h(
      "dl",
      { class: "kfacts" },
      entry.verdict || entry.error
        ? this.makePair(t("kernel_bound"), h("span", { class: "kbound" }, this.sayBound(entry)))
        : null,
      entry.gain
        ? this.makePair(t("kernel_estimate"), h("b", null, formatPercent(entry.gain)))
        : null,
      pairs.map(([word, text, read, unit]) =>
        this.makePair(t(word), text, base && this.writeChange(read(entry), read(base), unit)),
      ),
      entry.gpu ? this.makePair(t("kernel_gpu"), said(`${entry.gpu} (${entry.chip})`)) : null,
      entry.tool ? this.makePair(t("kernel_tool"), said(entry.tool)) : null,
    );
  }

  private makePair(key: string, ...value: (Node | string | null | undefined)[]): HTMLElement {
    return h("div", null, h("dt", null, key), h("dd", null, value));
  }

  private writeChange(
    now: number | null,
    before: number | null,
    unit?: string,
  ): HTMLElement | null {
    if (now === null || before === null) return null;
    const direction = directionOf(now, before);
    if (direction === "same") return null;
    return h("span", { class: `kdiff ${direction}` }, ` ${describeDifference(now, before, unit)}`);
  }
}
