/** One event: what it is, in words and in all its columns; its stack; what it is tied to. */

import { LANES } from "generated/constants";
import type { App } from "../app";
import type { Column, EventDetail } from "../data";
import type { Panel, Panels } from "./panels";
import { copied, copySql } from "../copy";
import { add, fill, h } from "../dom";
import { bytes, clean, count, duration, moment, percent } from "../format";
import { t, type Word } from "../i18n";

const LIMITS: (Word | "")[] = [
  "",
  "limit_warps",
  "limit_registers",
  "limit_shared",
  "limit_blocks",
];
const MEMORY: Word[] = [
  "mem_pageable",
  "mem_pinned",
  "mem_device",
  "mem_array",
  "mem_managed",
  "mem_static",
  "mem_managed_static",
]; // ENUM_CUDA_MEM_KIND
const AFTER: (Word | "")[] = [
  "",
  "after_preempted",
  "after_sleeping",
  "after_uninterruptible",
  "after_stopped",
  "after_dead",
  "after_blocked",
]; // enum ws_sched_after

function column(d: EventDetail, name: string): Column | undefined {
  return d.columns.find((c) => c.name === name);
}

function num(d: EventDetail, name: string): number {
  return Number(column(d, name)?.value ?? NaN);
}

function text(d: EventDetail, name: string): string {
  return clean(column(d, name)?.text ?? "", 1000);
}

type Facts = [Word, string][];

function kernelFacts(d: EventDetail): Facts {
  const three = (what: string): string => {
    const v = ["x", "y", "z"].map((k) => num(d, `${what}_${k}`));
    return `${v.join(" × ")} = ${count(v.reduce((a, b) => a * b, 1))}`;
  };
  const full = text(d, "demangled"),
    limit = LIMITS[num(d, "limiter")];
  const out: Facts = full && full !== d.name ? [["function", full]] : [];
  out.push(
    ["grid", three("grid")],
    ["block", three("block")],
    ["registers", count(num(d, "registers"))],
  );
  out.push([
    "shared_memory",
    `${bytes(num(d, "static_shared"))} + ${bytes(num(d, "dynamic_shared"))}`,
  ]);
  if (num(d, "occupancy") > 0)
    out.push(["occupancy", `${percent(num(d, "occupancy"))}${limit ? ` (${t(limit)})` : ""}`]);
  if (num(d, "waves") > 0) out.push(["waves", num(d, "waves").toFixed(2)]);
  return out;
}

function memoryFacts(d: EventDetail): Facts {
  const n = num(d, "bytes"),
    ns = d.end - d.start,
    kind = (what: string): string => (MEMORY[num(d, what)] ? t(MEMORY[num(d, what)]) : "?");
  const out: Facts = [["bytes", `${bytes(n)} (${count(n)})`]];
  if (ns > 0) out.push(["bandwidth", `${(n / ns).toFixed(n / ns >= 10 ? 1 : 3)} GB/s`]);
  if (num(d, "src_kind") >= 0 && num(d, "src_kind") + num(d, "dst_kind") > 0)
    out.push(["memory_kinds", `${kind("src_kind")} → ${kind("dst_kind")}`]);
  return out;
}

/** What an engineer looks at first, by table. */
const FACTS: Record<string, (d: EventDetail) => Facts> = {
  cuda_kernel: kernelFacts,
  cuda_memcpy: memoryFacts,
  cuda_memset: memoryFacts,
  osrt: (d) => [
    ["path", text(d, "path")],
    ["held_by", num(d, "holder") > 0 ? String(num(d, "holder")) : ""],
    ["errno", num(d, "error") > 0 ? String(num(d, "error")) : ""],
  ],
  sched: (d) => [
    ["cpu_core", String(num(d, "cpu"))],
    ["switched_out", AFTER[num(d, "after")] ? t(AFTER[num(d, "after")] as Word) : ""],
  ],
  state: (d) => [
    ["state_kind", text(d, "state")],
    ["reason", text(d, "reason")],
    ["cpu_core", num(d, "cpu") >= 0 ? String(num(d, "cpu")) : ""],
    ["path", text(d, "path")],
    ["held_by", num(d, "holder") > 0 ? String(num(d, "holder")) : ""],
    ["waker", column(d, "waker")?.text !== undefined ? show(column(d, "waker")!) : ""],
    ["switched_out", AFTER[num(d, "after")] ? t(AFTER[num(d, "after")] as Word) : ""],
  ],
  sample: (d) => [["cpu_core", String(num(d, "cpu"))]],
  collective: (d) => [
    [
      "elements",
      num(d, "in_elements") >= 0 ? `${count(num(d, "in_elements"))} ${text(d, "dtype")}` : "",
    ],
    ["group", text(d, "description") || text(d, "group")],
    ["ranks", text(d, "ranks") || (num(d, "group_size") > 0 ? count(num(d, "group_size")) : "")],
  ],
  op: (d) => [
    ["shapes", text(d, "shapes")],
    ["flops", num(d, "flops") > 0 ? count(num(d, "flops")) : ""],
    ["modules", text(d, "modules")],
  ],
};

function facts(d: EventDetail): Facts {
  return (FACTS[d.table]?.(d) ?? []).filter(([, v]) => v !== "");
}

export function show(c: Column): string {
  if (c.text !== undefined)
    return c.value !== undefined ? `${clean(c.text)} [${c.value}]` : clean(c.text);
  if (c.value === undefined || c.value === null) return "–";
  if (c.type === "TIME" || c.type === "NTIME") return moment(Number(c.value));
  if (c.name === "color" || c.name === "address" || c.name === "pc")
    return `0x${BigInt(c.value).toString(16)}`;
  return String(c.value);
}

export class Details implements Panel {
  readonly root = h("div", { class: "details" });

  constructor(
    private app: App,
    private panels: Panels,
  ) {}

  there(): boolean {
    return true;
  }

  update(): void {
    const s = this.app.selected;
    if (!s) {
      fill(this.root, h("p", { class: "quiet" }, t("nothing_selected")));
      return;
    }
    const { spot, detail } = s;
    fill(
      this.root,
      h("h3", null, h("bdi", null, clean(spot.name, 2000) || t("unnamed"))),
      h(
        "dl",
        null,
        this.pair(
          t("duration"),
          spot.flags & 0x80
            ? t("moment")
            : spot.flags & 0x40
              ? t("never_ended")
              : `${duration(spot.end - spot.start)} (${count(spot.end - spot.start)} ns)`,
        ),
        detail?.self === undefined
          ? null
          : this.pair(t("self"), `${duration(detail.self)} (${count(detail.self)} ns)`),
        this.pair(t("start"), moment(spot.start)),
        this.pair(t("end"), moment(spot.end)),
        this.pair(t("row"), this.app.placeOf(s.report, spot.lane)),
        detail ? facts(detail).map(([k, v]) => this.pair(t(k), v)) : null,
      ),
    );
    if (detail)
      add(this.root, [
        this.buttons(detail),
        this.links(s.report, detail),
        this.stack(detail),
        this.columns(detail),
      ]);
  }

  private pair(k: string, v: string): HTMLElement {
    return h("div", null, h("dt", null, k), h("dd", null, h("bdi", null, v)));
  }

  private buttons(d: EventDetail): HTMLElement {
    const rowid = d.columns.map((c) => `${c.name}\t${show(c)}`).join("\n");
    const copy = (text: string) => (): void => copied(text);
    const report = this.app.selected?.report;
    return h(
      "p",
      { class: "actions" },
      h("button", { onclick: copy(`${clean(d.name)}\n${rowid}`) }, t("copy_text")),
      d.sqlite && !this.app.limit
        ? h(
            "button",
            {
              onclick: () =>
                void copySql(this.app, [
                  { r: report, lane: d.lane, level: d.level, event: d.event },
                ]),
            },
            t("copy_sql"),
          )
        : null,
      h("button", { onclick: () => copied(this.app.link()) }, t("copy_link")),
      d.end > d.start && report !== undefined
        ? h("button", { onclick: () => this.app.selectTime(report, d) }, t("select_event"))
        : null,
      report !== undefined ? this.durationsButton(report, d) : null,
    );
  }

  /** How long events of this name last. */
  private durationsButton(report: number, d: EventDetail): HTMLElement | null {
    const kind = this.app.laneRow(report, d.lane)?.type;
    if (!kind || d.end <= d.start || !d.name || this.app.limit || LANES[kind]?.counter) return null;
    return h(
      "button",
      {
        title: t("durations_title"),
        onclick: () => this.panels.showDurations(this.panels.lanesOf(report, kind), d.name),
      },
      t("durations"),
    );
  }

  private links(report: number, d: EventDetail): HTMLElement | null {
    if (!d.links.length) return null;
    return h(
      "section",
      null,
      h("h4", null, t("links")),
      h(
        "ul",
        { class: "links" },
        d.links.map((l) => {
          const later = l.start - d.start;
          return h(
            "li",
            null,
            h("span", { class: "role" }, t(`link_${l.role}` as Word)),
            h(
              "button",
              { class: "link", onclick: () => this.app.select(report, l, true) },
              h("bdi", null, clean(l.name, 120)),
            ),
            h(
              "span",
              { class: "quiet" },
              `${duration(l.end - l.start)} · ${later >= 0 ? t("latency", duration(later)) : t("earlier", duration(-later))}`,
            ),
            h("bdi", { class: "quiet" }, this.app.placeOf(report, l.lane)),
          );
        }),
      ),
      d.more_work ? h("p", { class: "quiet" }, t("first_and_last")) : null,
    );
  }

  private stack(d: EventDetail): HTMLElement | null {
    if (!d.stack.length) return null;
    return h(
      "section",
      null,
      h("h4", null, t("stack")),
      h(
        "ol",
        { class: "stack" },
        d.stack.map((f) =>
          h(
            "li",
            { class: `frame${f.kind}` },
            h("bdi", null, clean(f.name, 300)),
            h(
              "span",
              { class: "quiet" },
              ` ${f.file ? `${clean(f.file, 200)}${f.line ? `:${f.line}` : ""}` : clean(f.module.replace(/.*\//, ""), 100)}`,
            ),
          ),
        ),
      ),
    );
  }

  private columns(d: EventDetail): HTMLElement | null {
    if (!d.columns.length) return null;
    return h(
      "details",
      null,
      h("summary", null, `${t("columns")} (${d.table})`),
      h(
        "table",
        { class: "columns" },
        h(
          "tbody",
          null,
          d.columns.map((c) =>
            h(
              "tr",
              { title: c.doc },
              h("th", { scope: "row" }, c.name),
              h("td", null, h("bdi", null, clean(show(c), 20000))),
            ),
          ),
        ),
      ),
    );
  }
}
