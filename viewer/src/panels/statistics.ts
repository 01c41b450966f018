/** What the window or the selection is made of: sums by name and kind, and how busy rows are. */

import { LANES } from "generated/constants";
import type { App } from "../app";
import type { Group, KindSum, Params, Sum } from "../data";
import { windowOf, type LaneRef, type Panel, type Panels } from "./panels";
import { copyCsv, copySql } from "../copy";
import { fill, h, later, released } from "../dom";
import { clean, count, duration, percent } from "../format";
import { has, t } from "../i18n";
import { sortHead, type Sorting } from "./grid";

const ORDER = [
  "kernels",
  "memory",
  "sync",
  "nvtx",
  "projected",
  "op",
  "cuda_api",
  "osrt",
  "slice",
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

type Key = "total" | "count" | "average" | "min" | "max" | "self" | "name";
type Mine = Group & { report: number };

const formKey = (g: Mine): string => `${g.report} ${g.kind} ${g.form}`;

const AT_FIRST = 200, // names of a kind
  MORE = 1000, // at a time
  PAGE = 50000; // names that the server tells at once

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

export class Statistics implements Panel {
  readonly root = h("div", { class: "statistics" });
  private lanes: LaneRef[] = [];
  private kind = "";
  private sorting: Sorting<Key> = { key: "total", down: true };
  private turn = 0;
  private kinds: KindSum[] = []; // what all names of each kind come to
  private groups: Mine[] = []; // the first names of each kind, or of this one
  private most = AT_FIRST; // names that are shown
  private folds = false; // there are names that differ only in numbers
  private opened = new Map<string, Mine[]>(); // names of forms that were opened, by formKey

  constructor(
    private app: App,
    private panels: Panels,
  ) {}

  there(): boolean {
    return this.app.reports.length > 0;
  }

  choose(lanes: LaneRef[]): void {
    this.lanes = lanes;
    this.kind = "";
    this.most = AT_FIRST;
  }

  update = later(120, () => void this.load());

  /** What this is about; data-of says it of what is shown. */
  private window(): string {
    return String(this.app.range ?? [this.app.view.t0, this.app.view.t1]);
  }

  /** What the server is asked about each report. */
  private questions(): Params[] {
    const reports = this.lanes.length
      ? [...new Set(this.lanes.map((l) => l.report))]
      : this.app.reports.map((r) => r.id);
    return reports.map((r) => {
      const { t0, t1 } = windowOf(this.app, r),
        mine = this.lanes.filter((l) => l.report === r).map((l) => l.lane);
      return {
        r,
        t0,
        t1,
        lanes: mine.length ? mine.join(",") : undefined,
        sort: this.sorting.key,
        down: Number(this.sorting.down),
        ...this.app.folding,
      };
    });
  }

  private async load(): Promise<void> {
    const turn = ++this.turn,
      of = this.window(),
      more = this.most > AT_FIRST,
      asked = more ? { kind: this.kind, limit: Math.min(this.most, PAGE) } : {};
    const parts = await Promise.all(
      this.questions().map(async (q) => ({
        r: Number(q.r),
        sum: await this.app.ask<Sum>("sum", { ...q, ...asked }),
      })),
    );
    await released(this.root);
    if (turn !== this.turn) return;
    this.kinds = addKinds(parts.map((p) => p.sum));
    this.folds = parts.some((p) => p.sum?.folds === 1);
    this.groups = parts.flatMap((p) => (p.sum?.groups ?? []).map((g) => ({ ...g, report: p.r })));
    for (const g of this.groups)
      if (this.opened.has(formKey(g))) await this.openForm(g).catch(() => undefined);
    if (turn !== this.turn) return;
    this.draw();
    this.root.dataset.of = of;
  }

  /** Read the names of a form. */
  private async openForm(g: Mine): Promise<void> {
    const of = this.questions().find((q) => q.r === g.report),
      part = { kind: g.kind, form: g.form, fold: 0, limit: MORE },
      sum = await this.app.ask<Sum>("sum", { ...of, ...part });
    const names = (sum?.groups ?? []).map((x) => ({ ...x, report: g.report }));
    this.opened.set(formKey(g), names);
  }

  private async toggleForm(g: Mine): Promise<void> {
    if (!this.opened.delete(formKey(g))) await this.openForm(g);
    this.draw();
  }

  private names(): string[] {
    const there = new Set(this.kinds.map((k) => k.kind));
    return [...ORDER.filter((k) => there.has(k)), ...[...there].filter((k) => !ORDER.includes(k))];
  }

  private word(kind: string): string {
    return kind === "projected"
      ? t("nvtx_gpu")
      : kind === "cpu"
        ? t("cores")
        : has(kind)
          ? t(kind, "").trim()
          : kind;
  }

  private order(a: Mine, b: Mine): number {
    const { key, down } = this.sorting,
      value = (g: Mine): number =>
        key === "average" ? g.total / g.count : (g[key as "total"] ?? 0),
      less =
        key === "name" ? (a.name < b.name ? -1 : Number(a.name > b.name)) : value(a) - value(b);
    return (down ? -less : less) || b.total - a.total;
  }

  /** Another kind, another order, or more names: from what is here where that is all there is. */
  private again(): void {
    const { names } = this.kinds.find((k) => k.kind === this.kind) ?? { names: 0 },
      here = this.groups.filter((g) => g.kind === this.kind).length;
    if (here === names) this.draw();
    else void this.load();
  }

  private choices(kinds: string[]): HTMLElement[] {
    return kinds.map((k) => {
      const { total, count: events } = this.kinds.find((x) => x.kind === k)!;
      return h(
        "button",
        {
          class: k === this.kind ? "on" : "",
          "aria-pressed": String(k === this.kind),
          onclick: () => {
            this.kind = k;
            this.most = AT_FIRST;
            this.again();
          },
        },
        `${this.word(k)} ${total ? duration(total) : count(events)}`,
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
    const all = (): void => {
      this.lanes = [];
      this.update();
    };
    return h("button", { onclick: all }, t("show_all_rows"));
  }

  /** How many of the names are shown, and the rest. */
  private rest(shown: number, names: number): HTMLElement | null {
    if (shown >= names) return null;
    const more = (): void => {
      this.most += MORE;
      void this.load();
    };
    return h(
      "p",
      { class: "actions rest" },
      h("span", { class: "quiet" }, t("n_of_names", count(shown), count(names))),
      shown < PAGE ? h("button", { onclick: more }, t("more")) : null,
    );
  }

  private draw(): void {
    const kinds = this.names();
    if (!kinds.includes(this.kind)) this.kind = kinds[0] ?? "";
    const of = this.kinds.find((k) => k.kind === this.kind) ?? { total: 0, names: 0 },
      mine = this.groups
        .filter((g) => g.kind === this.kind)
        .sort((a, b) => this.order(a, b))
        .slice(0, this.most);
    const span = this.app.range
      ? this.app.range[1] - this.app.range[0]
      : this.app.view.t1 - this.app.view.t0;
    fill(
      this.root,
      h(
        "p",
        { class: "actions" },
        h("b", null, `${this.app.range ? t("selection") : t("window")}: ${duration(span)}`),
        this.choices(kinds),
        this.lanes.length ? this.allRows() : null,
        this.folds ? this.foldButton() : null,
        mine.length ? h("button", { onclick: () => void this.copy() }, t("copy_csv")) : null,
        this.app.limit || !mine.length
          ? null
          : h("button", { onclick: () => this.sql() }, t("copy_sql")),
      ),
      mine.length ? this.table(mine, of.total) : h("p", { class: "quiet" }, t("nothing_here")),
      this.rest(mine.length, of.names),
    );
  }

  private header(
    key: Key,
    word: "total" | "count" | "average" | "minimum" | "maximum" | "self" | "name",
  ): HTMLElement {
    return sortHead(
      this.sorting,
      key,
      t(word),
      () => this.again(),
      key !== "name" && key !== "min",
    );
  }

  private table(groups: Mine[], all: number): HTMLElement {
    const many = this.app.reports.length > 1; // each report's names are rows of their own
    return h(
      "table",
      { class: "grid" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          h("th", { scope: "col" }, t("share")),
          this.header("total", "total"),
          this.header("count", "count"),
          this.header("average", "average"),
          this.header("min", "minimum"),
          this.header("max", "maximum"),
          LANES[this.kind]?.nests ? this.header("self", "self") : null,
          this.header("name", "name"),
          many ? h("th", { scope: "col" }, t("report")) : null,
        ),
      ),
      h(
        "tbody",
        null,
        groups.flatMap((g) => [this.row(g, all, many), ...this.namesBelow(g, all, many)]),
      ),
    );
  }

  /** The names of a form that was opened. */
  private namesBelow(g: Mine, all: number, many: boolean): HTMLElement[] {
    const names = g.form === undefined ? undefined : this.opened.get(formKey(g));
    if (!names) return [];
    const rows = names.map((x) => this.row(x, all, many, true)),
      left = (g.names ?? 0) - names.length;
    if (left > 0) {
      const text = t("n_of_names", count(names.length), count(g.names ?? 0));
      rows.push(h("tr", { class: "below" }, h("td", { colspan: 9 }, text)));
    }
    return rows;
  }

  /** What opens a form, and how many names it stands for. */
  private opener(g: Mine): HTMLElement {
    const open = this.opened.has(formKey(g));
    return h(
      "button",
      {
        class: "link open",
        "aria-expanded": String(open),
        title: t(open ? "close_form" : "open_form"),
        onclick: (e: Event) => {
          e.stopPropagation();
          void this.toggleForm(g);
        },
      },
      `${open ? "▾" : "▸"} ${t("n_names", count(g.names ?? 0))}`,
    );
  }

  private onKey(k: KeyboardEvent, g: Mine): void {
    const row = k.currentTarget as HTMLElement,
      to = { ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling }[k.key];
    if (k.target !== row || (k.key !== "Enter" && to === undefined)) return;
    if (k.key === "Enter") this.open(g);
    else (to as HTMLElement | null)?.focus();
    k.preventDefault();
    k.stopPropagation();
  }

  private longestButton(g: Mine): HTMLElement {
    const go = (e: Event): void => {
      e.stopPropagation();
      void this.longest(g);
    };
    return h("button", { class: "link", title: t("jump"), onclick: go }, duration(g.max));
  }

  /** The average, which leads to how durations are spread; moments have none. */
  private averageButton(g: Mine): HTMLElement | string {
    const average = duration(g.total / g.count);
    if (this.app.limit || LANES[g.kind]?.moments) return average;
    const go = (e: Event): void => {
      e.stopPropagation();
      this.panels.showDurations(this.panels.lanesOf(g.report, g.kind), g.name, g.form);
    };
    return h("button", { class: "link spread", title: t("durations_title"), onclick: go }, average);
  }

  private row(g: Mine, all: number, many: boolean, below = false): HTMLElement {
    const share = all ? g.total / all : 0;
    return h(
      "tr",
      {
        tabindex: 0,
        class: below ? "below" : "",
        title: t("show_in_events"),
        onclick: () => this.open(g),
        onkeydown: (k: KeyboardEvent) => this.onKey(k, g),
      },
      h(
        "td",
        { class: "n bar", style: { backgroundSize: `${share * 100}% 100%` } },
        all ? percent(share) : "",
      ),
      [
        duration(g.total),
        count(g.count),
        this.averageButton(g),
        duration(g.min),
        this.longestButton(g),
      ].map((v) => h("td", { class: "n" }, v)),
      LANES[this.kind]?.nests ? h("td", { class: "n" }, duration(g.self ?? g.total)) : null,
      h(
        "td",
        { class: "wide" },
        h("bdi", null, clean(g.name, 300) || t("unnamed")),
        g.form === undefined ? null : [" ", this.opener(g)],
      ),
      many ? h("td", null, h("bdi", null, clean(this.app.reports[g.report].name, 60))) : null,
    );
  }

  private async longest(g: Mine): Promise<void> {
    const [lane, level, event] = g.longest;
    const spot = await this.app.ask<import("../data").EventDetail>("event", {
      r: g.report,
      lane,
      level,
      event,
    });
    if (spot) this.app.select(g.report, spot, true);
  }

  private open(g: Mine): void {
    this.panels.showEvents(this.panels.lanesOf(g.report, g.kind), g.name, g.form);
  }

  /** All names of the kind, whether they are shown or not. */
  private async everyName(): Promise<Mine[]> {
    const all: Mine[] = [];
    for (const q of this.questions())
      for (let offset = 0; ; offset += PAGE) {
        const part = { ...q, kind: this.kind, offset, limit: PAGE },
          sum = await this.app.ask<Sum>("sum", part);
        all.push(...(sum?.groups ?? []).map((g) => ({ ...g, report: Number(q.r) })));
        if ((sum?.groups.length ?? 0) < PAGE) break;
      }
    return all.sort((a, b) => this.order(a, b));
  }

  private async copy(): Promise<void> {
    copyCsv(
      ["kind", "name", "count", "total_ns", "min_ns", "max_ns", "self_ns", "report"],
      (await this.everyName()).map((g) => [
        g.kind,
        clean(g.name),
        g.count,
        g.total,
        g.min,
        g.max,
        g.self ?? "",
        clean(this.app.reports[g.report].name),
      ]),
    );
  }

  /** The sums that are shown, as queries. */
  private sql(): void {
    const mine = (
      this.lanes.length
        ? this.lanes
        : [...this.app.rows.byLane.values()].map((r) => ({
            report: r.report,
            lane: r.lane!,
          }))
    ).filter((l) => this.app.laneRow(l.report, l.lane)?.type === this.kind);
    void copySql(
      this.app,
      [...new Set(mine.map((l) => l.report))].map((r) => {
        const { t0, t1 } = windowOf(this.app, r);
        const lanes = mine.filter((l) => l.report === r).map((l) => l.lane);
        return { r, lanes: lanes.join(","), t0, t1, sums: 1 };
      }),
    );
  }
}
