/**
 * Where the time of a stretch went: the critical path by cause and by code, and each GPU's time by
 * what it did or waited for. All parts of each table add up to the stretch.
 */

import type { App } from "../app";
import { ServerError } from "../data";
import {
  nameCause,
  type Causes,
  type CodeRow,
  type Gpu,
  type PathTimes,
  type Spent,
} from "../critical";
import type { Panel } from "./panels";
import { windowOf } from "./panels";
import { copyCsv } from "../copy";
import { delayCalls, fillElement, h, waitForRelease } from "../dom";
import { cleanText, formatDuration, formatMoment, formatPercent } from "../format";
import { goToPlace, type Place } from "../goto";
import { t, type Word } from "../i18n";

interface Known {
  window?: [number, number]; // that was analysed
  spent?: Spent;
  error?: string;
}

const AT_FIRST = 15; // lines of code

/** A line of a table: what, how long, and of what kind. */
interface Line {
  text: string;
  ns: number;
  place?: Place;
  title?: string;
  opens?: boolean; // it stands for lines that can be shown
}

export class PathTable implements Panel {
  readonly root = h("div", { class: "path" });
  private known: Known[] = [];
  private asking: AbortController | null = null;
  private all = false; // every line of code is shown
  private wanted = ""; // the question that was asked last
  isShown: () => boolean = () => false;
  onToggle: () => void = () => undefined;

  constructor(private app: App) {
    for (const what of ["ready", "findings"]) app.on(what, () => (this.wanted = ""));
    for (const what of ["words", "path"]) app.on(what, () => this.drawPanel());
  }

  hasContent(): boolean {
    return this.app.reports.length > 0 && this.app.hasPath;
  }

  updatePanel(): void {
    this.drawPanel();
    this.askSoon();
  }

  private askSoon = delayCalls(120, () => void this.askTimes());

  private async askTimes(): Promise<void> {
    const questions = this.app.reports.map(({ id }) => {
        const { t0, t1 } = windowOf(this.app, id);
        return { r: id, t0, t1, least: Math.ceil(t1 - t0), times: 1 };
      }),
      wanted = JSON.stringify(questions);
    if (wanted === this.wanted || this.app.building || !this.root.isConnected) return;
    this.wanted = wanted;
    this.asking?.abort();
    const mine = (this.asking = new AbortController());
    const known: Known[] = [];
    for (const question of questions)
      known.push(await this.askReport(question, mine.signal).catch((error) => this.say(error)));
    if (this.asking !== mine) return;
    this.asking = null;
    this.known = known;
    await waitForRelease(this.root);
    this.drawPanel();
  }

  private async askReport(question: Record<string, number>, signal: AbortSignal): Promise<Known> {
    const answer = await this.app.source.json<PathTimes>("path", question, signal);
    return { spent: answer.spent, window: answer.window };
  }

  private say(error: unknown): Known {
    return { error: error instanceof ServerError ? cleanText(error.message, 600) : t("error") };
  }

  /* ---- the panel ---- */

  private drawPanel(): void {
    const many = this.app.reports.length > 1;
    fillElement(
      this.root,
      this.makeControls(),
      this.app.reports.map((report, i) =>
        h(
          "section",
          { "aria-label": cleanText(report.name) },
          many ? h("h3", null, h("bdi", null, cleanText(report.name))) : null,
          this.makeTables(i),
        ),
      ),
    );
  }

  private makeControls(): HTMLElement {
    const shown = this.isShown();
    return h(
      "p",
      { class: "actions" },
      h(
        "button",
        {
          class: shown ? "on drawn" : "drawn",
          "aria-pressed": String(shown),
          onclick: () => this.onToggle(),
        },
        t("path_draw"),
      ),
      this.known.some((one) => one.spent?.rows.length)
        ? h("button", { onclick: () => this.copyTables() }, t("copy_csv"))
        : null,
      h("span", { class: "quiet" }, t(this.app.range ? "path_selected" : "path_in_sight")),
    );
  }

  private makeTables(report: number): (HTMLElement | null)[] {
    const { spent, error } = this.known[report] ?? {};
    if (error) return [h("p", { class: "says wrong", role: "status" }, error)];
    if (!spent) return [h("p", { class: "says", role: "status" }, t("findings_asking"))];
    if (!spent.total) return [this.sayNone(report)];
    const span = `${formatMoment(spent.from)} … ${formatMoment(spent.to)}`;
    return [
      h(
        "div",
        { class: "tables" },
        this.makeTable(report, t("path_by_cause"), spent.total, causeLines(spent.by_cause), span),
        ...spent.gpus.map((gpu) =>
          this.makeTable(report, cleanText(gpu.name), spent.total, gpuLines(gpu), span),
        ),
        this.makeTable(
          report,
          t("path_by_code"),
          spent.total,
          codeLines(spent, this.all ? Infinity : AT_FIRST),
          span,
        ),
      ),
    ];
  }

  /** The path does not run here: where it does. */
  private sayNone(report: number): HTMLElement {
    const { window } = this.known[report],
      offset = this.app.offsets[report];
    return h(
      "p",
      { class: "actions" },
      h("span", { class: "quiet" }, t("path_none")),
      window
        ? h(
            "button",
            {
              class: "goto",
              onclick: () => {
                this.app.setRange(null);
                this.app.view.set(window[0] + offset, window[1] + offset);
              },
            },
            t("go_there"),
          )
        : null,
    );
  }

  private makeTable(
    report: number,
    title: string,
    total: number,
    lines: Line[],
    span: string,
  ): HTMLElement {
    return h(
      "table",
      { class: "grid spent" },
      h("caption", { title: span }, title),
      h(
        "tbody",
        null,
        lines.map((line) => this.makeLine(report, line, total)),
      ),
      h(
        "tfoot",
        null,
        h(
          "tr",
          null,
          h("td", { class: "n" }, formatPercent(1)),
          h("td", { class: "n" }, formatDuration(total)),
          h("th", { scope: "row" }, t("path_total")),
        ),
      ),
    );
  }

  private makeLine(
    report: number,
    { text, ns, place, title, opens }: Line,
    total: number,
  ): HTMLElement {
    const share = total ? ns / total : 0,
      run = place
        ? (): void => void goToPlace(this.app, report, place)
        : (): void => this.showAll(),
      bar = { backgroundSize: `${(share * 100).toFixed(1)}% 100%` };
    return h(
      "tr",
      null,
      h("td", { class: "n bar", style: bar }, formatPercent(share)),
      h("td", { class: "n" }, formatDuration(ns)),
      h(
        "th",
        { scope: "row", title },
        place || opens
          ? h("button", { class: "link", onclick: run }, h("bdi", null, text))
          : h("bdi", null, text),
      ),
    );
  }

  private showAll(): void {
    this.all = true;
    this.drawPanel();
  }

  private copyTables(): void {
    const rows = this.known.flatMap(({ spent }, report) => {
      if (!spent) return [];
      const name = cleanText(this.app.reports[report].name),
        write = (table: string, lines: Line[]): (string | number)[][] =>
          lines.map((line) => [name, table, line.text, line.ns, line.ns / spent.total]);
      return [
        ...write(t("path_by_cause"), causeLines(spent.by_cause)),
        ...spent.gpus.flatMap((gpu) => write(cleanText(gpu.name), gpuLines(gpu))),
        ...write(t("path_by_code"), codeLines(spent, Infinity)),
      ];
    });
    copyCsv(["report", "table", "what", "ns", "share"], rows);
  }
}

function sortLines(lines: Line[]): Line[] {
  return lines.filter((line) => line.ns > 0).sort((a, b) => b.ns - a.ns);
}

function causeLines(causes: Causes): Line[] {
  return sortLines(causes.map(([cause, ns]) => ({ text: nameCause(cause), ns })));
}

/** What a GPU did comes first, then what it waited for. */
function gpuLines(gpu: Gpu): Line[] {
  const parts: [Word, number][] = [
    ["path_compute", gpu.compute],
    ["path_communicate", gpu.communicate],
    ["path_copy", gpu.copy],
  ];
  return [
    ...parts
      .filter(([, ns]) => ns > 0)
      .map(([word, ns]) => ({
        text:
          word === "path_compute" && gpu.overlapped
            ? `${t(word)} (${t("path_overlapped", formatDuration(gpu.overlapped))})`
            : t(word),
        ns,
      })),
    ...sortLines(gpu.idle.map(([cause, ns]) => ({ text: t("path_idle", nameCause(cause)), ns }))),
  ];
}

/** A cause with what stands behind it; of some only the thread is known. */
function nameCode(row: CodeRow): string {
  const [cause, what] = [nameCause(row.cause), cleanText(row.what.trim(), 300)];
  if (!what) return cause;
  return what.startsWith("[") ? `${cause} ${what}` : `${cause}: ${what}`;
}

function codeLines({ rows, rest }: Spent, most: number): Line[] {
  const left = rows.slice(most).reduce((ns, row) => ns + row.ns, rest),
    lines: Line[] = rows.slice(0, most).map((row) => ({
      text: nameCode(row),
      ns: row.ns,
      place: row,
      title: t("path_longest", row.pieces, formatDuration(row.end - row.start)),
    }));
  if (left > 0) lines.push({ text: t("path_rest"), ns: left, opens: rows.length > most });
  return lines;
}
