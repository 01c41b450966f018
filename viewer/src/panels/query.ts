/** SQL over a report, as `warpsight query` understands it: typed here, its rows as a table. */

import type { App } from "../app";
import { ServerError, type Spot } from "../data";
import type { Panel } from "./panels";
import type { Link, Linked, LinkPairs } from "../link";
import { copyCsv, saveCsv } from "../copy";
import { fillElement, h } from "../dom";
import { cleanText, formatCount } from "../format";
import { t, type Word } from "../i18n";

type Value = string | number | null;

/** The result of one statement. Whole numbers beyond 2^53 are texts. */
interface Result {
  columns: string[];
  types: string[]; // kinds of values that a column was seen to have
  rows: Value[][];
}

interface Answer {
  results: Result[];
  full: number; // there are more rows
}

interface Example {
  word: Word;
  tables: string[]; // which it needs
  sql: string;
}

const EXAMPLES: Example[] = [
  {
    word: "query_kernels",
    tables: ["CUPTI_ACTIVITY_KIND_KERNEL"],
    sql: `SELECT s.value AS kernel, count(*) AS count, sum(k.end - k.start) AS total_ns,
  avg(k.end - k.start) AS average_ns, max(k.end - k.start) AS max_ns
FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName
GROUP BY s.value ORDER BY total_ns DESC`,
  },
  {
    word: "query_gaps",
    tables: ["CUPTI_ACTIVITY_KIND_KERNEL"],
    sql: `SELECT before_ns, start, end, deviceId, streamId FROM (
  SELECT *, start - lag(end) OVER (PARTITION BY globalPid, deviceId ORDER BY start) AS before_ns
  FROM CUPTI_ACTIVITY_KIND_KERNEL)
ORDER BY before_ns DESC LIMIT 100`,
  },
  {
    word: "query_latency",
    tables: ["CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"],
    sql: `SELECT k.start - r.start AS latency_ns, r.start, r.end, s.value AS kernel
FROM CUPTI_ACTIVITY_KIND_RUNTIME r
JOIN CUPTI_ACTIVITY_KIND_KERNEL k ON k.correlationId = r.correlationId
  AND k.globalPid >> 24 = r.globalTid >> 24
JOIN StringIds s ON s.id = k.shortName
ORDER BY latency_ns DESC LIMIT 100`,
  },
  {
    word: "query_copies",
    tables: ["CUPTI_ACTIVITY_KIND_MEMCPY"],
    sql: `SELECT o.label AS kind, count(*) AS count, sum(bytes) AS bytes,
  sum(end - start) AS total_ns, sum(bytes) * 1.0 / sum(end - start) AS gb_per_s
FROM CUPTI_ACTIVITY_KIND_MEMCPY m JOIN ENUM_CUDA_MEMCPY_OPER o ON o.id = m.copyKind
GROUP BY o.label ORDER BY total_ns DESC`,
  },
  {
    word: "query_ranges",
    tables: ["NVTX_EVENTS"],
    sql: `SELECT end - start AS duration_ns, start, end, coalesce(text, s.value) AS name
FROM NVTX_EVENTS LEFT JOIN StringIds s ON s.id = textId
WHERE end > start ORDER BY duration_ns DESC LIMIT 100`,
  },
  {
    word: "query_calls",
    tables: ["OSRT_API"],
    sql: `SELECT end - start AS duration_ns, start, end, s.value AS function,
  globalTid & 0xffffff AS tid
FROM OSRT_API JOIN StringIds s ON s.id = nameId
ORDER BY duration_ns DESC LIMIT 100`,
  },
  { word: "query_tables", tables: [], sql: "SELECT name, sql FROM sqlite_schema ORDER BY name" },
];

const KEPT = "warpsight query", // what was typed last, in the browser
  AT_FIRST = 500, // rows that are shown
  ASKED = 10000,
  TRIES = 50; // for a row of events that is being read

/** Columns of moments, which lead to their events. */
const MOMENTS = /^(start|timestamp)$|[_.]start$|[a-z]Start$/;

function readKept(): string {
  try {
    return localStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

/** A value as it is copied and shown; real numbers are seen to be such. */
function showValue(value: Value, type: string): string {
  if (typeof value === "number" && type === "real" && Number.isInteger(value))
    return Math.abs(value) < 1e16 ? value.toFixed(1) : String(value);
  return String(value);
}

export class Query implements Panel, Linked {
  readonly root: HTMLElement;
  private text: HTMLTextAreaElement;
  private controls = h("p", { class: "actions" });
  private says = h("p", { class: "says", role: "status" });
  private tables = h("div");
  private report = 0;
  private results: Result[] = [];
  private running: AbortController | null = null;
  private touched = false; // the text is of this page, not only what the browser kept
  private asked = ""; // the text that was asked last
  private linked = false; // a link had asked its text: to be asked when the panel is seen

  constructor(private app: App) {
    this.text = h("textarea", {
      rows: 4,
      maxlength: 20000,
      spellcheck: "false",
      autocomplete: "off",
      value: readKept(),
      onkeydown: (event: KeyboardEvent) => this.onKey(event),
      oninput: () => this.noteTouched(),
    });
    app.linkedParts.push(this);
    this.root = h("div", { class: "query" }, this.text, this.controls, this.says, this.tables);
    for (const what of ["ready", "words"]) app.on(what, () => this.drawPanel());
  }

  hasContent(): boolean {
    return this.app.reports.length > 0 && !this.app.limit; // an exported page has no tables
  }

  updatePanel(): void {
    this.drawPanel();
    if (this.linked) void this.askQuery();
  }

  /* ---- links ---- */

  private noteTouched(): void {
    this.touched = true;
    this.app.emitEvent("link");
  }

  writeLink(): LinkPairs {
    const sql = this.text.value.trim(),
      pairs: LinkPairs = [];
    if (!sql || !(this.touched || this.app.panel === "sql")) return [];
    pairs.push(["sql", sql]);
    if (this.report) pairs.push(["sqlr", String(this.report)]);
    if (sql === this.asked) pairs.push(["run", "1"]);
    return pairs;
  }

  readLink(link: Link): void {
    const sql = link.get("sql"),
      [report] = link.getNumbers("sqlr", 1) ?? [0];
    if (sql === undefined) return;
    this.text.value = sql.slice(0, this.text.maxLength);
    this.touched = true;
    if (this.app.reports[report]) this.report = report;
    this.linked = link.get("run") === "1";
  }

  private onKey(event: KeyboardEvent): void {
    if (event.key === "Escape" && this.running) this.stopQuery();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void this.askQuery();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /* ---- asking ---- */

  private keepText(): void {
    try {
      localStorage.setItem(KEPT, this.text.value);
    } catch {
      /* private windows refuse; the text then lasts as long as the page */
    }
  }

  /** The server ends a query whose page closes the connection. */
  private stopQuery(): void {
    this.running?.abort();
  }

  private async askQuery(): Promise<void> {
    const sql = this.text.value.trim(),
      mine = new AbortController(),
      began = performance.now();
    if (!sql) return;
    this.stopQuery();
    if (!this.linked) this.keepText(); // what others wrote does not take the place of one's own
    this.linked = false;
    this.asked = sql;
    this.noteTouched();
    this.app.keepAddress(); // at once: the page may be loaded again as soon as there is an answer
    this.running = mine;
    this.results = [];
    this.sayText(t("query_running"));
    this.drawPanel();
    try {
      const question = { r: this.report, sql, limit: ASKED },
        answer = await this.app.source.json<Answer>("query", question, mine.signal);
      if (this.running !== mine) return;
      this.results = answer.results;
      this.sayText(this.writeSummary(answer, performance.now() - began));
    } catch (error) {
      if (this.running !== mine) return;
      if (mine.signal.aborted) this.sayText(t("query_stopped"));
      else if (error instanceof ServerError) this.sayText(cleanText(error.message, 2000), true);
      else {
        this.sayText(t("error"), true);
        this.app.showFailure(error);
      }
    }
    this.running = null;
    this.drawPanel();
  }

  private sayText(text: string, wrong = false): void {
    this.says.textContent = text;
    this.says.classList.toggle("wrong", wrong);
  }

  private writeSummary(answer: Answer, ms: number): string {
    const rows = answer.results.reduce((n, result) => n + result.rows.length, 0),
      took = `${ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`}`;
    if (!answer.results.length) return t("query_nothing");
    return answer.full
      ? t("query_full", formatCount(rows))
      : `${t("n_rows", formatCount(rows))} · ${took}`;
  }

  /** Ask what another part of the page has written. */
  askText(report: number, sql: string): void {
    this.chooseReport(report);
    this.text.value = sql;
    void this.askQuery();
  }

  /* ---- controls ---- */

  private drawPanel(): void {
    const named = t("query_label");
    this.text.placeholder = `SELECT … FROM … (${t("query_hint")})`;
    this.text.setAttribute("aria-label", named);
    if (this.report >= this.app.reports.length) this.report = 0;
    fillElement(
      this.controls,
      this.running
        ? h("button", { class: "stop", onclick: () => this.stopQuery() }, t("query_stop"))
        : h("button", { class: "ask", onclick: () => void this.askQuery() }, t("query_ask")),
      this.app.reports.length > 1 ? this.reportChoice() : null,
      this.exampleChoice(),
      this.results.some((result) => result.rows.length)
        ? [
            h("button", { onclick: () => this.makeCsv(false) }, t("copy_csv")),
            h("button", { onclick: () => this.makeCsv(true) }, t("save_csv")),
          ]
        : null,
    );
    fillElement(
      this.tables,
      this.results.map((result) => this.makeTable(result, AT_FIRST)),
    );
  }

  private chooseReport(report: number): void {
    this.report = report;
    this.asked = "";
    this.noteTouched();
  }

  private reportChoice(): HTMLElement {
    const choice = h(
      "select",
      { "aria-label": t("report"), onchange: () => this.chooseReport(Number(choice.value)) },
      this.app.reports.map((report) =>
        h(
          "option",
          { value: report.id, selected: report.id === this.report },
          cleanText(report.name, 60),
        ),
      ),
    );
    return choice;
  }

  /** Queries to begin with, and the tables that have rows. */
  private exampleChoice(): HTMLElement {
    const tables = this.app.reports[this.report]?.tables.filter((x) => x.rows && x.sqlite) ?? [],
      names = [...new Set(tables.map((x) => x.sqlite))].sort(),
      examples = EXAMPLES.filter((example) => example.tables.every((name) => names.includes(name)));
    const choice = h(
      "select",
      {
        class: "examples",
        "aria-label": t("query_examples"),
        onchange: () => {
          this.text.value = examples[Number(choice.value)]?.sql ?? choice.value;
          choice.value = "";
          this.noteTouched();
          this.text.focus();
        },
      },
      h("option", { value: "" }, t("query_examples")),
      examples.map((example, i) => h("option", { value: i }, t(example.word))),
      h(
        "optgroup",
        { label: t("tables") },
        names.map((name) => h("option", { value: `SELECT * FROM ${name} LIMIT 100` }, name)),
      ),
    );
    return choice;
  }

  private makeCsv(save: boolean): void {
    const { columns, types, rows } = this.results.find((result) => result.rows.length)!,
      head = columns.map((column) => cleanText(column)),
      body = rows.map((row) =>
        row.map((value, i) => {
          if (value === null) return "";
          // numbers that are written as texts are no formulas
          if (/^-?\d+$/.test(String(value)) && types[i] === "integer") return Number(value);
          return typeof value === "number" ? value : cleanText(value);
        }),
      );
    if (save) saveCsv("query.csv", head, body);
    else copyCsv(head, body);
  }

  /* ---- the table ---- */

  private makeTable(result: Result, most: number): HTMLElement {
    const root = h("div"),
      left = result.rows.length - most,
      showMore = (): void => root.replaceWith(this.makeTable(result, most + AT_FIRST * 4));
    root.append(
      h(
        "table",
        { class: "grid" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            result.columns.map((column, i) => this.makeHead(result, column, i)),
          ),
        ),
        h(
          "tbody",
          null,
          result.rows.slice(0, most).map((row) =>
            h(
              "tr",
              null,
              row.map((_, i) => this.makeCell(result, row, i)),
            ),
          ),
        ),
      ),
    );
    if (left > 0)
      root.append(h("button", { onclick: showMore }, `${t("more")} (${formatCount(left)})`));
    return root;
  }

  private makeHead(result: Result, column: string, i: number): HTMLElement {
    const numbers = ["integer", "real"].includes(result.types[i]);
    return h(
      "th",
      { scope: "col", class: numbers ? "n" : "" },
      h("bdi", null, cleanText(column, 100)),
      h("span", { class: "quiet type" }, result.types[i]),
    );
  }

  private makeCell(result: Result, row: Value[], i: number): HTMLElement {
    const value = row[i],
      type = result.types[i];
    if (value === null) return h("td", { class: "quiet" }, "NULL");
    if (typeof value === "number" && type === "integer" && MOMENTS.test(result.columns[i])) {
      const end = row[result.columns.indexOf("end")],
        goToEvent = (): void => void this.goToEvent(value, typeof end === "number" ? end : value);
      return h(
        "td",
        { class: "n" },
        h("button", { class: "link", title: t("jump"), onclick: goToEvent }, String(value)),
      );
    }
    if (typeof value === "number" || type === "integer")
      return h("td", { class: "n" }, showValue(value, type));
    const text = cleanText(value, 2000);
    return h("td", { title: text.length > 60 ? text : undefined }, h("bdi", null, text));
  }

  /** Select the event that began then, of several the one that ended then; if there is none, select
   * that stretch. */
  private async goToEvent(start: number, end: number): Promise<void> {
    const question = {
      r: this.report,
      t0: start,
      t1: start + 1,
      sort: "start",
      down: 1,
      limit: 500,
    };
    for (let i = 0; i < TRIES; i++) {
      const got = await this.app.ask<{ events: Spot[]; unread?: number }>("events", question),
        there = got?.events.filter((spot) => spot.start === start) ?? [],
        event = there.find((spot) => spot.end === end) ?? (got?.unread ? undefined : there[0]);
      if (event) return this.app.select(this.report, event, true);
      if (!got?.unread) break;
      await new Promise((callback) => setTimeout(callback, 100));
    }
    this.app.select(this.report, null);
    const offset = this.app.offsets[this.report];
    this.app.setRange([start + offset, Math.max(end, start + 1) + offset]);
    this.app.view.revealSpan(start + offset, end + offset);
  }
}
