/** Facts about the recording, its tables, and what the program wrote. */

import type { App } from "../app";
import type { Panel } from "./panels";
import { fillElement, h } from "../dom";
import { formatBytes, cleanText, formatCount, formatMoment } from "../format";
import { t } from "../i18n";

/** Program output is shown as text: terminal colours are left out, lines stay lines. */
export function outputText(text: string): string {
  return text
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "")
    .split("\n")
    .map((line) => cleanText(line.replace(/\r$/, "")))
    .join("\n");
}

export class Session implements Panel {
  readonly root = h("div", { class: "session" });

  constructor(private app: App) {}

  hasContent(): boolean {
    return this.app.reports.length > 0;
  }

  updatePanel(): void {
    fillElement(
      this.root,
      this.app.reports.map((report) =>
        h(
          "section",
          null,
          h(
            "h3",
            null,
            h("bdi", null, cleanText(report.path)),
            " ",
            h(
              "span",
              { class: "quiet" },
              `${formatBytes(report.bytes)} · ${formatMoment(report.last)}`,
            ),
          ),
          report.facts.length
            ? h(
                "table",
                { class: "columns" },
                h(
                  "tbody",
                  null,
                  report.facts.map((f) =>
                    h(
                      "tr",
                      null,
                      h("th", { scope: "row" }, h("bdi", null, cleanText(f.name))),
                      h("td", null, h("bdi", null, cleanText(f.value, 4000))),
                    ),
                  ),
                ),
              )
            : null,
          h("h4", null, t("tables")),
          h(
            "table",
            { class: "columns" },
            h(
              "tbody",
              null,
              report.tables.map((x) =>
                h(
                  "tr",
                  null,
                  h("th", { scope: "row" }, x.name),
                  h("td", { class: "n" }, formatCount(x.rows)),
                ),
              ),
            ),
          ),
          report.output.length
            ? h(
                "div",
                null,
                h("h4", null, t("output")),
                h(
                  "pre",
                  { class: "output" },
                  report.output.map((o) =>
                    h(
                      "span",
                      {
                        class: o.stream === 2 ? "stderr" : "",
                        title: formatMoment(o.time),
                      },
                      outputText(o.text),
                    ),
                  ),
                ),
              )
            : null,
        ),
      ),
    );
  }
}
