/** The lower part of the page: tabs. A tab that would have nothing to show is not there. */

import type { App } from "../app";
import type { ResultRef } from "../kernel/data";
import { h } from "../dom";
import { t, type Word } from "../i18n";
import { Details } from "./details";
import { Events } from "./events";
import { Findings } from "./findings";
import { Kernels } from "./kernels";
import { Statistics } from "./statistics";
import { Functions } from "./functions";
import { Compare } from "./compare";
import { Diagnostics } from "./diagnostics";
import { PathTable } from "./path";
import { Query } from "./query";
import { Session } from "./session";

export interface Panel {
  readonly root: HTMLElement;
  /** Whether there is anything to show. */
  hasContent(): boolean;
  /** How many things that should not be overlooked it has. */
  countUrgent?(): number;
  /** It came into sight, or what it depends on changed while it is. */
  updatePanel(): void;
}

export interface LaneRef {
  report: number;
  lane: number;
}

export class Panels {
  readonly root: HTMLElement;
  private tabs: HTMLElement;
  private body: HTMLElement;
  private current: Word = "details";
  private offered = false; // findings are shown though nobody asked for them
  private awaited = ""; // the panel of a link, until there is something to show in it
  private chosen = false; // by the user, or by what the user selected
  readonly details: Details;
  readonly events: Events;
  readonly statistics: Statistics;
  readonly findings: Findings;
  readonly kernels: Kernels;
  readonly path: PathTable;
  private query: Query;
  private all: [Word, Panel][];

  constructor(private app: App) {
    this.details = new Details(app, this);
    this.events = new Events(app);
    this.statistics = new Statistics(app, this);
    this.findings = new Findings(app, this);
    this.findings.onArrive = () => this.offerFindings();
    for (const what of ["pointerdown", "keydown"])
      this.findings.root.addEventListener(what, () => (this.offered = false));
    this.kernels = new Kernels(app, this);
    this.kernels.onArrive = () => this.offerKernels();
    this.path = new PathTable(app);
    this.query = new Query(app);
    this.all = [
      ["details", this.details],
      ["events", this.events],
      ["statistics", this.statistics],
      ["kernels", this.kernels],
      ["findings", this.findings],
      ["critical", this.path],
      ["functions", new Functions(app)],
      ["compare", new Compare(app)],
      ["sql", this.query],
      ["diagnostics", new Diagnostics(app)],
      ["session", new Session(app)],
    ];
    let linked = false;
    this.tabs = h("div", { class: "tabs", role: "tablist" });
    this.tabs.addEventListener("keydown", (event) => this.pressArrow(event));
    this.body = h("div", { class: "panel", role: "tabpanel", tabindex: 0 });
    this.root = h("div", { class: "panels" }, this.tabs, this.body);
    for (const what of ["ready", "words"]) app.on(what, () => this.drawTabs());
    app.on("built", () => {
      /*
       * With nothing selected there is nothing else to show. Rows that nobody asked for are not
       * read for this.
       */
      if (!this.chosen && !app.selected && !app.unread) this.current = "statistics";
      this.drawTabs();
      if (!linked) void this.openLinked();
      linked = true;
    });
    app.on("error", () => {
      if (this.body.hidden === app.lost) return;
      this.body.hidden = app.lost; // what it says may no longer be so
      if (!app.lost) this.getPanel().updatePanel();
    });
    app.on("select", () => {
      if (!app.selected || app.selected.detail) this.refreshPanels(["details"]);
      else this.showPanel("details", !app.selected.byPanel && this.current !== "events");
    });
    app.on("statistics", () => this.showPanel("statistics"));
    app.on("fold", () => this.refreshPanels(["statistics", "functions", "compare"]));
    for (const what of ["view", "range"])
      app.on(what, () => this.refreshPanels(["statistics", "events", "functions", "critical"]));
    this.drawTabs();
  }

  /** What the link that was opened had selected and shown. */
  private async openLinked(): Promise<void> {
    const which = await this.app.openLink(),
      there = this.all.find(([w, panel]) => w === which && panel.hasContent());
    if (there) this.showPanel(there[0]);
    else this.awaited = which;
    this.app.linked = null;
    this.app.emitEvent("link");
  }

  /** How much there is that should not be overlooked. */
  private markUrgent(panel: Panel): string {
    const n = panel.countUrgent?.() ?? 0;
    return n ? ` (${n})` : "";
  }

  /** Update the tabs. Problems are shown at once if the user is not looking at anything yet. */
  private offerFindings(): void {
    const first = !this.chosen && !this.app.selected && !this.app.linked?.get("p");
    if (first && this.current !== "findings" && this.findings.countUrgent()) {
      this.current = "findings";
      this.offered = true;
      this.drawTabs();
      return;
    }
    this.nameTabs();
  }

  /** Measured kernels are what a report without a time line is about. */
  private offerKernels(): void {
    const { kernels } = this,
      shown = this.tabs.querySelector("[data-tab=kernels]") !== null;
    this.app.emitEvent("kernels");
    if (!kernels.hasContent() && !shown) return;
    if (kernels.hasContent() && this.awaited === "kernels" && !this.chosen) {
      this.showPanel("kernels");
      return;
    }
    const first = !this.chosen && !this.app.selected && !this.app.linked?.get("p");
    if (first && kernels.hasContent() && this.app.rows.byLane.size === 0) this.current = "kernels";
    this.drawTabs();
  }

  private nameTabs(): void {
    const shown = this.all.filter(([, panel]) => panel.hasContent()),
      tabs = [...this.tabs.children] as HTMLElement[];
    if (tabs.length !== shown.length) {
      this.drawTabs();
      return;
    }
    shown.forEach(([w, panel], i) => (tabs[i].textContent = `${t(w)}${this.markUrgent(panel)}`));
  }

  private refreshPanels(which: Word[]): void {
    if (which.includes(this.current)) this.getPanel().updatePanel();
  }

  private getPanel(): Panel {
    return this.all.find(([w]) => w === this.current)![1];
  }

  private drawTabs(): void {
    if (!this.getPanel().hasContent()) this.current = "details";
    this.tabs.setAttribute("aria-label", t("panels"));
    this.body.setAttribute("aria-label", t(this.current));
    this.tabs.replaceChildren(
      ...this.all
        .filter(([, panel]) => panel.hasContent())
        .map(([w, panel]) =>
          h(
            "button",
            {
              role: "tab",
              "aria-selected": String(w === this.current),
              class: w === this.current ? "on" : "",
              "data-tab": w,
              onclick: () => this.showPanel(w),
            },
            `${t(w)}${this.markUrgent(panel)}`,
          ),
        ),
    );
    this.body.replaceChildren(this.getPanel().root);
    this.app.panel = this.current;
    this.app.emitEvent("panel");
    this.getPanel().updatePanel();
  }

  /** Left and Right go from tab to tab. */
  private pressArrow(event: KeyboardEvent): void {
    const all = [...this.tabs.querySelectorAll("button")],
      i = all.indexOf(document.activeElement as HTMLButtonElement),
      by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined || i < 0) return;
    event.preventDefault();
    event.stopPropagation();
    this.showPanel(all[(i + by + all.length) % all.length].dataset.tab as Word);
    this.tabs.querySelector<HTMLElement>("button.on")?.focus();
  }

  showPanel(which: Word, always = true): void {
    const changed = this.current !== which;
    this.chosen = true;
    /*
     * The table stays while the user steps through events from it. The table of events always
     * stays, and so do findings that are being looked at.
     */
    if (
      !always &&
      !this.offered &&
      this.current !== "details" &&
      this.current !== "statistics" &&
      this.current !== "diagnostics" &&
      this.current !== "session"
    ) {
      this.refreshPanels([this.current]);
      return;
    }
    this.current = which;
    this.offered = false;
    if (changed) this.drawTabs();
    else this.getPanel().updatePanel();
  }

  /** The events of some rows; of one name, where it is given, or of all names of one form. */
  showEvents(lanes: LaneRef[], name?: string, form?: number): void {
    this.events.chooseEvents(lanes, name, form);
    this.showPanel("events");
  }

  /** The same with how their durations are spread. */
  showDurations(lanes: LaneRef[], name: string, form?: number): void {
    this.events.chooseEvents(lanes, name, form);
    this.events.showSpread(true);
    this.showPanel("events");
  }

  /** All rows of a report that have events of a kind. */
  lanesOf(report: number, kind: string): LaneRef[] {
    return [...this.app.rows.byLane.values()]
      .filter((row) => row.report === report && row.type === kind)
      .map((line) => ({ report: line.report, lane: line.lane! }));
  }

  /** SQL over a report, asked at once. */
  showQuery(report: number, sql: string): void {
    this.showPanel("sql");
    this.query.askText(report, sql);
  }

  /** A measured kernel. */
  showKernel(ref: ResultRef): void {
    this.showPanel("kernels");
    this.kernels.openResult(ref);
  }

  showStatistics(lanes: LaneRef[]): void {
    this.statistics.chooseRows(lanes);
    this.showPanel("statistics");
  }
}

/**
 * The stretch that panels are about, in times of one report: the selection, or otherwise what is in
 * sight.
 */
export function windowOf(app: App, report: number): { t0: number; t1: number; selected: boolean } {
  const [a, b] = app.range ?? [app.view.t0, app.view.t1],
    offset = app.offsets[report] ?? 0;
  return { t0: Math.floor(a - offset), t1: Math.ceil(b - offset), selected: app.range !== null };
}
