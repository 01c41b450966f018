/** Facts about the recording, its tables, and what the program wrote. */

import type { App } from "../app";
import type { Panel } from "./panels";
import { fill, h } from "../dom";
import { bytes, clean, count, moment } from "../format";
import { t } from "../i18n";

/** Program output is shown as text: terminal colours are left out, lines stay lines. */
export function outputText(s: string): string {
  return s
    .replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "")
    .split("\n")
    .map((l) => clean(l.replace(/\r$/, "")))
    .join("\n");
}

export class Session implements Panel {
  readonly root = h("div", { class: "session" });

  constructor(private app: App) {}

  there(): boolean {
    return this.app.reports.length > 0;
  }

  update(): void {
    fill(
      this.root,
      this.app.reports.map((r) =>
        h(
          "section",
          null,
          h(
            "h3",
            null,
            h("bdi", null, clean(r.path)),
            " ",
            h("span", { class: "quiet" }, `${bytes(r.bytes)} · ${moment(r.last)}`),
          ),
          r.facts.length
            ? h(
                "table",
                { class: "columns" },
                h(
                  "tbody",
                  null,
                  r.facts.map((f) =>
                    h(
                      "tr",
                      null,
                      h("th", { scope: "row" }, h("bdi", null, clean(f.name))),
                      h("td", null, h("bdi", null, clean(f.value, 4000))),
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
              r.tables.map((x) =>
                h(
                  "tr",
                  null,
                  h("th", { scope: "row" }, x.name),
                  h("td", { class: "n" }, count(x.rows)),
                ),
              ),
            ),
          ),
          r.output.length
            ? h(
                "div",
                null,
                h("h4", null, t("output")),
                h(
                  "pre",
                  { class: "output" },
                  r.output.map((o) =>
                    h(
                      "span",
                      {
                        class: o.stream === 2 ? "stderr" : "",
                        title: moment(o.time),
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
