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
import { fill, h } from "../dom";
import { clean, count, duration, percent } from "../format";
import { t, type Word } from "../i18n";
import { FlameGraph, type Box } from "./flame";
import { signed, sortHead, type Sorting } from "./grid";

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
      for (const c of n.children) {
        const both = kids.get(c.name ?? "") ?? [[], []];
        both[i].push(c);
        kids.set(c.name ?? "", both);
      }
  });
  const share = (side: FlameNode[], i: number): number =>
    all[i] ? side.reduce((s, n) => s + n.total, 0) / all[i] : 0;
  const [x, y] = [share(a, 0), share(b, 1)];
  return {
    name,
    a: x,
    b: y,
    total: (x + y) / 2,
    children: [...kids]
      .map(([k, [p, q]]) => diffTree(p, q, all, k))
      .sort((p, q) => q.total - p.total),
  };
}

/** The largest change of a share below the root. */
export function mostChange(n: DiffNode): number {
  return n.children.reduce((m, c) => Math.max(m, Math.abs(c.b - c.a), mostChange(c)), 0);
}

/** Red and blue that the colour-blind tell apart, from a grey on; small changes are seen too. */
export function changeColor(change: number, most: number, dark: boolean): RGB {
  const to = change > 0 ? [213, 66, 30] : [38, 112, 204],
    from = dark ? [64, 72, 82] : [222, 226, 231],
    part = most > 0 ? Math.sqrt(Math.min(1, Math.abs(change) / most)) : 0;
  return from.map((v, i) => Math.round(v + (to[i] - v) * part)) as RGB;
}

export type Mode = "top_down" | "bottom_up" | "changes";
type Key = "self_a" | "self_b" | "self" | "total_a" | "total_b" | "total" | "name";

const VALUE: Record<Exclude<Key, "name">, (f: DiffFunction) => number> = {
  self_a: (f) => f.self[0],
  self_b: (f) => f.self[1],
  self: (f) => Math.abs(f.self[1] - f.self[0]),
  total_a: (f) => f.total[0],
  total_b: (f) => f.total[1],
  total: (f) => Math.abs(f.total[1] - f.total[0]),
};

/** The server leaves out what is below a two-thousandth (src/serve/api_flame.c). */
const shareOf = (v: number): string => (v ? percent(v) : "<0.05 %");

/** Change of a share, in hundredths of the whole. */
const points = (change: number): string => signed(change, (Math.abs(change) * 100).toFixed(2));

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
        `A ${shareOf(n.a)} · B ${shareOf(n.b)} · ${t("change_points", points(n.b - n.a))}`,
      ],
      onZoom: () => this.draw(),
    });
    app.on("theme", () => {
      if (this.sides) this.draw();
    });
  }

  set(a: Flame, b: Flame): void {
    this.sides = [a, b];
    const tree = diffTree([a.root], [b.root], [a.root.total, b.root.total]);
    this.most = mostChange(tree);
    this.graph.set(tree);
    this.draw();
  }

  private amount(i: 0 | 1): string {
    const f = this.sides![i];
    return f.unit === "ns" ? duration(f.root.total) : `${count(f.root.total)} ${clean(f.unit)}`;
  }

  private legend(): HTMLElement[] {
    const dark = this.app.theme.dark;
    const one = (change: number, word: Word): HTMLElement => {
      const [r, g, b] = changeColor(change, 1, dark);
      return h(
        "span",
        { class: "legend" },
        h("span", { class: "swatch", style: { background: `rgb(${r},${g},${b})` } }),
        t(word),
      );
    };
    return [one(1, "more_in_b"), one(-1, "less_in_b"), one(0, "as_much")];
  }

  private draw(): void {
    if (!this.sides) return;
    const modes: Mode[] = ["top_down", "bottom_up", "changes"];
    fill(
      this.root,
      h(
        "p",
        { class: "actions" },
        modes.map((m) =>
          h(
            "button",
            {
              class: m === this.mode ? "on" : "",
              "aria-pressed": String(m === this.mode),
              onclick: () => {
                const turned = (m === "bottom_up") !== (this.mode === "bottom_up");
                this.mode = m;
                if (turned) this.again();
                else this.draw();
              },
            },
            t(m),
          ),
        ),
        h("span", { class: "quiet" }, `A ${this.amount(0)} · B ${this.amount(1)}`),
        this.mode === "changes"
          ? null
          : [
              ...this.legend(),
              h("span", { class: "quiet" }, t("mean_width")),
              this.graph.search,
              this.graph.matched,
            ],
        h("button", { onclick: () => this.copy() }, t("copy_csv")),
        this.mode !== "changes" && this.graph.zoomed()
          ? h("button", { onclick: () => this.graph.reset() }, t("reset_zoom"))
          : null,
      ),
      this.mode === "changes" ? this.table() : this.graph.root,
    );
    if (this.mode !== "changes") this.graph.draw();
  }

  /* ---- the table ---- */

  private functions(): DiffFunction[] {
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
    const order = (x: DiffFunction, y: DiffFunction): number =>
      key === "name"
        ? x.name < y.name
          ? 1
          : x.name > y.name
            ? -1
            : 0
        : VALUE[key](y) - VALUE[key](x);
    return [...by.values()].sort((x, y) => order(x, y) * (down ? 1 : -1));
  }

  private table(): HTMLElement {
    const all = this.functions(),
      most = Math.max(1e-9, ...all.map((f) => Math.abs(f.self[1] - f.self[0])));
    const head = (key: Key, text: string, first = true): HTMLElement =>
      sortHead(this.sorting, key, text, () => this.draw(), first);
    const change = ([a, b]: [number, number], bar: boolean): HTMLElement =>
      h(
        "td",
        {
          class: `n ${bar ? `bar ${b > a ? "more" : "less"}` : ""}`,
          style: bar ? { backgroundSize: `${(Math.abs(b - a) / most) * 100}% 100%` } : undefined,
        },
        points(b - a),
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
          head("self_a", `${t("self")} A`),
          head("self_b", "B"),
          head("self", t("points")),
          head("total_a", `${t("total")} A`),
          head("total_b", "B"),
          head("total", t("points")),
          head("name", t("name"), false),
          h("th", { scope: "col" }, t("module")),
        ),
      ),
      h(
        "tbody",
        null,
        all
          .slice(0, MOST_ROWS)
          .map((f) =>
            h(
              "tr",
              null,
              h("td", { class: "n" }, f.self[0] ? percent(f.self[0]) : ""),
              h("td", { class: "n" }, f.self[1] ? percent(f.self[1]) : ""),
              change(f.self, true),
              h("td", { class: "n" }, f.total[0] ? percent(f.total[0]) : ""),
              h("td", { class: "n" }, f.total[1] ? percent(f.total[1]) : ""),
              change(f.total, false),
              h("td", { class: "wide" }, h("bdi", null, clean(f.name, 300) || t("unnamed"))),
              h("td", null, h("bdi", null, clean(f.module.replace(/.*\//, ""), 100))),
            ),
          ),
      ),
    );
  }

  private copy(): void {
    const share = (v: number): number => Number(v.toFixed(6));
    copyCsv(
      ["name", "module", "self_share_a", "self_share_b", "total_share_a", "total_share_b"],
      this.functions().map((f) => [
        clean(f.name),
        clean(f.module),
        ...[...f.self, ...f.total].map(share),
      ]),
    );
  }
}
