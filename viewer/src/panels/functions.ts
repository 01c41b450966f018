/**
 * Where the time of the window went by call stack: a flame graph, top down or bottom up, and the
 * functions as a table.
 */

import { CLASS_SAMPLE } from "generated/constants";
import type { App } from "../app";
import type { Flame, FlameNode, ReportInfo } from "../data";
import type { Link, Linked, LinkPairs } from "../link";
import { windowOf, type Panel } from "./panels";
import { fillElement, h, delayCalls, waitForRelease } from "../dom";
import { copyCsv } from "../copy";
import { cleanText, formatCount, formatDuration, formatPercent } from "../format";
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
export function kindsOf(report: ReportInfo): number[] {
  const hasTable = (tables: string[]): boolean =>
    report.tables.some((x) => tables.includes(x.name));
  return KINDS.map(([word, tables], i) =>
    hasTable(tables) && (word !== "gpu_stacks" || hasTable(["op", "stack"])) ? i : -1,
  ).filter((i) => i >= 0);
}

function hashText(text: string): number {
  let value = 7;
  for (let i = 0; i < text.length; i++) value = (value * 31 + text.charCodeAt(i)) | 0;
  return value & 255;
}

/** One tree of several: nodes of one path are one node. */
function mergeTrees(trees: FlameNode[], name?: string): FlameNode {
  const kids = new Map<string, FlameNode[]>();
  for (const node of trees)
    for (const tree of node.children) {
      const list = kids.get(tree.name ?? "");
      if (list) list.push(tree);
      else kids.set(tree.name ?? "", [tree]);
    }
  const sumOf = (callback: (n: FlameNode) => number): number =>
    trees.reduce((s, n) => s + callback(n), 0);
  return {
    name,
    total: sumOf((n) => n.total),
    self: sumOf((n) => n.self),
    children: [...kids]
      .map(([key, list]) => (list.length > 1 ? mergeTrees(list, key) : list[0]))
      .sort((a, b) => b.total - a.total),
  };
}

/** What several reports have: by report, or as if they were one. */
export function mergeFlames(parts: { name: string; flame: Flame }[], apart: boolean): Flame {
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
          total: roots.reduce((n, node) => n + node.total, 0),
          self: 0,
          children: parts.map((p) => ({ ...p.flame.root, name: p.name })),
        }
      : mergeTrees(roots),
    flat: [...flat.values()].sort((a, b) => b.self - a.self || b.total - a.total),
  };
}

const MODES: Mode[] = ["top_down", "bottom_up", "flat"];

export class Functions implements Panel, Linked {
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
    app.linkedParts.push(this);
    this.graph = new FlameGraph<FlameNode>({
      rootName: () => this.rootName(),
      color: (_, name) => classColor(CLASS_SAMPLE, hashText(name), app.theme.dark),
      tip: (node) => {
        const all = this.data?.root.total || 1,
          total = `${this.writeAmount(node.total)}, ${formatPercent(node.total / all)}`,
          self = formatPercent(node.self / all);
        return [`${t("total")} ${total} · ${t("self")} ${self}`];
      },
      onZoom: () => this.drawPanel(),
    });
    app.on("theme", () => this.graph.drawGraph());
  }

  writeLink(): LinkPairs {
    const pairs: LinkPairs = [];
    if (this.kind > 0) pairs.push(["fk", String(this.kind)]);
    if (this.mode !== "top_down") pairs.push(["fm", this.mode]);
    if (!this.apart) pairs.push(["fr", "0"]);
    return pairs;
  }

  readLink(link: Link): void {
    const [kind] = link.getNumbers("fk", 1) ?? [-1];
    if (this.listKinds().includes(kind)) this.kind = kind;
    this.mode = MODES.find((mode) => mode === link.get("fm")) ?? this.mode;
    this.apart = link.get("fr") !== "0";
  }

  private listKinds(): number[] {
    return [...new Set(this.app.reports.flatMap(kindsOf))].sort();
  }

  hasContent(): boolean {
    return !this.app.limit && this.listKinds().length > 0;
  }

  updatePanel = delayCalls(200, () => void this.loadFlames());

  private async loadFlames(): Promise<void> {
    const turn = ++this.turn;
    if (this.kind < 0) this.kind = this.listKinds()[0];
    const reports = this.app.reports.filter((report) =>
      report.tables.some((x) => KINDS[this.kind][1].includes(x.name)),
    );
    const got = await Promise.all(
      reports.map(async (info) => {
        const { t0, t1 } = windowOf(this.app, info.id);
        return {
          name: cleanText(info.name, 60),
          flame: await this.app.ask<Flame>("flame", {
            r: info.id,
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
    await waitForRelease(this.root);
    if (turn !== this.turn || !parts.length) return;
    const same = parts.filter((p) => p.flame.unit === parts[0].flame.unit);
    this.other = parts
      .filter((p) => !same.includes(p))
      .map((p) => p.name)
      .join(", ");
    this.data =
      same.length === 1 ? same[0].flame : mergeFlames(same, this.apart && this.mode !== "flat");
    this.graph.setRoot(this.data.root);
    this.drawPanel();
  }

  private drawPanel(): void {
    this.app.emitEvent("link");
    const makeModeButton = (mode: Mode): HTMLElement =>
      h(
        "button",
        {
          class: mode === this.mode ? "on" : "",
          "aria-pressed": String(mode === this.mode),
          onclick: () => {
            const again =
              (mode === "bottom_up") !== (this.mode === "bottom_up") || this.app.reports.length > 1;
            this.mode = mode;
            if (again) void this.loadFlames();
            else this.drawPanel();
          },
        },
        t(mode),
      );
    fillElement(
      this.root,
      h(
        "p",
        { class: "actions" },
        this.listKinds().map((k) =>
          h(
            "button",
            {
              class: k === this.kind ? "on" : "",
              "aria-pressed": String(k === this.kind),
              onclick: () => {
                this.kind = k;
                void this.loadFlames();
              },
            },
            t(KINDS[k][0]),
          ),
        ),
        " ",
        makeModeButton("top_down"),
        makeModeButton("bottom_up"),
        makeModeButton("flat"),
        h("span", { class: "quiet" }, this.writeSummary()),
        this.other ? h("span", { class: "warning" }, t("other_unit", this.other)) : null,
        this.app.reports.length > 1 && this.mode !== "flat"
          ? h(
              "button",
              {
                class: this.apart ? "on" : "",
                "aria-pressed": String(this.apart),
                onclick: () => {
                  this.apart = !this.apart;
                  void this.loadFlames();
                },
              },
              t("by_report"),
            )
          : null,
        h("button", { onclick: () => this.copyTable() }, t("copy_csv")),
        this.graph.isZoomed()
          ? h("button", { onclick: () => this.graph.resetZoom() }, t("reset_zoom"))
          : null,
        this.mode !== "flat" ? [this.graph.search, this.graph.matched] : this.filter,
      ),
      this.mode === "flat" ? this.makeFlatTable() : this.graph.root,
    );
    if (this.mode !== "flat") this.graph.drawGraph();
  }

  private makeFlatTable(): HTMLElement {
    this.filter.placeholder = t("filter_names");
    this.filter.setAttribute("aria-label", t("filter_names"));
    const makeHead = (key: FlatKey, first = true): HTMLElement =>
        sortHead(this.sorting, key, t(key), () => this.drawPanel(), first),
      makeAmountHead = (key: "self" | "total"): HTMLElement =>
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
          makeHead("self"),
          makeAmountHead("self"),
          makeHead("total"),
          makeAmountHead("total"),
          makeHead("name", false),
          makeHead("module", false),
        ),
      ),
      this.flatBody,
    );
  }

  private fillFlat(): void {
    const all = this.data?.root.total || 1,
      { key, down } = this.sorting,
      wanted = this.filter.value.toLowerCase();
    const compareTexts = (a: string, b: string): number => (a < b ? 1 : Number(a > b) * -1);
    const list = (this.data?.flat ?? []).filter(
      (f) =>
        !wanted || f.name.toLowerCase().includes(wanted) || f.module.toLowerCase().includes(wanted),
    );
    list.sort(
      (a, b) =>
        (down ? 1 : -1) *
          (key === "self" || key === "total" ? b[key] - a[key] : compareTexts(a[key], b[key])) ||
        b.self - a.self ||
        b.total - a.total,
    );
    fillElement(
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
            formatPercent(f.self / all),
          ),
          h("td", { class: "n" }, this.writeAmount(f.self)),
          h(
            "td",
            {
              class: "n bar",
              style: { backgroundSize: `${(f.total / all) * 100}% 100%` },
            },
            formatPercent(f.total / all),
          ),
          h("td", { class: "n" }, this.writeAmount(f.total)),
          h("td", { class: "wide" }, h("bdi", null, cleanText(f.name, 300))),
          h("td", null, h("bdi", null, cleanText(f.module.replace(/.*\//, ""), 100))),
        ),
      ),
    );
  }

  /** The table of functions, whatever is in sight. */
  private copyTable(): void {
    const unit = this.data?.unit === "ns" ? "ns" : cleanText(this.data?.unit ?? "");
    copyCsv(
      [`self_${unit}`, `total_${unit}`, "name", "module"],
      (this.data?.flat ?? []).map((f) => [f.self, f.total, cleanText(f.name), cleanText(f.module)]),
    );
  }

  /** What is shown: of which stretch, how many samples, how long together. */
  private writeSummary(): string {
    const samples = t(KINDS[Math.max(0, this.kind)][2], formatCount(this.data?.samples ?? 0)),
      total = this.data?.unit === "ns" ? ` · ${formatDuration(this.data.root.total)}` : "";
    return ` ${t(this.app.range ? "selection" : "window")}: ${samples}${total} `;
  }

  private writeAmount(value: number): string {
    return this.data?.unit === "ns" ? formatDuration(value) : formatCount(value);
  }

  private rootName(): string {
    return this.app.range ? t("selection") : t("window");
  }
}
