/**
 * Events of some rows in the window, as a table: sorted, filtered, and linked both ways with the
 * time line.
 */

import { takeBeginning, type App } from "../app";
import {
  AGAIN,
  type Durations,
  type Column as DetailColumn,
  type EventTable,
  type Params,
  type Spot,
} from "../data";
import { isCounter } from "../layout";
import { showColumn } from "./details";
import { windowOf, type LaneRef, type Panel } from "./panels";
import { copyCsv, copySql, saveCsv } from "../copy";
import { fillElement, h, delayCalls, waitForRelease } from "../dom";
import { cleanText, formatCount, formatDuration, formatMoment } from "../format";
import { t } from "../i18n";
import { readLanes, writeLanes, type Link, type Linked, type LinkPairs } from "../link";
import { compareCells } from "../values";
import { alignNumbers, sortHead, type Sorting } from "./grid";
import { Histogram, type Slice } from "./histogram";

const PAGE = 200;
type Column = "start" | "duration" | "name" | "row";
type Shown = EventTable["events"][number] & { report: number };
/* Rows can be sorted by as long as their numbers fit into an address. */
const MOST_LANES = 6000;

/** How tables are sorted, in links: `-` is down; a column of a table has a point. */
const ORDER = /^(-?)(start|duration|name|row|\.\w+)$/;

export class Events implements Panel, Linked {
  readonly root: HTMLElement;
  private lanes: LaneRef[] = [];
  // a name that was chosen; what is typed is only a part of one
  private exact: string | null = null;
  private form: number | undefined; // of which `exact` is then the text
  private slice: Slice | null = null; // only those that last so long
  private spread = h("button", {
    class: "spread",
    "aria-pressed": "false",
    onclick: () => {
      this.showSpread(this.histogram.root.hidden);
      void this.loadEvents();
    },
  });
  private histogram = new Histogram((slice) => {
    this.slice = slice;
    void this.loadEvents();
  });
  private what = h("span", { class: "quiet" });
  private only = h("span", { class: "only", hidden: true });
  private filter: HTMLInputElement;
  private table = h("tbody");
  private head = h("thead");
  private more = h("button", { onclick: () => void this.loadEvents(true) });
  private sort: Sorting<string> = { key: "start", down: false };
  private shown: Shown[] = [];
  private offered: NonNullable<EventTable["columns"]> = []; // columns of tables
  private columns: string[] = []; // and which of them are shown
  private where: HTMLInputElement;
  private chooser = h("details", { class: "chooser" }, h("summary"), h("div"));
  private total = 0;
  private turn = 0;
  private spreadTurn = 0;

  constructor(private app: App) {
    this.filter = h("input", {
      type: "search",
      maxlength: 500,
      oninput: delayCalls(200, () => {
        this.exact = null;
        this.form = undefined;
        this.slice = null;
        void this.loadEvents();
      }),
    });
    this.where = h("input", {
      type: "search",
      class: "where",
      maxlength: 500,
      oninput: delayCalls(400, () => void this.loadEvents()),
    });
    this.root = h(
      "div",
      { class: "events" },
      h(
        "p",
        { class: "actions" },
        this.filter,
        this.what,
        this.only,
        this.where,
        this.chooser,
        this.spread,
        h("button", { class: "csv", onclick: () => this.makeCsv(false) }),
        h("button", { class: "save", onclick: () => this.makeCsv(true) }),
        app.limit ? null : h("button", { class: "sql", onclick: () => this.makeSql() }),
      ),
      this.histogram.root,
      h("table", { class: "grid" }, this.head, this.table),
      this.more,
    );
    app.linkedParts.push(this);
    app.on("words", () => this.nameControls());
    this.nameControls();
  }

  /* ---- links ---- */

  writeLink(): LinkPairs {
    const { key, down } = this.sort,
      typed = this.exact === null ? this.filter.value : "",
      bars = this.slice ? this.slice.join(",") : "1",
      pairs: [string, string | undefined][] = [
        ["el", this.lanes.length ? writeLanes(this.lanes) : undefined],
        ["en", typed || undefined],
        ["ex", this.exact ?? undefined],
        ["ef", this.form?.toString()],
        ["ew", this.readCondition()],
        ["ec", this.columns.join(",") || undefined],
        ["eo", key === "start" && !down ? undefined : `${down ? "-" : ""}${key}`],
        ["ed", this.histogram.root.hidden ? undefined : bars],
      ];
    return pairs.filter((pair): pair is [string, string] => pair[1] !== undefined);
  }

  readLink(link: Link): void {
    const exact = link.get("ex"),
      form = link.getNumbers("ef", 1)?.[0],
      order = ORDER.exec(link.get("eo") ?? ""),
      columns = (link.get("ec") ?? "").split(",");
    this.lanes = readLanes(
      link.get("el") ?? "",
      ({ report, lane }) => this.app.laneRow(report, lane) !== undefined,
    );
    this.exact = exact ?? null;
    this.form = exact === undefined ? undefined : form;
    this.filter.value = exact ?? link.get("en") ?? "";
    this.where.value = link.get("ew") ?? "";
    this.columns = columns.filter((name) => /^\w+$/.test(name));
    if (order && (!order[2].startsWith(".") || this.columns.includes(order[2].slice(1))))
      this.sort = { key: order[2], down: order[1] === "-" };
    if (link.get("ed") !== undefined) this.showSpread(true);
    this.slice = (link.getNumbers("ed", 2) as Slice | undefined) ?? null;
    this.drawHead();
  }

  hasContent(): boolean {
    return this.app.reports.length > 0;
  }

  private nameControls(): void {
    this.filter.placeholder = t("filter_names");
    this.filter.setAttribute("aria-label", t("filter_names"));
    this.spread.textContent = t("durations");
    this.spread.title = t("durations_title");
    this.root.querySelector(".csv")!.textContent = t("copy_csv");
    this.root.querySelector(".save")!.textContent = t("save_csv");
    fillElement(this.root.querySelector(".sql") ?? h("p"), t("copy_sql"));
    this.more.textContent = t("more");
    this.where.placeholder = t("filter_values");
    this.where.setAttribute("aria-label", t("filter_values"));
    this.where.title = t("filter_values_title");
    this.chooser.querySelector("summary")!.textContent = t("choose_columns");
    this.drawHead();
  }

  private drawHead(): void {
    const sortAgain = (): void => (this.drawHead(), void this.loadEvents()),
      makeHead = (key: Column): HTMLElement =>
        sortHead(this.sort, key, t(key), sortAgain, key === "duration"),
      own = this.columns.map((name) => {
        const head = sortHead(this.sort, `.${name}`, name, sortAgain, false),
          type = this.offered.find((column) => column.name === name)?.type ?? "STR";
        return type === "STR" || type === "WORD" ? head : alignNumbers(head);
      });
    fillElement(
      this.head,
      h(
        "tr",
        null,
        alignNumbers(makeHead("start")),
        alignNumbers(makeHead("duration")),
        makeHead("name"),
        own,
        makeHead("row"),
        this.app.reports.length > 1 ? h("th", { scope: "col" }, t("report")) : null,
      ),
    );
  }

  /** Which columns of the tables that these events are from to show. */
  private drawChooser(): void {
    const names = this.offered.map((c) => c.name);
    fillElement(
      this.chooser.querySelector("div")!,
      this.offered.map((c) =>
        h(
          "label",
          { title: c.doc },
          h("input", {
            type: "checkbox",
            "data-column": c.name,
            checked: this.columns.includes(c.name),
            onchange: () => this.toggleColumn(c.name),
          }),
          ` ${c.name}`,
        ),
      ),
    );
    this.chooser.hidden = !names.length;
  }

  private toggleColumn(name: string): void {
    if (this.columns.includes(name))
      this.columns = this.columns.filter((letter) => letter !== name);
    else this.columns.push(name);
    if (this.sort.key.startsWith(".") && !this.columns.includes(this.sort.key.slice(1)))
      this.sort = { key: "start", down: false };
    this.drawHead();
    void this.loadEvents();
  }

  /** How the table is sorted, and what is shown of each event. */
  private askOrder(): Params {
    const { key, down } = this.sort,
      column = key.startsWith(".") ? key.slice(1) : undefined;
    return {
      sort: column ? "start" : key,
      column,
      down: Number(down),
      columns: this.columns.join(",") || undefined,
    };
  }

  chooseEvents(lanes: LaneRef[], name?: string, form?: number): void {
    this.lanes = lanes;
    this.slice = null;
    this.form = form;
    this.exact = name ?? null;
    this.filter.value = name ?? "";
  }

  /** Show or hide the distribution of durations above the table; hiding it also drops its selected
   * slice. */
  showSpread(on: boolean): void {
    this.spread.setAttribute("aria-pressed", String(on));
    this.spread.classList.toggle("on", on);
    if (on) this.histogram.root.hidden = false;
    else {
      this.slice = null;
      this.histogram.hideBars();
    }
  }

  private async loadSpread(): Promise<void> {
    const turn = ++this.spreadTurn,
      parts = await Promise.all(
        this.listReports().map(async ({ r: report, lanes }) => {
          const { t0, t1 } = windowOf(this.app, report),
            asked = { r: report, lanes, t0, t1, where: this.readCondition(), ...this.askNames() },
            durations = await this.app.ask<Durations>("durations", asked);
          return durations && { name: cleanText(this.app.reports[report].name, 60), durations };
        }),
      );
    await waitForRelease(this.root);
    if (turn !== this.spreadTurn || this.histogram.root.hidden) return;
    this.histogram.showDurations(
      parts.filter((p) => !!p),
      this.slice,
    );
  }

  private readCondition(): string | undefined {
    return this.where.value.trim() || undefined;
  }

  /** Which names: those that have a text in them, or the one that was chosen. */
  private askNames(): Params {
    if (this.form !== undefined) return { form: this.form };
    if (this.exact === null) return { q: this.filter.value || undefined };
    const { q: text, cut } = takeBeginning(this.exact);
    return { q: text, exact: 1 + cut };
  }

  /** Which events: by name, by columns, and by how long they last. */
  private askFilter(): Params {
    return {
      ...this.askNames(),
      where: this.readCondition(),
      at_least: this.slice?.[0],
      below: this.slice?.[1],
    };
  }

  updatePanel = delayCalls(150, () => void this.loadEvents());

  /**
   * Whose events these are: the rows that were chosen, else all but those that show again what
   * others have.
   */
  private listReports(): { r: number; lanes: string | undefined }[] {
    const lanes = this.lanes.length || this.sort.key !== "row" ? this.lanes : this.inOrder();
    if (!lanes.length)
      return this.app.reports.map((report) => ({ r: report.id, lanes: undefined }));
    return [...new Set(lanes.map((lane) => lane.report))].map((report) => ({
      r: report,
      lanes: lanes
        .filter((lane) => lane.report === report)
        .map((ref) => ref.lane)
        .join(","),
    }));
  }

  /**
   * All rows from the top of the page to its end; the server sorts by their places among these.
   */
  private inOrder(): LaneRef[] {
    const { rows } = this.app,
      all = rows.roots
        .flatMap((row) => rows.lanesUnder(row))
        .filter((line) => !AGAIN.includes(line.type) && !isCounter(line));
    return all.length > MOST_LANES
      ? []
      : all.map((other) => ({ report: other.report, lane: other.lane! }));
  }

  private async loadEvents(more = false): Promise<void> {
    this.app.emitEvent("link");
    if (!more && !this.histogram.root.hidden) void this.loadSpread();
    const turn = ++this.turn,
      offset = more ? this.shown.length : 0;
    const parts = await Promise.all(
      this.listReports().map(async ({ r, lanes }) => {
        const { t0, t1 } = windowOf(this.app, r);
        const got = await this.app.ask<EventTable>("events", {
          r,
          lanes,
          t0,
          t1,
          ...this.askOrder(),
          ...this.askFilter(),
          offset: 0,
          limit: offset + PAGE,
        });
        return (
          got && {
            count: got.count,
            columns: got.columns ?? [],
            events: got.events.map((spot) => ({ ...spot, report: r })),
          }
        );
      }),
    );
    await waitForRelease(this.root);
    if (turn !== this.turn) return;
    this.shown = parts.flatMap((p) => p?.events ?? []);
    if (parts.length > 1) this.mergeReports();
    this.offered = parts
      .flatMap((p) => p?.columns ?? [])
      .filter((c, i, all) => all.findIndex((x) => x.name === c.name) === i);
    this.drawChooser();
    this.drawHead();
    this.shown = this.shown.slice(0, offset + PAGE);
    this.total = parts.reduce((n, p) => n + (p?.count ?? 0), 0);
    this.drawEvents();
  }

  /** What several reports answered, each in order, as one list. */
  private mergeReports(): void {
    const sign = this.sort.down ? -1 : 1,
      startOf = (spot: Spot & { report: number }): number =>
        spot.start + this.app.offsets[spot.report],
      by: Record<Column, (a: Shown, b: Shown) => number> = {
        start: (a, b) => startOf(a) - startOf(b),
        duration: (a, b) => a.end - a.start - b.end + b.start,
        name: (a, b) => (a.name < b.name ? -1 : Number(a.name > b.name)),
        row: (a, b) => a.report - b.report,
      };
    this.shown.sort(
      (a, b) =>
        (this.sort.key.startsWith(".")
          ? this.compareValues(a, b)
          : sign * by[this.sort.key as Column](a, b)) ||
        (this.sort.key === "row" ? 0 : startOf(a) - startOf(b)),
    );
  }

  /** By the column that is sorted by. */
  private compareValues(a: Shown, b: Shown): number {
    const at = this.columns.indexOf(this.sort.key.slice(1));
    return compareCells(a.values?.[at], b.values?.[at], this.sort.down);
  }

  /** Which rows these are events of, where they were chosen, and a way back to all. */
  private sayOnly(): void {
    const rows = !this.lanes.length
        ? []
        : [
            this.lanes.length === 1
              ? this.app.placeOf(this.lanes[0].report, this.lanes[0].lane)
              : t("n_rows", formatCount(this.lanes.length)),
          ],
      names =
        this.exact === null ? [] : [t("only_named", cleanText(this.exact, 60) || t("unnamed"))],
      [from, to] = (this.slice ?? []).map(formatDuration),
      lasting = this.slice ? [t("only_lasting", from, to)] : [];
    this.only.hidden = !rows.length && !names.length && !lasting.length;
    fillElement(
      this.only,
      h("bdi", null, [...rows, ...names, ...lasting].join(" · ")),
      " ",
      h(
        "button",
        { onclick: () => (this.chooseEvents([]), void this.loadEvents()) },
        t("of_all_rows"),
      ),
    );
  }

  private drawEvents(): void {
    const where = this.app.range ? t("selection") : t("window"),
      cut = this.shown.length < this.total,
      first = cut ? ` · ${t("first_of", formatCount(this.shown.length))}` : "";
    this.what.textContent = ` ${t("events_of", formatCount(this.total), where)}${first} `;
    this.sayOnly();
    this.more.hidden = this.shown.length >= this.total || this.shown.length >= 800;
    const selected = this.app.selected,
      many = this.app.reports.length > 1;
    fillElement(
      this.table,
      this.shown.map((spot, i) => {
        const on =
          selected &&
          selected.report === spot.report &&
          selected.spot.lane === spot.lane &&
          selected.spot.level === spot.level &&
          selected.spot.event === spot.event;
        return h(
          "tr",
          {
            tabindex: on || i === 0 ? 0 : -1, // arrows go on from there
            class: on ? "on" : "",
            onclick: (event: MouseEvent) =>
              // rows are made anew by the first click: no dblclick
              event.detail === 2 ? this.app.zoomToEvent() : this.goTo(spot),
            onkeydown: (moved: KeyboardEvent) => {
              if (moved.key === "Enter") this.goTo(spot);
              else if (moved.key === "ArrowDown")
                (
                  (moved.currentTarget as HTMLElement).nextElementSibling as HTMLElement | null
                )?.focus();
              else if (moved.key === "ArrowUp")
                (
                  (moved.currentTarget as HTMLElement).previousElementSibling as HTMLElement | null
                )?.focus();
              else return;
              moved.preventDefault();
              moved.stopPropagation();
            },
          },
          h("td", { class: "n" }, formatMoment(spot.start)),
          h(
            "td",
            { class: "n" },
            spot.flags & 0x80
              ? t("moment")
              : spot.flags & 0x40
                ? t("never_ended")
                : formatDuration(spot.end - spot.start),
          ),
          h("td", { class: "wide" }, h("bdi", null, cleanText(spot.name, 300) || t("unnamed"))),
          this.columns.map((_, k) => this.valueCell(spot.values?.[k])),
          h("td", null, h("bdi", null, this.app.placeOf(spot.report, spot.lane))),
          many ? h("td", null, h("bdi", null, this.reportName(spot))) : null,
        );
      }),
    );
  }

  /** Numbers stand at the right; what the event's table lacks is empty. */
  private valueCell(c: NonNullable<Shown["values"]>[number] | undefined): HTMLElement {
    if (!c || c.name === undefined) return h("td");
    const text = cleanText(showColumn(c as DetailColumn), 300);
    return h("td", { class: c.text === undefined ? "n" : "" }, h("bdi", null, text));
  }

  private goTo(spot: Spot & { report: number }): void {
    this.app.select(spot.report, spot, true);
    this.drawEvents();
  }

  private reportName(spot: Shown): string {
    return cleanText(this.app.reports[spot.report].name, 60);
  }

  private makeCsv(save: boolean): void {
    const many = this.app.reports.length > 1,
      rows = this.shown.map((spot) => [
        spot.start,
        spot.end - spot.start,
        cleanText(spot.name),
        ...this.columns.map((_, k) => {
          const cell = spot.values?.[k];
          return cleanText(String(cell?.text ?? cell?.value ?? ""));
        }),
        this.app.placeOf(spot.report, spot.lane),
        ...(many ? [this.reportName(spot)] : []),
      ]),
      report = many ? ["report"] : [],
      head = ["start_ns", "duration_ns", "name", ...this.columns, "row", ...report];
    if (save) saveCsv("events.csv", head, rows);
    else copyCsv(head, rows);
  }

  /** All events that the table is about, not only those that are shown, as queries. */
  private makeSql(): void {
    void copySql(
      this.app,
      this.listReports().map(({ r: report, lanes }) => {
        const { t0, t1 } = windowOf(this.app, report);
        return { r: report, lanes, t0, t1, ...this.askFilter() };
      }),
    );
  }
}
