/** What the recording says about itself: diagnostics, losses, damage. */

import type { App } from "../app";
import type { Panel } from "./panels";
import { fillElement, h } from "../dom";
import { cleanText, formatCount, formatMoment } from "../format";
import { t } from "../i18n";

const SEVERITY = ["", "info", "warning", "error"];

export class Diagnostics implements Panel {
  readonly root = h("div", { class: "diagnostics" });

  constructor(private app: App) {}

  hasContent(): boolean {
    return this.app.reports.length > 0;
  }

  /** Warnings, errors, what was lost. */
  countUrgent(): number {
    return this.app.reports.reduce(
      (n, report) =>
        n +
        report.diagnostics.filter((d) => d.severity > 1).length +
        report.losses.length +
        report.damage.length,
      0,
    );
  }

  updatePanel(): void {
    fillElement(
      this.root,
      this.app.reports.map((report) => {
        const quiet =
          !report.diagnostics.length &&
          !report.losses.length &&
          !report.damage.length &&
          report.complete;
        return h(
          "section",
          null,
          this.app.reports.length > 1
            ? h("h3", null, h("bdi", null, cleanText(report.name)))
            : null,
          quiet ? h("p", { class: "quiet" }, t("no_diagnostics")) : null,
          report.complete ? null : h("p", { class: "warning" }, t("incomplete")),
          report.damage.length
            ? h(
                "ul",
                null,
                report.damage.map((text) => h("li", { class: "error" }, cleanText(text))),
              )
            : null,
          report.diagnostics.length
            ? h(
                "ul",
                null,
                report.diagnostics.map((d) =>
                  h(
                    "li",
                    { class: SEVERITY[d.severity] ?? "" },
                    h(
                      "button",
                      {
                        class: "link",
                        title: t("jump"),
                        onclick: () =>
                          this.app.view.revealSpan(
                            d.time + this.app.offsets[report.id],
                            d.time + this.app.offsets[report.id],
                          ),
                      },
                      formatMoment(d.time),
                    ),
                    " ",
                    h("b", null, cleanText(d.source)),
                    ": ",
                    h("bdi", null, cleanText(d.text)),
                  ),
                ),
              )
            : null,
          report.losses.length
            ? h(
                "div",
                null,
                h("h4", null, t("losses")),
                h(
                  "ul",
                  null,
                  report.losses.map((loss) => {
                    const thread = loss.tid ? ` [${loss.tid}]` : "",
                      what = `${formatCount(loss.events)} × ${cleanText(loss.kind)}`;
                    return h(
                      "li",
                      { class: "warning" },
                      `${what}: ${cleanText(loss.reason)}${thread}`,
                    );
                  }),
                ),
              )
            : null,
        );
      }),
    );
  }
}
