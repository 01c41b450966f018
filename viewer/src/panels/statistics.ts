/** What the window or the selection is made of: sums by name and kind, and how busy rows are. */

import type { App } from "../app";
import type { Group, Sum } from "../data";
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

type Key = "total" | "count" | "average" | "min" | "max" | "name";

export class Statistics implements Panel {
  readonly root = h("div", { class: "statistics" });
  private lanes: LaneRef[] = [];
  private kind = "";
  private sorting: Sorting<Key> = { key: "total", down: true };
  private turn = 0;
  private groups: (Group & { report: number })[] = [];
  private leftOut = 0;

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
  }

  update = later(120, () => void this.load());

  /** What this is about; data-of says it of what is shown. */
  private window(): string {
    return String(this.app.range ?? [this.app.view.t0, this.app.view.t1]);
  }

  private async load(): Promise<void> {
    const turn = ++this.turn;
    const of = this.window();
    const reports = this.lanes.length
      ? [...new Set(this.lanes.map((l) => l.report))]
      : this.app.reports.map((r) => r.id);
    const parts = await Promise.all(
      reports.map(async (r) => {
        const { t0, t1 } = windowOf(this.app, r);
        const lanes = this.lanes.length
          ? this.lanes
              .filter((l) => l.report === r)
              .map((l) => l.lane)
              .join(",")
          : undefined;
        return { r, sum: await this.app.ask<Sum>("sum", { r, t0, t1, lanes }) };
      }),
    );
    await released(this.root);
    if (turn !== this.turn) return;
    this.groups = parts.flatMap((p) => (p.sum?.groups ?? []).map((g) => ({ ...g, report: p.r })));
    this.leftOut = parts.reduce((n, p) => n + (p.sum?.left_out ?? 0), 0);
    this.draw();
    this.root.dataset.of = of;
  }

  private kinds(): string[] {
    const there = new Set(this.groups.map((g) => g.kind));
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

  private draw(): void {
    const kinds = this.kinds();
    if (!kinds.includes(this.kind)) this.kind = kinds[0] ?? "";
    const mine = this.groups.filter((g) => g.kind === this.kind);
    const all = mine.reduce((n, g) => n + g.total, 0);
    const { key, down } = this.sorting;
    const order = (a: Group, b: Group): number =>
      key === "name"
        ? a.name < b.name
          ? 1
          : a.name > b.name
            ? -1
            : 0
        : key === "average"
          ? b.total / b.count - a.total / a.count
          : b[key] - a[key];
    mine.sort((a, b) => order(a, b) * (down ? 1 : -1));
    const span = this.app.range
      ? this.app.range[1] - this.app.range[0]
      : this.app.view.t1 - this.app.view.t0;
    fill(
      this.root,
      h(
        "p",
        { class: "actions" },
        h("b", null, `${this.app.range ? t("selection") : t("window")}: ${duration(span)}`),
        kinds.map((k) => {
          const sum = this.groups.filter((g) => g.kind === k),
            total = sum.reduce((n, g) => n + g.total, 0);
          return h(
            "button",
            {
              class: k === this.kind ? "on" : "",
              "aria-pressed": String(k === this.kind),
              onclick: () => {
                this.kind = k;
                this.draw();
              },
            },
            `${this.word(k)} ${total ? duration(total) : count(sum.reduce((n, g) => n + g.count, 0))}`,
          );
        }),
        this.lanes.length
          ? h(
              "button",
              {
                onclick: () => {
                  this.lanes = [];
                  this.update();
                },
              },
              t("show_all_rows"),
            )
          : null,
        mine.length ? h("button", { onclick: () => this.copy(mine) }, t("copy_csv")) : null,
        this.app.limit || !mine.length
          ? null
          : h("button", { onclick: () => this.sql() }, t("copy_sql")),
      ),
      mine.length ? this.table(mine, all) : h("p", { class: "quiet" }, t("nothing_here")),
      this.leftOut ? h("p", { class: "quiet" }, `+ ${count(this.leftOut)}`) : null,
    );
  }

  private header(
    key: Key,
    word: "total" | "count" | "average" | "minimum" | "maximum" | "name",
  ): HTMLElement {
    return sortHead(this.sorting, key, t(word), () => this.draw(), key !== "name" && key !== "min");
  }

  private table(groups: (Group & { report: number })[], all: number): HTMLElement {
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
          this.header("name", "name"),
          many ? h("th", { scope: "col" }, t("report")) : null,
        ),
      ),
      h(
        "tbody",
        null,
        groups.slice(0, 200).map((g) =>
          h(
            "tr",
            {
              tabindex: 0,
              title: t("show_in_events"),
              onclick: () => this.open(g),
              onkeydown: (k: KeyboardEvent) => {
                const to = {
                  ArrowDown: "nextElementSibling",
                  ArrowUp: "previousElementSibling",
                }[k.key] as "nextElementSibling" | undefined;
                if (k.target !== k.currentTarget || (k.key !== "Enter" && !to)) return;
                if (to) ((k.currentTarget as HTMLElement)[to] as HTMLElement | null)?.focus();
                else this.open(g);
                k.preventDefault();
                k.stopPropagation();
              },
            },
            h(
              "td",
              {
                class: "n bar",
                style: {
                  backgroundSize: `${all ? (g.total / all) * 100 : 0}% 100%`,
                },
              },
              all ? percent(g.total / all) : "",
            ),
            h("td", { class: "n" }, duration(g.total)),
            h("td", { class: "n" }, count(g.count)),
            h("td", { class: "n" }, duration(g.total / g.count)),
            h("td", { class: "n" }, duration(g.min)),
            h(
              "td",
              { class: "n" },
              h(
                "button",
                {
                  class: "link",
                  title: t("jump"),
                  onclick: (e: Event) => {
                    e.stopPropagation();
                    void this.longest(g);
                  },
                },
                duration(g.max),
              ),
            ),
            h("td", { class: "wide" }, h("bdi", null, clean(g.name, 300) || t("unnamed"))),
            many ? h("td", null, h("bdi", null, clean(this.app.reports[g.report].name, 60))) : null,
          ),
        ),
      ),
    );
  }

  private async longest(g: Group & { report: number }): Promise<void> {
    const [lane, level, event] = g.longest;
    const spot = await this.app.ask<import("../data").EventDetail>("event", {
      r: g.report,
      lane,
      level,
      event,
    });
    if (spot) this.app.select(g.report, spot, true);
  }

  private open(g: Group & { report: number }): void {
    const lanes = [...this.app.rows.byLane.values()]
      .filter((r) => r.report === g.report && r.type === g.kind)
      .map((r) => ({ report: r.report, lane: r.lane! }));
    this.panels.showEvents(lanes, g.name);
  }

  private copy(groups: (Group & { report: number })[]): void {
    copyCsv(
      ["kind", "name", "count", "total_ns", "min_ns", "max_ns", "report"],
      groups.map((g) => [
        g.kind,
        clean(g.name),
        g.count,
        g.total,
        g.min,
        g.max,
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
