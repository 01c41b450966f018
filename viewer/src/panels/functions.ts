/**
 * Where the time of the window went by call stack: a flame graph, top down or bottom up, and the
 * functions as a table.
 */

import { CLASS_SAMPLE } from "generated/constants";
import type { App } from "../app";
import type { Flame, FlameNode, ReportInfo } from "../data";
import { windowOf, type Panel } from "./panels";
import { fill, h, later, released } from "../dom";
import { copyCsv } from "../copy";
import { clean, count, duration, percent } from "../format";
import { t, type Word } from "../i18n";
import { classColor } from "../colors";
import { FlameGraph } from "./flame";
import { sortHead, type Sorting } from "./grid";

/** Numbered as enum ws_profile_kind; each needs one of some tables. */
const WORK = ["cuda_kernel", "cuda_memcpy", "cuda_memset"];
export const KINDS: [Word, string[], Word][] = [
  ["on_cpu", ["sample"], "samples"],
  ["off_cpu", ["osrt", "sched"], "n_waits"],
  ["python_stacks", ["python_sample"], "samples"],
  ["gpu_time", WORK, "n_pieces"],
  ["gpu_stacks", WORK, "n_pieces"],
];

const MOST_FLAT = 500;
type FlatKey = "self" | "total" | "name" | "module";
type Mode = "top_down" | "bottom_up" | "flat";

/** Which kinds of KINDS a report has something for. */
export function kindsOf(r: ReportInfo): number[] {
  const has = (tables: string[]): boolean => r.tables.some((x) => tables.includes(x.name));
  return KINDS.map(([word, tables], i) =>
    has(tables) && (word !== "gpu_stacks" || has(["op", "stack"])) ? i : -1,
  ).filter((i) => i >= 0);
}

function hash(s: string): number {
  let v = 7;
  for (let i = 0; i < s.length; i++) v = (v * 31 + s.charCodeAt(i)) | 0;
  return v & 255;
}

/** One tree of several: nodes of one path are one node. */
function merge(trees: FlameNode[], name?: string): FlameNode {
  const kids = new Map<string, FlameNode[]>();
  for (const t of trees)
    for (const c of t.children) {
      const list = kids.get(c.name ?? "");
      if (list) list.push(c);
      else kids.set(c.name ?? "", [c]);
    }
  const sum = (f: (n: FlameNode) => number): number => trees.reduce((s, n) => s + f(n), 0);
  return {
    name,
    total: sum((n) => n.total),
    self: sum((n) => n.self),
    children: [...kids]
      .map(([k, list]) => (list.length > 1 ? merge(list, k) : list[0]))
      .sort((a, b) => b.total - a.total),
  };
}

/** What several reports have: by report, or as if they were one. */
export function together(parts: { name: string; flame: Flame }[], apart: boolean): Flame {
  const flat = new Map<string, Flame["flat"][number]>();
  for (const f of parts.flatMap((p) => p.flame.flat)) {
    const key = `${f.name}\0${f.module}`,
      old = flat.get(key);
    flat.set(key, old ? { ...f, self: f.self + old.self, total: f.total + old.total } : f);
  }
  const roots = parts.map((p) => p.flame.root);
  return {
    samples: parts.reduce((n, p) => n + p.flame.samples, 0),
    unit: parts[0].flame.unit,
    root: apart
      ? {
          total: roots.reduce((n, r) => n + r.total, 0),
          self: 0,
          children: parts.map((p) => ({ ...p.flame.root, name: p.name })),
        }
      : merge(roots),
    flat: [...flat.values()].sort((a, b) => b.self - a.self || b.total - a.total),
  };
}

export class Functions implements Panel {
  readonly root = h("div", { class: "functions" });
  private mode: Mode = "top_down";
  private kind = -1;
  private apart = true; // several reports: each on its own
  private other = ""; // reports whose samples count something else: they cannot be added
  private data: Flame | null = null;
  private turn = 0;
  private graph: FlameGraph<FlameNode>;
  private sorting: Sorting<FlatKey> = { key: "self", down: true };
  private filter = h("input", {
    type: "search",
    class: "flatfilter",
    maxlength: 200,
    oninput: () => this.fillFlat(),
  });
  private flatBody = h("tbody");

  constructor(private app: App) {
    this.graph = new FlameGraph<FlameNode>({
      rootName: () => this.rootName(),
      color: (_, name) => classColor(CLASS_SAMPLE, hash(name), app.theme.dark),
      tip: (n) => {
        const all = this.data?.root.total || 1;
        return [
          `${t("total")} ${this.amount(n.total)}, ${percent(n.total / all)} · ${t("self")} ${percent(n.self / all)}`,
        ];
      },
      onZoom: () => this.draw(),
    });
    app.on("theme", () => this.graph.draw());
  }

  private kinds(): number[] {
    return [...new Set(this.app.reports.flatMap(kindsOf))].sort();
  }

  there(): boolean {
    return !this.app.limit && this.kinds().length > 0;
  }

  update = later(200, () => void this.load());

  private async load(): Promise<void> {
    const turn = ++this.turn;
    if (this.kind < 0) this.kind = this.kinds()[0];
    const reports = this.app.reports.filter((r) =>
      r.tables.some((x) => KINDS[this.kind][1].includes(x.name)),
    );
    const got = await Promise.all(
      reports.map(async (r) => {
        const { t0, t1 } = windowOf(this.app, r.id);
        return {
          name: clean(r.name, 60),
          flame: await this.app.ask<Flame>("flame", {
            r: r.id,
            t0,
            t1,
            kind: this.kind,
            up: this.mode === "bottom_up" ? 1 : 0,
            ...this.app.folding,
          }),
        };
      }),
    );
    const parts = got.filter((p): p is { name: string; flame: Flame } => p.flame !== undefined);
    await released(this.root);
    if (turn !== this.turn || !parts.length) return;
    const same = parts.filter((p) => p.flame.unit === parts[0].flame.unit);
    this.other = parts
      .filter((p) => !same.includes(p))
      .map((p) => p.name)
      .join(", ");
    this.data =
      same.length === 1 ? same[0].flame : together(same, this.apart && this.mode !== "flat");
    this.graph.set(this.data.root);
    this.draw();
  }

  private draw(): void {
    const mode = (m: Mode): HTMLElement =>
      h(
        "button",
        {
          class: m === this.mode ? "on" : "",
          "aria-pressed": String(m === this.mode),
          onclick: () => {
            const again =
              (m === "bottom_up") !== (this.mode === "bottom_up") || this.app.reports.length > 1;
            this.mode = m;
            if (again) void this.load();
            else this.draw();
          },
        },
        t(m),
      );
    fill(
      this.root,
      h(
        "p",
        { class: "actions" },
        this.kinds().map((k) =>
          h(
            "button",
            {
              class: k === this.kind ? "on" : "",
              "aria-pressed": String(k === this.kind),
              onclick: () => {
                this.kind = k;
                void this.load();
              },
            },
            t(KINDS[k][0]),
          ),
        ),
        " ",
        mode("top_down"),
        mode("bottom_up"),
        mode("flat"),
        h("span", { class: "quiet" }, this.summary()),
        this.other ? h("span", { class: "warning" }, t("other_unit", this.other)) : null,
        this.app.reports.length > 1 && this.mode !== "flat"
          ? h(
              "button",
              {
                class: this.apart ? "on" : "",
                "aria-pressed": String(this.apart),
                onclick: () => {
                  this.apart = !this.apart;
                  void this.load();
                },
              },
              t("by_report"),
            )
          : null,
        h("button", { onclick: () => this.copy() }, t("copy_csv")),
        this.graph.zoomed()
          ? h("button", { onclick: () => this.graph.reset() }, t("reset_zoom"))
          : null,
        this.mode !== "flat" ? [this.graph.search, this.graph.matched] : this.filter,
      ),
      this.mode === "flat" ? this.flat() : this.graph.root,
    );
    if (this.mode !== "flat") this.graph.draw();
  }

  private flat(): HTMLElement {
    this.filter.placeholder = t("filter_names");
    this.filter.setAttribute("aria-label", t("filter_names"));
    const head = (key: FlatKey, first = true): HTMLElement =>
        sortHead(this.sorting, key, t(key), () => this.draw(), first),
      amount = (key: "self" | "total"): HTMLElement =>
        h("th", { scope: "col" }, h("span", { class: "offscreen" }, t(key)));
    this.fillFlat();
    return h(
      "table",
      { class: "grid" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          head("self"),
          amount("self"),
          head("total"),
          amount("total"),
          head("name", false),
          head("module", false),
        ),
      ),
      this.flatBody,
    );
  }

  private fillFlat(): void {
    const all = this.data?.root.total || 1,
      { key, down } = this.sorting,
      wanted = this.filter.value.toLowerCase();
    const text = (a: string, b: string): number => (a < b ? 1 : Number(a > b) * -1);
    const list = (this.data?.flat ?? []).filter(
      (f) =>
        !wanted || f.name.toLowerCase().includes(wanted) || f.module.toLowerCase().includes(wanted),
    );
    list.sort(
      (a, b) =>
        (down ? 1 : -1) *
          (key === "self" || key === "total" ? b[key] - a[key] : text(a[key], b[key])) ||
        b.self - a.self ||
        b.total - a.total,
    );
    fill(
      this.flatBody,
      list.slice(0, MOST_FLAT).map((f) =>
        h(
          "tr",
          null,
          h(
            "td",
            {
              class: "n bar",
              style: { backgroundSize: `${(f.self / all) * 100}% 100%` },
            },
            percent(f.self / all),
          ),
          h("td", { class: "n" }, this.amount(f.self)),
          h(
            "td",
            {
              class: "n bar",
              style: { backgroundSize: `${(f.total / all) * 100}% 100%` },
            },
            percent(f.total / all),
          ),
          h("td", { class: "n" }, this.amount(f.total)),
          h("td", { class: "wide" }, h("bdi", null, clean(f.name, 300))),
          h("td", null, h("bdi", null, clean(f.module.replace(/.*\//, ""), 100))),
        ),
      ),
    );
  }

  /** The table of functions, whatever is in sight. */
  private copy(): void {
    const unit = this.data?.unit === "ns" ? "ns" : clean(this.data?.unit ?? "");
    copyCsv(
      [`self_${unit}`, `total_${unit}`, "name", "module"],
      (this.data?.flat ?? []).map((f) => [f.self, f.total, clean(f.name), clean(f.module)]),
    );
  }

  /** What is shown: of which stretch, how many samples, how long together. */
  private summary(): string {
    const samples = t(KINDS[Math.max(0, this.kind)][2], count(this.data?.samples ?? 0)),
      total = this.data?.unit === "ns" ? ` · ${duration(this.data.root.total)}` : "";
    return ` ${t(this.app.range ? "selection" : "window")}: ${samples}${total} `;
  }

  private amount(v: number): string {
    return this.data?.unit === "ns" ? duration(v) : count(v);
  }

  private rootName(): string {
    return this.app.range ? t("selection") : t("window");
  }
}
