/** One event: what it is, in words and in all its columns; its stack; what it is tied to. */

import { LANES } from "generated/constants";
import type { App } from "../app";
import type { Column, EventDetail, Frame, Spot } from "../data";
import type { Panel, Panels } from "./panels";
import { copyAndSay, copySql } from "../copy";
import { appendChildren, fillElement, h } from "../dom";
import {
  formatBytes,
  cleanText,
  formatCount,
  formatDuration,
  formatMoment,
  formatPercent,
} from "../format";
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

const MOST_RESULTS = 20; // measured kernels that a launch leads to

function findColumn(detail: EventDetail, name: string): Column | undefined {
  return detail.columns.find((column) => column.name === name);
}

function readNumber(detail: EventDetail, name: string): number {
  return Number(findColumn(detail, name)?.value ?? NaN);
}

function readText(detail: EventDetail, name: string): string {
  return cleanText(findColumn(detail, name)?.text ?? "", 1000);
}

type Facts = [Word, string][];

function kernelFacts(detail: EventDetail): Facts {
  const writeTriple = (what: string): string => {
    const v = ["x", "y", "z"].map((key) => readNumber(detail, `${what}_${key}`));
    return `${v.join(" × ")} = ${formatCount(v.reduce((a, b) => a * b, 1))}`;
  };
  const full = readText(detail, "demangled"),
    limit = LIMITS[readNumber(detail, "limiter")];
  const out: Facts = full && full !== detail.name ? [["function", full]] : [];
  out.push(
    ["grid", writeTriple("grid")],
    ["block", writeTriple("block")],
    ["registers", formatCount(readNumber(detail, "registers"))],
  );
  out.push([
    "shared_memory",
    ["static_shared", "dynamic_shared"]
      .map((name) => formatBytes(readNumber(detail, name)))
      .join(" + "),
  ]);
  if (readNumber(detail, "occupancy") > 0)
    out.push([
      "occupancy",
      `${formatPercent(readNumber(detail, "occupancy"))}${limit ? ` (${t(limit)})` : ""}`,
    ]);
  if (readNumber(detail, "waves") > 0) out.push(["waves", readNumber(detail, "waves").toFixed(2)]);
  return out;
}

function memoryFacts(detail: EventDetail): Facts {
  const n = readNumber(detail, "bytes"),
    ns = detail.end - detail.start,
    memoryKind = (what: string): string =>
      MEMORY[readNumber(detail, what)] ? t(MEMORY[readNumber(detail, what)]) : "?";
  const out: Facts = [["bytes", `${formatBytes(n)} (${formatCount(n)})`]];
  if (ns > 0) out.push(["bandwidth", `${(n / ns).toFixed(n / ns >= 10 ? 1 : 3)} GB/s`]);
  if (
    readNumber(detail, "src_kind") >= 0 &&
    readNumber(detail, "src_kind") + readNumber(detail, "dst_kind") > 0
  )
    out.push(["memory_kinds", `${memoryKind("src_kind")} → ${memoryKind("dst_kind")}`]);
  return out;
}

/** What an engineer looks at first, by table. */
const FACTS: Record<string, (d: EventDetail) => Facts> = {
  cuda_kernel: kernelFacts,
  cuda_memcpy: memoryFacts,
  cuda_memset: memoryFacts,
  osrt: (detail) => [
    ["path", readText(detail, "path")],
    ["held_by", readNumber(detail, "holder") > 0 ? String(readNumber(detail, "holder")) : ""],
    ["errno", readNumber(detail, "error") > 0 ? String(readNumber(detail, "error")) : ""],
  ],
  sched: (detail) => [
    ["cpu_core", String(readNumber(detail, "cpu"))],
    [
      "switched_out",
      AFTER[readNumber(detail, "after")] ? t(AFTER[readNumber(detail, "after")] as Word) : "",
    ],
  ],
  state: (detail) => [
    ["state_kind", readText(detail, "state")],
    ["reason", readText(detail, "reason")],
    ["cpu_core", readNumber(detail, "cpu") >= 0 ? String(readNumber(detail, "cpu")) : ""],
    ["path", readText(detail, "path")],
    ["held_by", readNumber(detail, "holder") > 0 ? String(readNumber(detail, "holder")) : ""],
    [
      "waker",
      findColumn(detail, "waker")?.text !== undefined
        ? showColumn(findColumn(detail, "waker")!)
        : "",
    ],
    [
      "switched_out",
      AFTER[readNumber(detail, "after")] ? t(AFTER[readNumber(detail, "after")] as Word) : "",
    ],
  ],
  sample: (detail) => [["cpu_core", String(readNumber(detail, "cpu"))]],
  collective: (detail) => [
    [
      "elements",
      readNumber(detail, "in_elements") >= 0
        ? `${formatCount(readNumber(detail, "in_elements"))} ${readText(detail, "dtype")}`
        : "",
    ],
    ["group", readText(detail, "description") || readText(detail, "group")],
    [
      "ranks",
      readText(detail, "ranks") ||
        (readNumber(detail, "group_size") > 0 ? formatCount(readNumber(detail, "group_size")) : ""),
    ],
  ],
  op: (detail) => [
    ["shapes", readText(detail, "shapes")],
    ["flops", readNumber(detail, "flops") > 0 ? formatCount(readNumber(detail, "flops")) : ""],
    ["modules", readText(detail, "modules")],
  ],
};

function listFacts(detail: EventDetail): Facts {
  return (FACTS[detail.table]?.(detail) ?? []).filter(([, value]) => value !== "");
}

export function showColumn(column: Column): string {
  if (column.text !== undefined)
    return column.value !== undefined
      ? `${cleanText(column.text)} [${column.value}]`
      : cleanText(column.text);
  if (column.value === undefined || column.value === null) return "–";
  if (column.type === "TIME" || column.type === "NTIME") return formatMoment(Number(column.value));
  if (column.name === "color" || column.name === "address" || column.name === "pc")
    return `0x${BigInt(column.value).toString(16)}`;
  return String(column.value);
}

/** A duration as one reads it, and to the nanosecond. */
function writeExactly(ns: number): string {
  return `${formatDuration(ns)} (${formatCount(ns)} ns)`;
}

function describeDuration(spot: Spot): string {
  if (spot.flags & 0x80) return t("moment");
  return spot.flags & 0x40 ? t("never_ended") : writeExactly(spot.end - spot.start);
}

/** File and line of a frame, or its module if these are not known. */
function placeOfFrame(frame: Frame): string {
  if (!frame.file) return cleanText(frame.module.replace(/.*\//, ""), 100);
  const line = frame.line ? `:${frame.line}` : "";
  return `${cleanText(frame.file, 200)}${line}`;
}

export class Details implements Panel {
  readonly root = h("div", { class: "details" });

  constructor(
    private app: App,
    private panels: Panels,
  ) {}

  hasContent(): boolean {
    return true;
  }

  updatePanel(): void {
    const selected = this.app.selected;
    if (!selected) {
      fillElement(this.root, h("p", { class: "quiet" }, t("nothing_selected")));
      return;
    }
    const { spot, detail } = selected;
    fillElement(
      this.root,
      h("h3", null, h("bdi", null, cleanText(spot.name, 2000) || t("unnamed"))),
      h(
        "dl",
        null,
        this.makePair(t("duration"), describeDuration(spot)),
        detail?.self === undefined ? null : this.makePair(t("self"), writeExactly(detail.self)),
        this.makePair(t("start"), formatMoment(spot.start)),
        this.makePair(t("end"), formatMoment(spot.end)),
        this.makePair(t("row"), this.app.placeOf(selected.report, spot.lane)),
        detail ? listFacts(detail).map(([k, value]) => this.makePair(t(k), value)) : null,
      ),
    );
    if (detail)
      appendChildren(this.root, [
        this.makeButtons(detail),
        detail.table === "cuda_kernel" ? this.makeMeasured(selected.report, detail) : null,
        this.listLinks(selected.report, detail),
        this.listStack(detail),
        this.listColumns(detail),
      ]);
  }

  private makePair(key: string, value: string): HTMLElement {
    return h("div", null, h("dt", null, key), h("dd", null, h("bdi", null, value)));
  }

  private makeButtons(detail: EventDetail): HTMLElement {
    const lines = detail.columns
      .map((column) => `${column.name}\t${showColumn(column)}`)
      .join("\n");
    const copyOnClick = (text: string) => (): void => copyAndSay(text);
    const report = this.app.selected?.report;
    return h(
      "p",
      { class: "actions" },
      h("button", { onclick: copyOnClick(`${cleanText(detail.name)}\n${lines}`) }, t("copy_text")),
      detail.sqlite && !this.app.limit
        ? h(
            "button",
            {
              onclick: () =>
                void copySql(this.app, [
                  { r: report, lane: detail.lane, level: detail.level, event: detail.event },
                ]),
            },
            t("copy_sql"),
          )
        : null,
      h("button", { onclick: () => copyAndSay(this.app.makeLink()) }, t("copy_link")),
      detail.end > detail.start && report !== undefined
        ? h("button", { onclick: () => this.app.selectTime(report, detail) }, t("select_event"))
        : null,
      report !== undefined ? this.durationsButton(report, detail) : null,
    );
  }

  /** How long events of this name last. */
  private durationsButton(report: number, detail: EventDetail): HTMLElement | null {
    const kind = this.app.laneRow(report, detail.lane)?.type;
    if (!kind || detail.end <= detail.start || !detail.name || LANES[kind]?.counter) return null;
    return h(
      "button",
      {
        title: t("durations_title"),
        onclick: () => this.panels.showDurations(this.panels.lanesOf(report, kind), detail.name),
      },
      t("durations"),
    );
  }

  /** What was measured of a kernel, and the command that measures this launch. */
  private makeMeasured(report: number, detail: EventDetail): HTMLElement | null {
    const shapeOf = (what: string): number[] =>
        ["x", "y", "z"].map((key) => readNumber(detail, `${what}_${key}`)),
      { kernels } = this.panels,
      name = findColumn(detail, "name")?.text ?? "",
      results = kernels.findResults(name, shapeOf("grid"), shapeOf("block"));
    if (!name || (this.app.limit && !results.length)) return null;
    const command = h("p", { class: "next", hidden: true });
    if (!this.app.limit) void this.fillCommand(command, report, detail, name);
    return h(
      "section",
      null,
      results.length
        ? h(
            "p",
            { class: "actions" },
            t("kernel_measured"),
            results
              .slice(0, MOST_RESULTS)
              .map((entry) =>
                h(
                  "button",
                  { class: "measured", onclick: () => this.panels.showKernel(entry) },
                  h("bdi", null, kernels.nameResult(entry)),
                ),
              ),
          )
        : null,
      command,
    );
  }

  private async fillCommand(
    place: HTMLElement,
    report: number,
    detail: EventDetail,
    name: string,
  ): Promise<void> {
    const [pid, correlation] = ["process", "correlation"].map((key) => readNumber(detail, key));
    if (!Number.isFinite(pid) || !Number.isFinite(correlation)) return;
    const question = { r: report, name, pid, correlation },
      answer = await this.app.ask<{ command: string }>("launch", question);
    if (!answer) return;
    place.hidden = false;
    fillElement(
      place,
      `${t("kernel_measure")} `,
      h("code", null, cleanText(answer.command, 1000)),
      " ",
      h("button", { onclick: () => copyAndSay(answer.command) }, t("copy")),
    );
  }

  private listLinks(report: number, detail: EventDetail): HTMLElement | null {
    if (!detail.links.length) return null;
    const works = detail.links.filter((spot) => spot.role === "work");
    return h(
      "section",
      null,
      h("h4", null, t("links")),
      h(
        "ul",
        { class: "links" },
        detail.links.map((spot) => {
          const there = spot.report ?? report,
            offsets = this.app.offsets,
            later = spot.start + offsets[there] - detail.start - offsets[report],
            distance =
              later >= 0
                ? t("latency", formatDuration(later))
                : t("earlier", formatDuration(-later));
          return h(
            "li",
            null,
            h("span", { class: "role" }, t(`link_${spot.role}` as Word)),
            h(
              "button",
              { class: "link", onclick: () => this.app.select(there, spot, true) },
              h("bdi", null, cleanText(spot.name, 120)),
            ),
            spot.shape ? h("bdi", { class: "quiet" }, cleanText(spot.shape, 300)) : null,
            h("span", { class: "quiet" }, `${formatDuration(spot.end - spot.start)} · ${distance}`),
            h("bdi", { class: "quiet" }, this.app.placeOf(there, spot.lane)),
          );
        }),
      ),
      detail.more_work ? h("p", { class: "quiet" }, t("first_and_last")) : null,
      works.length > 1 && !detail.more_work
        ? h(
            "p",
            { class: "quiet" },
            t(
              "work_in_all",
              formatDuration(works.reduce((sum, spot) => sum + spot.end - spot.start, 0)),
            ),
          )
        : null,
    );
  }

  private listStack(detail: EventDetail): HTMLElement | null {
    if (!detail.stack.length) return null;
    return h(
      "section",
      null,
      h("h4", null, t("stack")),
      h(
        "ol",
        { class: "stack" },
        detail.stack.map((frame) =>
          h(
            "li",
            { class: `frame${frame.kind}` },
            h("bdi", null, cleanText(frame.name, 300)),
            h("span", { class: "quiet" }, ` ${placeOfFrame(frame)}`),
          ),
        ),
      ),
    );
  }

  private listColumns(detail: EventDetail): HTMLElement | null {
    if (!detail.columns.length) return null;
    return h(
      "details",
      null,
      h("summary", null, `${t("columns")} (${detail.table})`),
      h(
        "table",
        { class: "columns" },
        h(
          "tbody",
          null,
          detail.columns.map((column) =>
            h(
              "tr",
              { title: column.doc },
              h("th", { scope: "row" }, column.name),
              h("td", null, h("bdi", null, cleanText(showColumn(column), 20000))),
            ),
          ),
        ),
      ),
    );
  }
}
