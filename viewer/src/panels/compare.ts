/**
 * Two reports, or two windows of one, side by side: what ran more or less often, longer or shorter.
 */

import type { App } from "../app";
import type { Flame } from "../data";
import { windowOf, type Panel } from "./panels";
import { copyCsv } from "../copy";
import { fill, h, released } from "../dom";
import { clean, count, duration } from "../format";
import { has, t } from "../i18n";
import { FlameDiff } from "./flamediff";
import { KINDS, kindsOf } from "./functions";
import { signed, sortHead, type Sorting } from "./grid";

type Figures = [count: number, total: number, min: number, max: number];
interface Pair {
  kind: string;
  name: string;
  a: Figures;
  b: Figures;
}
interface Diff {
  pairs: Pair[];
  names: number; // of all pairs
}
interface Side {
  report: number;
  window: [number, number] | null; // of the report's own times; null: all of it
}

const AT_FIRST = 2000, // names, those that differ most
  MOST = 50000;

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
  private diff: Diff = { pairs: [], names: 0 };
  private kind = "";
  private sorting: Sorting<Key | "change" | "name"> = { key: "change", down: true };
  private turn = 0;
  private most = AT_FIRST; // names that are compared
  private chosen = false; // which reports, by the user
  private profile = -1; // which of KINDS is compared by call stack; -1: names are
  private stacks: FlameDiff;

  constructor(private app: App) {
    this.stacks = new FlameDiff(app, () => this.update());
  }

  there(): boolean {
    return this.app.reports.length > 0 && !this.app.limit;
  }

  update(): void {
    void this.load();
  }

  private async load(): Promise<void> {
    const turn = ++this.turn,
      [a, b] = this.sides;
    if (!this.chosen) this.sides[1].report = 1;
    for (const s of this.sides) if (s.report >= this.app.reports.length) s.report = 0;
    if (!this.profiles().includes(this.profile)) this.profile = -1;
    if (this.profile >= 0) {
      const up = this.stacks.mode === "bottom_up" ? 1 : 0;
      const [x, y] = await Promise.all(
        this.sides.map((s) =>
          this.app.ask<Flame>("flame", {
            r: s.report,
            t0: s.window?.[0],
            t1: s.window?.[1],
            kind: this.profile,
            up,
            ...this.app.folding,
          }),
        ),
      );
      await released(this.root);
      if (!x || !y || turn !== this.turn) return;
      this.stacks.set(x, y);
    } else {
      const diff = await this.app.ask<Diff>("diff", {
        a: a.report,
        b: b.report,
        t0: a.window?.[0],
        t1: a.window?.[1],
        u0: b.window?.[0],
        u1: b.window?.[1],
        limit: this.most,
        ...this.app.folding,
      });
      await released(this.root);
      if (!diff || turn !== this.turn) return;
      this.diff = diff;
    }
    this.draw();
  }

  /** What both sides have call stacks of. */
  private profiles(): number[] {
    const [a, b] = this.sides.map((s) => kindsOf(this.app.reports[s.report]));
    return a.filter((k) => b.includes(k));
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
      this.chosen = true;
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
      h(
        "button",
        {
          class: s.window ? "" : "on",
          "aria-pressed": String(!s.window),
          onclick: () => set(null),
        },
        t("whole"),
      ),
      h(
        "button",
        {
          class: s.window ? "on" : "",
          "aria-pressed": String(!!s.window),
          title: t("compare_hint"),
          onclick: () => set(here()),
        },
        s.window
          ? `${duration(s.window[0])} + ${duration(s.window[1] - s.window[0])}`
          : t(this.app.range ? "selection" : "window"),
      ),
    );
  }

  private word(kind: string): string {
    return kind === "projected"
      ? t("nvtx_gpu")
      : kind === "cpu"
        ? t("cores")
        : has(kind)
          ? t(kind)
          : kind;
  }

  /* ---- the table ---- */

  private sorted(): Pair[] {
    const { key, down } = this.sorting;
    if (key === "name")
      return this.diff.pairs
        .filter((p) => p.kind === this.kind)
        .sort((x, y) => (x.name < y.name ? -1 : Number(x.name > y.name)) * (down ? -1 : 1));
    const value = key === "change" ? (p: Pair) => Math.abs(COLUMNS.difference(p)) : COLUMNS[key];
    return this.diff.pairs
      .filter((p) => p.kind === this.kind)
      .sort((x, y) => {
        const a = value(x),
          b = value(y);
        return (a === b ? 0 : a > b ? -1 : 1) * (down ? 1 : -1);
      });
  }

  /** Nothing is compared with itself. */
  private same(): boolean {
    const [a, b] = this.sides;
    return a.report === b.report && String(a.window) === String(b.window);
  }

  private choice(on: boolean, word: string, choose: () => void): HTMLElement {
    return h(
      "button",
      { class: on ? "on" : "", "aria-pressed": String(on), onclick: choose },
      word,
    );
  }

  private draw(): void {
    const kinds = [...new Set(this.diff.pairs.map((p) => p.kind))];
    if (!kinds.includes(this.kind))
      this.kind = kinds.includes("kernels") ? "kernels" : (kinds[0] ?? "");
    const pairs = this.sorted(),
      names = this.profile < 0,
      profiles = this.profiles();
    fill(
      this.root,
      h(
        "p",
        { class: "actions" },
        this.side(0),
        this.side(1),
        this.same() ? h("span", { class: "warning" }, t("compare_same")) : null,
      ),
      h(
        "p",
        { class: "actions" },
        kinds.map((k) =>
          this.choice(names && k === this.kind, this.word(k), () => {
            this.kind = k;
            this.profile = -1;
            if (names) this.draw();
            else this.update();
          }),
        ),
        profiles.length ? h("span", { class: "quiet" }, t("by_functions")) : null,
        profiles.map((k) =>
          this.choice(k === this.profile, t(KINDS[k][0]), () => {
            this.profile = k;
            this.update();
          }),
        ),
        names ? h("button", { onclick: () => this.copy(pairs) }, t("copy_csv")) : null,
      ),
      ...(names
        ? [
            pairs.length ? this.table(pairs) : h("p", { class: "quiet" }, t("no_matches")),
            this.rest(),
          ]
        : [this.stacks.root]),
    );
  }

  /** How many of the names are here, and the rest. */
  private rest(): HTMLElement | null {
    const here = this.diff.pairs.length;
    if (here >= this.diff.names) return null;
    const all = (): void => {
      this.most = MOST;
      this.update();
    };
    return h(
      "p",
      { class: "actions rest" },
      h("span", { class: "quiet" }, t("n_of_names", count(here), count(this.diff.names))),
      this.most < MOST ? h("button", { onclick: all }, t("more")) : null,
    );
  }

  private table(pairs: Pair[]): HTMLElement {
    const most = Math.max(1, ...pairs.map((p) => Math.abs(COLUMNS.difference(p))));
    const words: [Key, string, string?][] = [
      ["count_a", `${t("count")} A`],
      ["count_b", "B", `${t("count")} B`],
      ["total_a", `${t("total")} A`],
      ["total_b", "B", `${t("total")} B`],
      ["mean_a", `${t("average")} A`],
      ["mean_b", "B", `${t("average")} B`],
      ["difference", t("difference")],
      ["ratio", "B ÷ A"],
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
          words.map(([k, w, name]) => sortHead(this.sorting, k, w, () => this.draw(), true, name)),
          sortHead(this.sorting, "name", t("name"), () => this.draw(), false),
        ),
      ),
      h(
        "tbody",
        null,
        pairs.slice(0, 500).map((p) => {
          const d = COLUMNS.difference(p),
            r = COLUMNS.ratio(p);
          const time = (f: Figures, v: number): HTMLElement =>
            h("td", { class: "n" }, f[0] ? duration(v) : "");
          return h(
            "tr",
            null,
            h("td", { class: "n" }, p.a[0] ? count(p.a[0]) : ""),
            h("td", { class: "n" }, p.b[0] ? count(p.b[0]) : ""),
            time(p.a, p.a[1]),
            time(p.b, p.b[1]),
            time(p.a, mean(p.a)),
            time(p.b, mean(p.b)),
            h(
              "td",
              {
                class: `n bar ${d > 0 ? "more" : "less"}`,
                style: { backgroundSize: `${(Math.abs(d) / most) * 100}% 100%` },
              },
              signed(d, duration(Math.abs(d))),
            ),
            h(
              "td",
              { class: "n" },
              r === Infinity ? t("only_b") : r === 0 ? t("only_a") : r.toFixed(r < 10 ? 2 : 0),
            ),
            h("td", { class: "wide" }, h("bdi", null, clean(p.name, 300) || t("unnamed"))),
          );
        }),
      ),
    );
  }

  private copy(pairs: Pair[]): void {
    copyCsv(
      ["kind", "name", "count_a", "count_b", "total_a_ns", "total_b_ns", "difference_ns"],
      pairs.map((p) => [
        p.kind,
        clean(p.name),
        p.a[0],
        p.b[0],
        p.a[1],
        p.b[1],
        COLUMNS.difference(p),
      ]),
    );
  }
}
