/** What lines and instructions cost: a bar of each metric beside them, the hottest first. */

import { fillElement, h } from "../dom";
import { cleanText } from "../format";
import { t } from "../i18n";
import { alignNumbers, sortHead, type Sorting } from "../panels/grid";
import { formatFigure } from "./figure";
import type { SourceLine, SourceTable, Words } from "./data";
import { Listing } from "./listing";
import { addTip, explainFigure } from "./tips";

const MOST_LINES = 400;

type Key = "place" | `${number}`;

/** Instructions of one line of source, as one. */
function sumLines(lines: SourceLine[]): SourceLine[] {
  const sums = new Map<string, SourceLine>();
  for (const line of lines) {
    const key = `${line.file}:${line.line}`,
      sum = sums.get(key);
    if (!sum) {
      sums.set(key, { ...line, address: null, sass: "", values: [...line.values] });
      continue;
    }
    sum.values = sum.values.map((value, i) => {
      const more = line.values[i];
      return value === null || more === null ? (value ?? more) : value + more;
    });
  }
  return [...sums.values()];
}

function placeOf(line: SourceLine): string {
  return line.file ? `${line.file.replace(/.*\//, "")}:${line.line}` : "";
}

export class SourceView {
  readonly root = h("div", { class: "ksource" });
  private byLine = false;
  private beside = false;
  private sorting: Sorting<Key> = { key: "0", down: true };

  constructor(
    private table: SourceTable,
    private words: Words,
  ) {
    this.byLine = table.lines.every((line) => line.address === null);
    this.draw();
  }

  private get lines(): SourceLine[] {
    const { key, down } = this.sorting,
      lines = this.byLine ? sumLines(this.table.lines) : [...this.table.lines],
      sign = down ? -1 : 1;
    if (key === "place")
      return lines.sort(
        (a, b) =>
          sign *
          (this.byLine
            ? a.file.localeCompare(b.file) || a.line - b.line
            : (a.address ?? 0) - (b.address ?? 0)),
      );
    return lines.sort((a, b) => sign * ((a.values[+key] ?? -1) - (b.values[+key] ?? -1)));
  }

  private draw(): void {
    if (this.beside) {
      fillElement(
        this.root,
        h("h4", null, h("bdi", null, cleanText(this.table.name, 300))),
        this.makeNote(),
        this.makeChoice(),
        new Listing(this.table).root,
      );
      return;
    }
    const lines = this.lines;
    fillElement(
      this.root,
      h("h4", null, h("bdi", null, cleanText(this.table.name, 300))),
      this.makeNote(),
      this.makeChoice(),
      h(
        "table",
        { class: "grid" },
        h("thead", null, h("tr", null, this.makeHeads())),
        h(
          "tbody",
          null,
          lines.slice(0, MOST_LINES).map((line) => this.makeRow(line)),
        ),
      ),
      lines.length > MOST_LINES
        ? h("p", { class: "quiet" }, t("first_of", MOST_LINES), ` / ${lines.length}`)
        : null,
    );
  }

  private makeNote(): HTMLElement | null {
    const { note } = this.table;
    return note ? h("p", { class: "quiet" }, h("bdi", null, cleanText(note, 500))) : null;
  }

  private makeChoice(): HTMLElement | null {
    const { lines } = this.table,
      both = lines.some((line) => line.address !== null) && lines.some((line) => line.file);
    if (!both) return null;
    const makeButton = (text: string, on: boolean, byLine: boolean, beside = false): HTMLElement =>
      h(
        "button",
        {
          class: on ? "on" : "",
          "aria-pressed": String(on),
          onclick: () => {
            this.byLine = byLine;
            this.beside = beside;
            this.draw();
          },
        },
        text,
      );
    return h(
      "p",
      { class: "actions" },
      makeButton(t("kernel_by_instruction"), !this.byLine && !this.beside, false),
      makeButton(t("kernel_by_line"), this.byLine && !this.beside, true),
      makeButton(t("kernel_beside"), this.beside, this.byLine, true),
    );
  }

  private makeHeads(): HTMLElement[] {
    const draw = (): void => this.draw(),
      place = this.byLine ? t("kernel_line") : t("kernel_address");
    return [
      sortHead(this.sorting, "place", place, draw, false),
      ...(this.byLine
        ? []
        : [
            h("th", { scope: "col" }, t("kernel_instruction")),
            h("th", { scope: "col" }, t("kernel_line")),
          ]),
      ...this.table.metrics.map((metric, i) => {
        const head = sortHead(this.sorting, `${i}`, cleanText(metric.label), draw);
        addTip(head, () => explainFigure(metric, this.words));
        return alignNumbers(head);
      }),
    ];
  }

  private makeRow(line: SourceLine): HTMLElement {
    const place = h(
        "td",
        { title: cleanText(line.file) },
        h("bdi", null, cleanText(placeOf(line))),
      ),
      address = line.address === null ? "" : line.address.toString(16).padStart(4, "0");
    return h(
      "tr",
      null,
      this.byLine ? null : h("td", { class: "code" }, address),
      this.byLine ? null : h("td", { class: "code" }, h("bdi", null, cleanText(line.sass, 200))),
      place,
      line.values.map((value, i) => this.makeCell(value, i)),
    );
  }

  private makeCell(value: number | null, i: number): HTMLElement {
    const all = this.table.lines.map((line) => line.values[i] ?? 0),
      sum = all.reduce((a, b) => a + b, 0),
      share = value !== null && sum > 0 ? value / sum : 0;
    return h(
      "td",
      { class: "n bar", style: { backgroundSize: `${(share * 100).toFixed(1)}% 100%` } },
      value === null ? "" : formatFigure(value, this.table.metrics[i].unit),
      h("span", { class: "quiet" }, share > 0 ? ` ${(share * 100).toFixed(1)} %` : ""),
    );
  }
}
