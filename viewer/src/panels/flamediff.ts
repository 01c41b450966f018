/**
 * Where the time of two windows went, by call stack: one flame graph of both, red where B has a
 * larger share of its time than A and blue where it has a smaller one, and the functions whose
 * shares changed most. Shares, not times, so that runs of different lengths compare. A box is as
 * wide as the mean of both shares: what only one of them has is in sight too.
 */

import type { App } from "../app";
import type { Flame, FlameNode } from "../data";
import type { RGB } from "../colors";
import { copyCsv } from "../copy";
import { fillElement, h } from "../dom";
import { cleanText, formatCount, formatDuration, formatPercent } from "../format";
import { t, type Word } from "../i18n";
import { FlameGraph, type Box } from "./flame";
import { writeSigned, sortHead, type Sorting } from "./grid";

export interface DiffNode extends Box {
  a: number; // shares, 0 to 1
  b: number;
  children: DiffNode[];
}

interface DiffFunction {
  name: string;
  module: string;
  self: [number, number];
  total: [number, number];
}

const MOST_ROWS = 300;

/** Two trees as one: nodes of one path are one node. */
export function diffTree(
  a: FlameNode[],
  b: FlameNode[],
  all: [number, number],
  name?: string,
): DiffNode {
  const kids = new Map<string, [FlameNode[], FlameNode[]]>();
  [a, b].forEach((side, i) => {
    for (const n of side)
      for (const node of n.children) {
        const both = kids.get(node.name ?? "") ?? [[], []];
        both[i].push(node);
        kids.set(node.name ?? "", both);
      }
  });
  const shareOf = (side: FlameNode[], i: number): number =>
    all[i] ? side.reduce((s, n) => s + n.total, 0) / all[i] : 0;
  const [x, y] = [shareOf(a, 0), shareOf(b, 1)];
  return {
    name,
    a: x,
    b: y,
    total: (x + y) / 2,
    children: [...kids]
      .map(([key, [p, q]]) => diffTree(p, q, all, key))
      .sort((p, q) => q.total - p.total),
  };
}

/** The largest change of a share below the root. */
export function mostChange(n: DiffNode): number {
  return n.children.reduce((m, c) => Math.max(m, Math.abs(c.b - c.a), mostChange(c)), 0);
}

/** Red and blue that the colour-blind can distinguish, starting from grey; small changes are
 * visible too. */
export function changeColor(change: number, most: number, dark: boolean): RGB {
  const to = change > 0 ? [213, 66, 30] : [38, 112, 204],
    from = dark ? [64, 72, 82] : [222, 226, 231],
    part = most > 0 ? Math.sqrt(Math.min(1, Math.abs(change) / most)) : 0;
  return from.map((value, i) => Math.round(value + (to[i] - value) * part)) as RGB;
}

export type Mode = "top_down" | "bottom_up" | "changes";
type Key = "self_a" | "self_b" | "self" | "total_a" | "total_b" | "total" | "name";

const VALUE: Record<Exclude<Key, "name">, (f: DiffFunction) => number> = {
  self_a: (entry) => entry.self[0],
  self_b: (entry) => entry.self[1],
  self: (entry) => Math.abs(entry.self[1] - entry.self[0]),
  total_a: (entry) => entry.total[0],
  total_b: (entry) => entry.total[1],
  total: (entry) => Math.abs(entry.total[1] - entry.total[0]),
};

/** The server leaves out what is below a two-thousandth (src/serve/api_flame.c). */
const shareOf = (value: number): string => (value ? formatPercent(value) : "<0.05 %");

/** Change of a share, in hundredths of the whole. */
const writePoints = (change: number): string =>
  writeSigned(change, (Math.abs(change) * 100).toFixed(2));

export class FlameDiff {
  readonly root = h("div", { class: "flamediff" });
  mode: Mode = "top_down";
  private sides: [Flame, Flame] | null = null;
  private most = 0;
  private graph: FlameGraph<DiffNode>;
  private sorting: Sorting<Key> = { key: "self", down: true };

  constructor(
    private app: App,
    private again: () => void, // the mode was changed: what is shown has to be asked for
  ) {
    this.graph = new FlameGraph<DiffNode>({
      rootName: () => "A + B",
      color: (n) => changeColor(n.b - n.a, this.most, app.theme.dark),
      tip: (n) => [
        `A ${shareOf(n.a)} · B ${shareOf(n.b)} · ${t("change_points", writePoints(n.b - n.a))}`,
      ],
      onZoom: () => this.drawDiff(),
    });
    app.on("theme", () => {
      if (this.sides) this.drawDiff();
    });
  }

  setSides(a: Flame, b: Flame): void {
    this.sides = [a, b];
    const tree = diffTree([a.root], [b.root], [a.root.total, b.root.total]);
    this.most = mostChange(tree);
    this.graph.setRoot(tree);
    this.drawDiff();
  }

  private writeAmount(i: 0 | 1): string {
    const flame = this.sides![i];
    return flame.unit === "ns"
      ? formatDuration(flame.root.total)
      : `${formatCount(flame.root.total)} ${cleanText(flame.unit)}`;
  }

  private makeLegend(): HTMLElement[] {
    const dark = this.app.theme.dark;
    const makeEntry = (change: number, word: Word): HTMLElement => {
      const [report, g, b] = changeColor(change, 1, dark);
      return h(
        "span",
        { class: "legend" },
        h("span", { class: "swatch", style: { background: `rgb(${report},${g},${b})` } }),
        t(word),
      );
    };
    return [makeEntry(1, "more_in_b"), makeEntry(-1, "less_in_b"), makeEntry(0, "as_much")];
  }

  private drawDiff(): void {
    if (!this.sides) return;
    const modes: Mode[] = ["top_down", "bottom_up", "changes"];
    fillElement(
      this.root,
      h(
        "p",
        { class: "actions" },
        modes.map((mode) =>
          h(
            "button",
            {
              class: mode === this.mode ? "on" : "",
              "aria-pressed": String(mode === this.mode),
              onclick: () => {
                const turned = (mode === "bottom_up") !== (this.mode === "bottom_up");
                this.mode = mode;
                if (turned) this.again();
                else this.drawDiff();
              },
            },
            t(mode),
          ),
        ),
        h("span", { class: "quiet" }, `A ${this.writeAmount(0)} · B ${this.writeAmount(1)}`),
        this.mode === "changes"
          ? null
          : [
              ...this.makeLegend(),
              h("span", { class: "quiet" }, t("mean_width")),
              this.graph.search,
              this.graph.matched,
            ],
        h("button", { onclick: () => this.copyTable() }, t("copy_csv")),
        this.mode !== "changes" && this.graph.isZoomed()
          ? h("button", { onclick: () => this.graph.resetZoom() }, t("reset_zoom"))
          : null,
      ),
      this.mode === "changes" ? this.makeTable() : this.graph.root,
    );
    if (this.mode !== "changes") this.graph.drawGraph();
  }

  /* ---- the table ---- */

  private listFunctions(): DiffFunction[] {
    const by = new Map<string, DiffFunction>();
    this.sides!.forEach((flame, i) => {
      const all = flame.root.total || 1;
      for (const f of flame.flat) {
        const key = `${f.name}\0${f.module.replace(/.*\//, "")}`; // where a library lies may differ
        const x: DiffFunction = by.get(key) ?? {
          name: f.name,
          module: f.module,
          self: [0, 0],
          total: [0, 0],
        };
        x.self[i] += f.self / all;
        x.total[i] += f.total / all;
        by.set(key, x);
      }
    });
    const { key, down } = this.sorting;
    const compareFunctions = (x: DiffFunction, y: DiffFunction): number =>
      key === "name"
        ? x.name < y.name
          ? 1
          : x.name > y.name
            ? -1
            : 0
        : VALUE[key](y) - VALUE[key](x);
    return [...by.values()].sort((x, y) => compareFunctions(x, y) * (down ? 1 : -1));
  }

  private makeTable(): HTMLElement {
    const all = this.listFunctions(),
      most = Math.max(1e-9, ...all.map((entry) => Math.abs(entry.self[1] - entry.self[0])));
    const makeHead = (key: Key, text: string, first = true): HTMLElement =>
      sortHead(this.sorting, key, text, () => this.drawDiff(), first);
    const makeChangeCell = ([a, b]: [number, number], bar: boolean): HTMLElement =>
      h(
        "td",
        {
          class: `n ${bar ? `bar ${b > a ? "more" : "less"}` : ""}`,
          style: bar ? { backgroundSize: `${(Math.abs(b - a) / most) * 100}% 100%` } : undefined,
        },
        writePoints(b - a),
      );
    return h(
      "table",
      { class: "grid" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          makeHead("self_a", `${t("self")} A`),
          makeHead("self_b", "B"),
          makeHead("self", t("points")),
          makeHead("total_a", `${t("total")} A`),
          makeHead("total_b", "B"),
          makeHead("total", t("points")),
          makeHead("name", t("name"), false),
          h("th", { scope: "col" }, t("module")),
        ),
      ),
      h(
        "tbody",
        null,
        all
          .slice(0, MOST_ROWS)
          .map((entry) =>
            h(
              "tr",
              null,
              h("td", { class: "n" }, entry.self[0] ? formatPercent(entry.self[0]) : ""),
              h("td", { class: "n" }, entry.self[1] ? formatPercent(entry.self[1]) : ""),
              makeChangeCell(entry.self, true),
              h("td", { class: "n" }, entry.total[0] ? formatPercent(entry.total[0]) : ""),
              h("td", { class: "n" }, entry.total[1] ? formatPercent(entry.total[1]) : ""),
              makeChangeCell(entry.total, false),
              h(
                "td",
                { class: "wide" },
                h("bdi", null, cleanText(entry.name, 300) || t("unnamed")),
              ),
              h("td", null, h("bdi", null, cleanText(entry.module.replace(/.*\//, ""), 100))),
            ),
          ),
      ),
    );
  }

  private copyTable(): void {
    const shareOf = (value: number): number => Number(value.toFixed(6));
    copyCsv(
      ["name", "module", "self_share_a", "self_share_b", "total_share_a", "total_share_b"],
      this.listFunctions().map((entry) => [
        cleanText(entry.name),
        cleanText(entry.module),
        ...[...entry.self, ...entry.total].map(shareOf),
      ]),
    );
  }
}
