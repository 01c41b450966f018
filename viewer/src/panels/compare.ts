/**
 * Two reports, or two windows of one, side by side: what ran more or less often, longer or shorter.
 */

import type { App } from "../app";
import type { Flame } from "../data";
import type { Link, Linked, LinkPairs } from "../link";
import { windowOf, type Panel } from "./panels";
import { copyCsv } from "../copy";
import { fillElement, h, waitForRelease } from "../dom";
import { cleanText, formatCount, formatDuration } from "../format";
import { hasWord, t } from "../i18n";
import { Changes } from "./changes";
import { FlameDiff } from "./flamediff";
import { KINDS, kindsOf } from "./functions";
import { writeSigned, sortHead, type Sorting } from "./grid";
import { orderKinds } from "./statistics";

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

const meanOf = (figures: Figures): number => (figures[0] ? figures[1] / figures[0] : 0);
/** How much larger the second is; what is only there is larger than anything. */
const ratioOf = (a: number, b: number): number => (a ? b / a : b ? Infinity : 1);

const COLUMNS = {
  count_a: (pair: Pair) => pair.a[0],
  count_b: (pair: Pair) => pair.b[0],
  total_a: (pair: Pair) => pair.a[1],
  total_b: (pair: Pair) => pair.b[1],
  mean_a: (pair: Pair) => meanOf(pair.a),
  mean_b: (pair: Pair) => meanOf(pair.b),
  difference: (pair: Pair) => pair.b[1] - pair.a[1],
  ratio: (pair: Pair) => ratioOf(pair.a[1], pair.b[1]),
} satisfies Record<string, (p: Pair) => number>;
type Key = keyof typeof COLUMNS;

export class Compare implements Panel, Linked {
  readonly root = h("div", { class: "statistics compare" });
  private sides: [Side, Side] = [
    { report: 0, window: null },
    { report: 1, window: null },
  ];
  private diff: Diff = { pairs: [], names: 0 };
  private kind = "";
  private choseKind = false; // the user did
  private sorting: Sorting<Key | "change" | "name"> = { key: "change", down: true };
  private turn = 0;
  private most = AT_FIRST; // names that are compared
  private chosen = false; // which reports, by the user
  private profile = -1; // which of KINDS is compared by call stack; -1: names are
  private stacks: FlameDiff;
  private changes: Changes;

  constructor(private app: App) {
    app.linkedParts.push(this);
    this.stacks = new FlameDiff(app, () => this.updatePanel());
    this.changes = new Changes(app);
  }

  /** Each side as `report` or `report,from,to`. */
  writeLink(): LinkPairs {
    const sides = this.sides.map(({ report, window }) => [report, ...(window ?? [])].join(",")),
      pairs: LinkPairs = [];
    if (this.chosen || this.sides.some((side) => side.window)) pairs.push(["cs", sides.join(";")]);
    if (this.profile >= 0) pairs.push(["cp", String(this.profile)]);
    else if (this.kind && this.choseKind) pairs.push(["ck", this.kind]);
    return pairs;
  }

  readLink(link: Link): void {
    const sides = (link.get("cs") ?? "").split(";").map((side) => side.split(",").map(Number));
    if (
      sides.length === 2 &&
      sides.every((side) => side.every(Number.isFinite) && this.app.reports[side[0]])
    ) {
      this.chosen = true;
      sides.forEach(([report, from, to], i) => {
        this.sides[i] = { report, window: to > from ? [from, to] : null };
      });
    }
    this.profile = link.getNumbers("cp", 1)?.[0] ?? -1;
    this.kind = link.get("ck") ?? "";
    this.choseKind = this.kind !== "";
  }

  hasContent(): boolean {
    return this.app.reports.length > 0 && !this.app.limit;
  }

  updatePanel(): void {
    void this.loadSides();
  }

  private async loadSides(): Promise<void> {
    const turn = ++this.turn,
      [first, second] = this.sides;
    if (!this.chosen) this.sides[1].report = 1;
    for (const side of this.sides) if (side.report >= this.app.reports.length) side.report = 0;
    if (!this.listProfiles().includes(this.profile)) this.profile = -1;
    if (this.profile >= 0) {
      const up = this.stacks.mode === "bottom_up" ? 1 : 0;
      const [x, y] = await Promise.all(
        this.sides.map((side) =>
          this.app.ask<Flame>("flame", {
            r: side.report,
            t0: side.window?.[0],
            t1: side.window?.[1],
            kind: this.profile,
            up,
            ...this.app.folding,
          }),
        ),
      );
      await waitForRelease(this.root);
      if (!x || !y || turn !== this.turn) return;
      this.stacks.setSides(x, y);
    } else {
      const diff = await this.app.ask<Diff>("diff", {
        a: first.report,
        b: second.report,
        t0: first.window?.[0],
        t1: first.window?.[1],
        u0: second.window?.[0],
        u1: second.window?.[1],
        limit: this.most,
        ...this.app.folding,
      });
      await waitForRelease(this.root);
      if (!diff || turn !== this.turn) return;
      this.diff = diff;
    }
    this.drawPanel();
  }

  /** What both sides have call stacks of. */
  private listProfiles(): number[] {
    const [a, b] = this.sides.map((side) => kindsOf(this.app.reports[side.report]));
    return a.filter((k) => b.includes(k));
  }

  /* ---- what is compared ---- */

  private makeSide(i: 0 | 1): HTMLElement {
    const side = this.sides[i],
      letter = "AB"[i];
    const choose = h(
      "select",
      { "aria-label": `${t("report")} ${letter}` },
      this.app.reports.map((report) =>
        h("option", { value: String(report.id) }, cleanText(report.name, 60)),
      ),
    ) as HTMLSelectElement;
    choose.value = String(side.report);
    choose.addEventListener("change", () => {
      this.chosen = true;
      side.report = Number(choose.value);
      side.window = null;
      this.updatePanel();
    });
    const setWindow = (pair: [number, number] | null): void => {
      side.window = pair;
      this.updatePanel();
    };
    const windowHere = (): [number, number] => {
      const { t0, t1 } = windowOf(this.app, side.report);
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
          class: side.window ? "" : "on",
          "aria-pressed": String(!side.window),
          onclick: () => setWindow(null),
        },
        t("whole"),
      ),
      h(
        "button",
        {
          class: side.window ? "on" : "",
          "aria-pressed": String(!!side.window),
          title: t("compare_hint"),
          onclick: () => setWindow(windowHere()),
        },
        side.window
          ? `${formatDuration(side.window[0])} + ${formatDuration(side.window[1] - side.window[0])}`
          : t(this.app.range ? "selection" : "window"),
      ),
    );
  }

  private nameKind(kind: string): string {
    return kind === "projected"
      ? t("nvtx_gpu")
      : kind === "cpu"
        ? t("cores")
        : hasWord(kind)
          ? t(kind)
          : kind;
  }

  /* ---- the table ---- */

  private sortPairs(): Pair[] {
    const { key, down } = this.sorting;
    if (key === "name")
      return this.diff.pairs
        .filter((pair) => pair.kind === this.kind)
        .sort((x, y) => (x.name < y.name ? -1 : Number(x.name > y.name)) * (down ? -1 : 1));
    const value =
      key === "change" ? (pair: Pair) => Math.abs(COLUMNS.difference(pair)) : COLUMNS[key];
    return this.diff.pairs
      .filter((pair) => pair.kind === this.kind)
      .sort((x, y) => {
        const a = value(x),
          b = value(y);
        return (a === b ? 0 : a > b ? -1 : 1) * (down ? 1 : -1);
      });
  }

  /** Nothing is compared with itself. */
  private isSameReport(): boolean {
    const [first, second] = this.sides;
    return first.report === second.report && String(first.window) === String(second.window);
  }

  private makeChoice(on: boolean, word: string, choose: () => void): HTMLElement {
    return h(
      "button",
      { class: on ? "on" : "", "aria-pressed": String(on), onclick: choose },
      word,
    );
  }

  /** The reports that are compared as wholes; null where a stretch of one is compared. */
  private pairOfReports(): [number, number] | null {
    const [first, second] = this.sides;
    return first.window || second.window ? null : [first.report, second.report];
  }

  private drawPanel(): void {
    this.app.emitEvent("link");
    void this.changes.showPair(this.pairOfReports());
    const kinds = orderKinds(this.diff.pairs.map((pair) => pair.kind));
    if (!kinds.includes(this.kind))
      this.kind = kinds.includes("kernels") ? "kernels" : (kinds[0] ?? "");
    const pairs = this.sortPairs(),
      names = this.profile < 0,
      profiles = this.listProfiles();
    fillElement(
      this.root,
      h(
        "p",
        { class: "actions" },
        this.makeSide(0),
        this.makeSide(1),
        this.isSameReport() ? h("span", { class: "warning" }, t("compare_same")) : null,
      ),
      names ? this.changes.root : null,
      h(
        "p",
        { class: "actions" },
        kinds.map((key) =>
          this.makeChoice(names && key === this.kind, this.nameKind(key), () => {
            this.kind = key;
            this.choseKind = true;
            this.profile = -1;
            if (names) this.drawPanel();
            else this.updatePanel();
          }),
        ),
        profiles.length ? h("span", { class: "quiet" }, t("by_functions")) : null,
        profiles.map((k) =>
          this.makeChoice(k === this.profile, t(KINDS[k][0]), () => {
            this.profile = k;
            this.updatePanel();
          }),
        ),
        names ? h("button", { onclick: () => this.copyTable(pairs) }, t("copy_csv")) : null,
      ),
      ...(names
        ? [
            pairs.length ? this.makeTable(pairs) : h("p", { class: "quiet" }, t("no_matches")),
            this.makeRest(),
          ]
        : [this.stacks.root]),
    );
  }

  /** How many of the names are here, and the rest. */
  private makeRest(): HTMLElement | null {
    const here = this.diff.pairs.length;
    if (here >= this.diff.names) return null;
    const showAll = (): void => {
      this.most = MOST;
      this.updatePanel();
    };
    return h(
      "p",
      { class: "actions rest" },
      h(
        "span",
        { class: "quiet" },
        t("n_of_names", formatCount(here), formatCount(this.diff.names)),
      ),
      this.most < MOST ? h("button", { onclick: showAll }, t("more")) : null,
    );
  }

  private makeTable(pairs: Pair[]): HTMLElement {
    const most = Math.max(1, ...pairs.map((pair) => Math.abs(COLUMNS.difference(pair))));
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
          words.map(([k, word, name]) =>
            sortHead(this.sorting, k, word, () => this.drawPanel(), true, name),
          ),
          sortHead(this.sorting, "name", t("name"), () => this.drawPanel(), false),
        ),
      ),
      h(
        "tbody",
        null,
        pairs.slice(0, 500).map((pair) => {
          const difference = COLUMNS.difference(pair),
            ratio = COLUMNS.ratio(pair);
          const makeTimeCell = (figures: Figures, value: number): HTMLElement =>
            h("td", { class: "n" }, figures[0] ? formatDuration(value) : "");
          return h(
            "tr",
            null,
            h("td", { class: "n" }, pair.a[0] ? formatCount(pair.a[0]) : ""),
            h("td", { class: "n" }, pair.b[0] ? formatCount(pair.b[0]) : ""),
            makeTimeCell(pair.a, pair.a[1]),
            makeTimeCell(pair.b, pair.b[1]),
            makeTimeCell(pair.a, meanOf(pair.a)),
            makeTimeCell(pair.b, meanOf(pair.b)),
            h(
              "td",
              {
                class: `n bar ${difference > 0 ? "more" : "less"}`,
                style: { backgroundSize: `${(Math.abs(difference) / most) * 100}% 100%` },
              },
              writeSigned(difference, formatDuration(Math.abs(difference))),
            ),
            h(
              "td",
              { class: "n" },
              ratio === Infinity
                ? t("only_b")
                : ratio === 0
                  ? t("only_a")
                  : ratio.toFixed(ratio < 10 ? 2 : 0),
            ),
            h("td", { class: "wide" }, h("bdi", null, cleanText(pair.name, 300) || t("unnamed"))),
          );
        }),
      ),
    );
  }

  private copyTable(pairs: Pair[]): void {
    copyCsv(
      ["kind", "name", "count_a", "count_b", "total_a_ns", "total_b_ns", "difference_ns"],
      pairs.map((pair) => [
        pair.kind,
        cleanText(pair.name),
        pair.a[0],
        pair.b[0],
        pair.a[1],
        pair.b[1],
        COLUMNS.difference(pair),
      ]),
    );
  }
}
