/** What the recording says about itself: diagnostics, losses, damage. */

import type { App } from "../app";
import type { Panel } from "./panels";
import { fill, h } from "../dom";
import { clean, count, moment } from "../format";
import { t } from "../i18n";

const SEVERITY = ["", "info", "warning", "error"];

export class Diagnostics implements Panel {
  readonly root = h("div", { class: "diagnostics" });

  constructor(private app: App) {}

  there(): boolean {
    return this.app.reports.length > 0;
  }

  /** Warnings, errors, what was lost. */
  urgent(): number {
    return this.app.reports.reduce(
      (n, r) =>
        n + r.diagnostics.filter((d) => d.severity > 1).length + r.losses.length + r.damage.length,
      0,
    );
  }

  update(): void {
    fill(
      this.root,
      this.app.reports.map((r) => {
        const quiet = !r.diagnostics.length && !r.losses.length && !r.damage.length && r.complete;
        return h(
          "section",
          null,
          this.app.reports.length > 1 ? h("h3", null, h("bdi", null, clean(r.name))) : null,
          quiet ? h("p", { class: "quiet" }, t("no_diagnostics")) : null,
          r.complete ? null : h("p", { class: "warning" }, t("incomplete")),
          r.damage.length
            ? h(
                "ul",
                null,
                r.damage.map((d) => h("li", { class: "error" }, clean(d))),
              )
            : null,
          r.diagnostics.length
            ? h(
                "ul",
                null,
                r.diagnostics.map((d) =>
                  h(
                    "li",
                    { class: SEVERITY[d.severity] ?? "" },
                    h(
                      "button",
                      {
                        class: "link",
                        title: t("jump"),
                        onclick: () =>
                          this.app.view.reveal(
                            d.time + this.app.offsets[r.id],
                            d.time + this.app.offsets[r.id],
                          ),
                      },
                      moment(d.time),
                    ),
                    " ",
                    h("b", null, clean(d.source)),
                    ": ",
                    h("bdi", null, clean(d.text)),
                  ),
                ),
              )
            : null,
          r.losses.length
            ? h(
                "div",
                null,
                h("h4", null, t("losses")),
                h(
                  "ul",
                  null,
                  r.losses.map((l) =>
                    h(
                      "li",
                      { class: "warning" },
                      `${count(l.events)} × ${clean(l.kind)}: ${clean(l.reason)}${l.tid ? ` [${l.tid}]` : ""}`,
                    ),
                  ),
                ),
              )
            : null,
        );
      }),
    );
  }
}
