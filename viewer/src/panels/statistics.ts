/** What the window or the selection is made of: sums by name and kind, and how busy rows are. */

import { LANES } from "generated/constants";
import type { App } from "../app";
import type { Group, KindSum, Params, Sum } from "../data";
import { windowOf, type LaneRef, type Panel, type Panels } from "./panels";
import { copyCsv, copySql } from "../copy";
import { fillElement, h, delayCalls, waitForRelease } from "../dom";
import { cleanText, formatCount, formatDuration, formatPercent } from "../format";
import { hasWord, t } from "../i18n";
import { readLanes, writeLanes, type Link, type Linked, type LinkPairs } from "../link";
import { alignNumbers, sortHead, type Sorting } from "./grid";

const ORDER = [
  "kernels",
  "memory",
  "sync",
  "nvtx",
  "projected",
  "op",
  "cuda_api",
  "osrt",
  "syscall",
  "slice",
  "openmp",
  "openacc",
  "track",
  "collective",
  "state",
  "cpu",
  "sample",
  "python",
  "gil",
  "cuda_other",
  "um",
];

/** Kinds in the order in which panels list them. */
export function orderKinds(kinds: string[]): string[] {
  const there = [...new Set(kinds)];
  return [
    ...ORDER.filter((kind) => there.includes(kind)),
    ...there.filter((kind) => !ORDER.includes(kind)),
  ];
}

type Key = "total" | "count" | "average" | "min" | "max" | "self" | "name";
type Mine = Group & { report: number };

const formKey = (group: Mine): string => `${group.report} ${group.kind} ${group.form}`;

const AT_FIRST = 200, // names of a kind
  MORE = 1000, // at a time
  PAGE = 50000; // names that the server sends at once

/** Figures of one kind from several reports, added up. */
function addKinds(parts: (Sum | undefined)[]): KindSum[] {
  const all = new Map<string, KindSum>();
  for (const k of parts.flatMap((p) => p?.kinds ?? [])) {
    const sum = all.get(k.kind);
    if (!sum) all.set(k.kind, { ...k });
    else {
      sum.names += k.names;
      sum.count += k.count;
      sum.total += k.total;
    }
  }
  return [...all.values()];
}

const KEYS = ["total", "count", "average", "min", "max", "self", "name"];

export class Statistics implements Panel, Linked {
  readonly root = h("div", { class: "statistics" });
  private lanes: LaneRef[] = [];
  private kind = "";
  private choseKind = false; // the user did
  private linkedKind = ""; // of the link that was opened, until there is something of it
  private sorting: Sorting<Key> = { key: "total", down: true };
  private countSorting: Sorting<Key> = { key: "count", down: true }; // of kinds without durations
  private turn = 0;
  private kinds: KindSum[] = []; // totals over all names of each kind
  private groups: Mine[] = []; // the first names of each kind, or of this one
  private most = AT_FIRST; // names that are shown
  private folds = false; // there are names that differ only in numbers
  private opened = new Map<string, Mine[]>(); // names of forms that were opened, by formKey

  constructor(
    private app: App,
    private panels: Panels,
  ) {
    app.linkedParts.push(this);
  }

  writeLink(): LinkPairs {
    const { key, down } = this.sorting,
      kind = this.linkedKind || (this.choseKind ? this.kind : ""),
      pairs: LinkPairs = [];
    if (kind) pairs.push(["sk", kind]);
    if (key !== "total" || !down) pairs.push(["so", `${down ? "-" : ""}${key}`]);
    if (this.lanes.length) pairs.push(["sl", writeLanes(this.lanes)]);
    return pairs;
  }

  readLink(link: Link): void {
    const order = link.get("so") ?? "",
      key = order.replace(/^-/, "");
    this.linkedKind = link.get("sk") ?? "";
    this.choseKind = this.linkedKind !== "";
    if (KEYS.includes(key)) this.sorting = { key: key as Key, down: order.startsWith("-") };
    this.lanes = readLanes(
      link.get("sl") ?? "",
      ({ report, lane }) => this.app.laneRow(report, lane) !== undefined,
    );
  }

  hasContent(): boolean {
    return this.app.reports.length > 0;
  }

  chooseRows(lanes: LaneRef[]): void {
    this.lanes = lanes;
    this.kind = this.linkedKind = "";
    this.choseKind = false;
    this.most = AT_FIRST;
  }

  updatePanel = delayCalls(120, () => void this.loadSums());

  /** What this is about; data-of holds the same for what is shown. */
  private describeWindow(): string {
    return String(this.app.range ?? [this.app.view.t0, this.app.view.t1]);
  }

  /** What the server is asked about each report. */
  private listQuestions(): Params[] {
    const reports = this.lanes.length
      ? [...new Set(this.lanes.map((lane) => lane.report))]
      : this.app.reports.map((report) => report.id);
    return reports.map((report) => {
      const { t0, t1 } = windowOf(this.app, report),
        mine = this.lanes.filter((lane) => lane.report === report).map((ref) => ref.lane);
      return {
        r: report,
        t0,
        t1,
        lanes: mine.length ? mine.join(",") : undefined,
        sort: this.getOrder().key,
        down: Number(this.getOrder().down),
        ...this.app.folding,
      };
    });
  }

  private async loadSums(): Promise<void> {
    const turn = ++this.turn,
      of = this.describeWindow(),
      more = this.most > AT_FIRST,
      asked = more ? { kind: this.kind, limit: Math.min(this.most, PAGE) } : {};
    const parts = await Promise.all(
      this.listQuestions().map(async (params) => ({
        r: Number(params.r),
        sum: await this.app.ask<Sum>("sum", { ...params, ...asked }),
      })),
    );
    await waitForRelease(this.root);
    if (turn !== this.turn) return;
    this.kinds = addKinds(parts.map((p) => p.sum));
    this.folds = parts.some((p) => p.sum?.folds === 1);
    this.groups = parts.flatMap((p) =>
      (p.sum?.groups ?? []).map((group) => ({ ...group, report: p.r })),
    );
    for (const mine of this.groups)
      if (this.opened.has(formKey(mine))) await this.openForm(mine).catch(() => undefined);
    if (turn !== this.turn) return;
    this.drawPanel();
    this.root.dataset.of = of;
  }

  /** Read the names of a form. */
  private async openForm(group: Mine): Promise<void> {
    const of = this.listQuestions().find((params) => params.r === group.report),
      part = { kind: group.kind, form: group.form, fold: 0, limit: MORE },
      sum = await this.app.ask<Sum>("sum", { ...of, ...part });
    const names = (sum?.groups ?? []).map((x) => ({ ...x, report: group.report }));
    this.opened.set(formKey(group), names);
  }

  private async toggleForm(group: Mine): Promise<void> {
    if (!this.opened.delete(formKey(group))) await this.openForm(group);
    this.drawPanel();
  }

  private listKinds(): string[] {
    return orderKinds(this.kinds.map((sum) => sum.kind));
  }

  private nameKind(kind: string): string {
    return kind === "projected"
      ? t("nvtx_gpu")
      : kind === "cpu"
        ? t("cores")
        : hasWord(kind)
          ? t(kind, "").trim()
          : kind;
  }

  /** Moments have no durations: all that there is to say of them is how many there are. */
  private isCounted(): boolean {
    return this.kinds.find((sum) => sum.kind === this.kind)?.total === 0;
  }

  private getOrder(): Sorting<Key> {
    return this.isCounted() ? this.countSorting : this.sorting;
  }

  private compareGroups(a: Mine, b: Mine): number {
    const { key, down } = this.getOrder(),
      valueOf = (group: Mine): number =>
        key === "average" ? group.total / group.count : (group[key as "total"] ?? 0),
      less =
        key === "name" ? (a.name < b.name ? -1 : Number(a.name > b.name)) : valueOf(a) - valueOf(b);
    return (down ? -less : less) || b.total - a.total || b.count - a.count;
  }

  /** Another kind, another order, or more names: from what is here where that is all there is. */
  private drawOrLoad(): void {
    const { names } = this.kinds.find((sum) => sum.kind === this.kind) ?? { names: 0 },
      here = this.groups.filter((group) => group.kind === this.kind).length;
    if (here === names) this.drawPanel();
    else void this.loadSums();
  }

  private makeChoices(kinds: string[]): HTMLElement[] {
    return kinds.map((key) => {
      const { total, count: events } = this.kinds.find((x) => x.kind === key)!;
      return h(
        "button",
        {
          class: key === this.kind ? "on" : "",
          "aria-pressed": String(key === this.kind),
          onclick: () => {
            this.kind = key;
            this.choseKind = true;
            this.linkedKind = "";
            this.most = AT_FIRST;
            this.drawOrLoad();
          },
        },
        `${this.nameKind(key)} ${total ? formatDuration(total) : formatCount(events)}`,
      );
    });
  }

  private foldButton(): HTMLElement {
    const { fold } = this.app.settings;
    return h(
      "button",
      {
        class: fold ? "folding on" : "folding",
        "aria-pressed": String(fold),
        title: t("fold_title"),
        onclick: () => void this.app.setFolding(!fold),
      },
      t("fold"),
    );
  }

  private allRows(): HTMLElement {
    const showAll = (): void => {
      this.lanes = [];
      this.updatePanel();
    };
    return h("button", { onclick: showAll }, t("show_all_rows"));
  }

  /** How many of the names are shown, and the rest. */
  private makeRest(shown: number, names: number): HTMLElement | null {
    if (shown >= names) return null;
    const showMore = (): void => {
      this.most += MORE;
      void this.loadSums();
    };
    return h(
      "p",
      { class: "actions rest" },
      h("span", { class: "quiet" }, t("n_of_names", formatCount(shown), formatCount(names))),
      shown < PAGE ? h("button", { onclick: showMore }, t("more")) : null,
    );
  }

  private drawPanel(): void {
    const kinds = this.listKinds();
    this.app.emitEvent("link");
    if (kinds.includes(this.linkedKind)) {
      this.kind = this.linkedKind;
      this.linkedKind = "";
    }
    if (!kinds.includes(this.kind)) this.kind = kinds[0] ?? "";
    const of = this.kinds.find((sum) => sum.kind === this.kind) ?? { total: 0, count: 0, names: 0 },
      mine = this.groups
        .filter((group) => group.kind === this.kind)
        .sort((a, b) => this.compareGroups(a, b))
        .slice(0, this.most);
    const span = this.app.range
      ? this.app.range[1] - this.app.range[0]
      : this.app.view.t1 - this.app.view.t0;
    fillElement(
      this.root,
      h(
        "p",
        { class: "actions" },
        h("b", null, `${this.app.range ? t("selection") : t("window")}: ${formatDuration(span)}`),
        this.makeChoices(kinds),
        this.lanes.length ? this.allRows() : null,
        this.folds ? this.foldButton() : null,
        mine.length ? h("button", { onclick: () => void this.copyTable() }, t("copy_csv")) : null,
        this.app.limit || !mine.length
          ? null
          : h("button", { onclick: () => this.makeSql() }, t("copy_sql")),
      ),
      mine.length
        ? this.makeTable(mine, of.total || of.count)
        : h("p", { class: "quiet" }, t("nothing_here")),
      this.makeRest(mine.length, of.names),
    );
  }

  private makeHead(
    key: Key,
    word: "total" | "count" | "average" | "minimum" | "maximum" | "self" | "name",
  ): HTMLElement {
    const head = sortHead(
      this.getOrder(),
      key,
      t(word),
      () => this.drawOrLoad(),
      key !== "name" && key !== "min",
    );
    return key === "name" ? head : alignNumbers(head);
  }

  private makeHeads(many: boolean): (HTMLElement | null)[] {
    const counted = this.isCounted();
    return [
      alignNumbers(h("th", { scope: "col" }, t("share"))),
      counted ? null : this.makeHead("total", "total"),
      this.makeHead("count", "count"),
      counted ? null : this.makeHead("average", "average"),
      counted ? null : this.makeHead("min", "minimum"),
      counted ? null : this.makeHead("max", "maximum"),
      LANES[this.kind]?.nests ? this.makeHead("self", "self") : null,
      this.makeHead("name", "name"),
      many ? h("th", { scope: "col" }, t("report")) : null,
    ];
  }

  /** `all`: what shares are of. */
  private makeTable(groups: Mine[], all: number): HTMLElement {
    const many = this.app.reports.length > 1; // each report's names are rows of their own
    return h(
      "table",
      { class: "grid" },
      h("thead", null, h("tr", null, this.makeHeads(many))),
      h(
        "tbody",
        null,
        groups.flatMap((group) => [
          this.makeRow(group, all, many),
          ...this.namesBelow(group, all, many),
        ]),
      ),
    );
  }

  /** The names of a form that was opened. */
  private namesBelow(group: Mine, all: number, many: boolean): HTMLElement[] {
    const names = group.form === undefined ? undefined : this.opened.get(formKey(group));
    if (!names) return [];
    const rows = names.map((x) => this.makeRow(x, all, many, true)),
      left = (group.names ?? 0) - names.length;
    if (left > 0) {
      const text = t("n_of_names", formatCount(names.length), formatCount(group.names ?? 0));
      rows.push(h("tr", { class: "below" }, h("td", { colspan: 9 }, text)));
    }
    return rows;
  }

  /** What opens a form, and how many names it stands for. */
  private makeOpener(group: Mine): HTMLElement {
    const open = this.opened.has(formKey(group));
    return h(
      "button",
      {
        class: "link open",
        "aria-expanded": String(open),
        title: t(open ? "close_form" : "open_form"),
        onclick: (event: Event) => {
          event.stopPropagation();
          void this.toggleForm(group);
        },
      },
      `${open ? "▾" : "▸"} ${t("n_names", formatCount(group.names ?? 0))}`,
    );
  }

  private onKey(event: KeyboardEvent, group: Mine): void {
    const row = event.currentTarget as HTMLElement,
      to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[event.key];
    if (event.target !== row || (event.key !== "Enter" && to === undefined)) return;
    if (event.key === "Enter") this.openGroup(group);
    else (to as HTMLElement | null)?.focus();
    event.preventDefault();
    event.stopPropagation();
  }

  private longestButton(group: Mine): HTMLElement {
    const goThere = (event: Event): void => {
      event.stopPropagation();
      void this.goToLongest(group);
    };
    return h(
      "button",
      { class: "link", title: t("jump"), onclick: goThere },
      formatDuration(group.max),
    );
  }

  /** The average, which leads to how durations are spread; moments have none. */
  private averageButton(group: Mine): HTMLElement | string {
    const average = formatDuration(group.total / group.count);
    if (LANES[group.kind]?.moments) return average;
    const goThere = (event: Event): void => {
      event.stopPropagation();
      this.panels.showDurations(
        this.panels.lanesOf(group.report, group.kind),
        group.name,
        group.form,
      );
    };
    return h(
      "button",
      { class: "link spread", title: t("durations_title"), onclick: goThere },
      average,
    );
  }

  private makeRow(group: Mine, all: number, many: boolean, below = false): HTMLElement {
    const counted = this.isCounted(),
      share = all ? (counted ? group.count : group.total) / all : 0,
      figures = counted
        ? [formatCount(group.count)]
        : [
            formatDuration(group.total),
            formatCount(group.count),
            this.averageButton(group),
            formatDuration(group.min),
            this.longestButton(group),
          ];
    return h(
      "tr",
      {
        tabindex: 0,
        class: below ? "below" : "",
        title: t("show_in_events"),
        onclick: () => this.openGroup(group),
        onkeydown: (event: KeyboardEvent) => this.onKey(event, group),
      },
      h(
        "td",
        { class: "n bar", style: { backgroundSize: `${share * 100}% 100%` } },
        all ? formatPercent(share) : "",
      ),
      figures.map((value) => h("td", { class: "n" }, value)),
      LANES[this.kind]?.nests
        ? h("td", { class: "n" }, formatDuration(group.self ?? group.total))
        : null,
      h(
        "td",
        { class: "wide" },
        h("bdi", null, cleanText(group.name, 300) || t("unnamed")),
        group.form === undefined ? null : [" ", this.makeOpener(group)],
      ),
      many
        ? h("td", null, h("bdi", null, cleanText(this.app.reports[group.report].name, 60)))
        : null,
    );
  }

  private async goToLongest(group: Mine): Promise<void> {
    const [lane, level, event] = group.longest;
    const spot = await this.app.ask<import("../data").EventDetail>("event", {
      r: group.report,
      lane,
      level,
      event,
    });
    if (spot) this.app.select(group.report, spot, true);
  }

  private openGroup(group: Mine): void {
    this.panels.showEvents(this.panels.lanesOf(group.report, group.kind), group.name, group.form);
  }

  /** All names of the kind, whether they are shown or not. */
  private async everyName(): Promise<Mine[]> {
    const all: Mine[] = [];
    for (const params of this.listQuestions())
      for (let offset = 0; ; offset += PAGE) {
        const part = { ...params, kind: this.kind, offset, limit: PAGE },
          sum = await this.app.ask<Sum>("sum", part);
        all.push(...(sum?.groups ?? []).map((group) => ({ ...group, report: Number(params.r) })));
        if ((sum?.groups.length ?? 0) < PAGE) break;
      }
    return all.sort((a, b) => this.compareGroups(a, b));
  }

  private async copyTable(): Promise<void> {
    copyCsv(
      ["kind", "name", "count", "total_ns", "min_ns", "max_ns", "self_ns", "report"],
      (await this.everyName()).map((group) => [
        group.kind,
        cleanText(group.name),
        group.count,
        group.total,
        group.min,
        group.max,
        group.self ?? "",
        cleanText(this.app.reports[group.report].name),
      ]),
    );
  }

  /** The sums that are shown, as queries. */
  private makeSql(): void {
    const mine = (
      this.lanes.length
        ? this.lanes
        : [...this.app.rows.byLane.values()].map((row) => ({
            report: row.report,
            lane: row.lane!,
          }))
    ).filter((ref) => this.app.laneRow(ref.report, ref.lane)?.type === this.kind);
    void copySql(
      this.app,
      [...new Set(mine.map((lane) => lane.report))].map((report) => {
        const { t0, t1 } = windowOf(this.app, report);
        const lanes = mine.filter((lane) => lane.report === report).map((ref) => ref.lane);
        return { r: report, lanes: lanes.join(","), t0, t1, sums: 1 };
      }),
    );
  }
}
