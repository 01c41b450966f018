/** Two reports, or two windows of one, side by side: what ran more or less often, longer or shorter. */

import type { App } from "../app";
import { windowOf, type Panel } from "./panels";
import { copyText, fill, h } from "../dom";
import { clean, count, duration } from "../format";
import { has, t } from "../i18n";
import { toast } from "../menu";

type Figures = [count: number, total: number, min: number, max: number];
interface Pair {
  kind: string;
  name: string;
  a: Figures;
  b: Figures;
}
interface Diff {
  pairs: Pair[];
  left_out: number;
}
interface Side {
  report: number;
  window: [number, number] | null; // of the report's own times; null: all of it
}

const mean = (f: Figures): number => (f[0] ? f[1] / f[0] : 0);
/** How much larger the second is; what is only there is larger than anything. */
const ratio = (a: number, b: number): number => (a ? b / a : b ? Infinity : 1);

const COLUMNS = {
  count_a: (p: Pair) => p.a[0],
  count_b: (p: Pair) => p.b[0],
  total_a: (p: Pair) => p.a[1],
  total_b: (p: Pair) => p.b[1],
  mean_a: (p: Pair) => mean(p.a),
  mean_b: (p: Pair) => mean(p.b),
  difference: (p: Pair) => p.b[1] - p.a[1],
  ratio: (p: Pair) => ratio(p.a[1], p.b[1]),
} satisfies Record<string, (p: Pair) => number>;
type Key = keyof typeof COLUMNS;

export class Compare implements Panel {
  readonly root = h("div", { class: "statistics compare" });
  private sides: [Side, Side] = [
    { report: 0, window: null },
    { report: 1, window: null },
  ];
  private diff: Diff = { pairs: [], left_out: 0 };
  private kind = "";
  private key: Key | "change" = "change";
  private down = true;
  private turn = 0;

  constructor(private app: App) {}

  there(): boolean {
    return this.app.reports.length > 1;
  }

  update(): void {
    void this.load();
  }

  private async load(): Promise<void> {
    const turn = ++this.turn,
      [a, b] = this.sides;
    for (const s of this.sides) if (s.report >= this.app.reports.length) s.report = 0;
    const diff = await this.app.ask<Diff>("diff", { a: a.report, b: b.report, t0: a.window?.[0], t1: a.window?.[1], u0: b.window?.[0], u1: b.window?.[1] });
    if (!diff || turn !== this.turn) return;
    this.diff = diff;
    this.draw();
  }

  /* ---- what is compared ---- */

  private side(i: 0 | 1): HTMLElement {
    const s = this.sides[i],
      letter = "AB"[i];
    const choose = h(
      "select",
      { "aria-label": `${t("report")} ${letter}` },
      this.app.reports.map((r) => h("option", { value: String(r.id) }, clean(r.name, 60))),
    ) as HTMLSelectElement;
    choose.value = String(s.report);
    choose.addEventListener("change", () => {
      s.report = Number(choose.value);
      s.window = null;
      this.update();
    });
    const set = (w: [number, number] | null): void => {
      s.window = w;
      this.update();
    };
    const here = (): [number, number] => {
      const { t0, t1 } = windowOf(this.app, s.report);
      return [t0, t1];
    };
    return h(
      "span",
      { class: "side" },
      h("b", null, letter),
      " ",
      choose,
      " ",
      h("button", { class: s.window ? "" : "on", onclick: () => set(null) }, t("whole")),
      h("button", { class: s.window ? "on" : "", title: t("compare_hint"), onclick: () => set(here()) }, s.window ? `${duration(s.window[0])} + ${duration(s.window[1] - s.window[0])}` : t(this.app.range ? "selection" : "window")),
    );
  }

  private word(kind: string): string {
    return kind === "projected" ? t("nvtx_gpu") : kind === "cpu" ? t("cores") : has(kind) ? t(kind) : kind;
  }

  /* ---- the table ---- */

  private sorted(): Pair[] {
    const value = this.key === "change" ? (p: Pair) => Math.abs(COLUMNS.difference(p)) : COLUMNS[this.key];
    return this.diff.pairs
      .filter((p) => p.kind === this.kind)
      .sort((x, y) => {
        const a = value(x),
          b = value(y);
        return (a === b ? 0 : a > b ? -1 : 1) * (this.down ? 1 : -1);
      });
  }

  private draw(): void {
    const kinds = [...new Set(this.diff.pairs.map((p) => p.kind))];
    if (!kinds.includes(this.kind)) this.kind = kinds.includes("kernels") ? "kernels" : (kinds[0] ?? "");
    const pairs = this.sorted();
    fill(
      this.root,
      h("p", { class: "actions" }, this.side(0), this.side(1)),
      h(
        "p",
        { class: "actions" },
        kinds.map((k) =>
          h(
            "button",
            {
              class: k === this.kind ? "on" : "",
              onclick: () => {
                this.kind = k;
                this.draw();
              },
            },
            this.word(k),
          ),
        ),
        h("button", { onclick: () => this.copy(pairs) }, t("copy_csv")),
      ),
      pairs.length ? this.table(pairs) : h("p", { class: "quiet" }, t("no_matches")),
      this.diff.left_out ? h("p", { class: "quiet" }, `+ ${count(this.diff.left_out)}`) : null,
    );
  }

  private header(key: Key, text: string): HTMLElement {
    const on = this.key === key;
    return h(
      "th",
      { scope: "col", "aria-sort": on ? (this.down ? "descending" : "ascending") : undefined },
      h(
        "button",
        {
          onclick: () => {
            this.down = on ? !this.down : true;
            this.key = key;
            this.draw();
          },
        },
        `${text}${on ? (this.down ? " ▾" : " ▴") : ""}`,
      ),
    );
  }

  private table(pairs: Pair[]): HTMLElement {
    const most = Math.max(1, ...pairs.map((p) => Math.abs(COLUMNS.difference(p))));
    const words: [Key, string][] = [
      ["count_a", `${t("count")} A`],
      ["count_b", "B"],
      ["total_a", `${t("total")} A`],
      ["total_b", "B"],
      ["mean_a", `${t("average")} A`],
      ["mean_b", "B"],
      ["difference", t("difference")],
      ["ratio", "B ÷ A"],
    ];
    return h(
      "table",
      { class: "grid" },
      h("thead", null, h("tr", null, words.map(([k, w]) => this.header(k, w)), h("th", { scope: "col" }, t("name")))),
      h(
        "tbody",
        null,
        pairs.slice(0, 500).map((p) => {
          const d = COLUMNS.difference(p),
            r = COLUMNS.ratio(p);
          const time = (f: Figures, v: number): HTMLElement => h("td", { class: "n" }, f[0] ? duration(v) : "");
          return h(
            "tr",
            null,
            h("td", { class: "n" }, p.a[0] ? count(p.a[0]) : ""),
            h("td", { class: "n" }, p.b[0] ? count(p.b[0]) : ""),
            time(p.a, p.a[1]),
            time(p.b, p.b[1]),
            time(p.a, mean(p.a)),
            time(p.b, mean(p.b)),
            h("td", { class: "n bar", style: { backgroundSize: `${(Math.abs(d) / most) * 100}% 100%` } }, `${d > 0 ? "+" : d < 0 ? "−" : ""}${duration(Math.abs(d))}`),
            h("td", { class: "n" }, r === Infinity ? t("only_b") : r === 0 ? t("only_a") : r.toFixed(r < 10 ? 2 : 0)),
            h("td", { class: "wide" }, h("bdi", null, clean(p.name, 300) || t("unnamed"))),
          );
        }),
      ),
    );
  }

  private copy(pairs: Pair[]): void {
    const cell = (v: string | number): string => (typeof v === "number" ? String(v) : `"${v.replace(/"/g, '""')}"`);
    const rows = pairs.map((p) => [p.kind, clean(p.name), p.a[0], p.b[0], p.a[1], p.b[1], COLUMNS.difference(p)].map(cell).join(","));
    void copyText(["kind,name,count_a,count_b,total_a_ns,total_b_ns,difference_ns", ...rows].join("\n")).then(() => toast(t("copied")));
  }
}
