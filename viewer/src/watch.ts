/**
 * What is new on the server: reports that other pages or recordings added, reports that grow while
 * they are recorded, imports under way. A short question now and then, more often while something
 * happens, none while the page is not in sight.
 */

import type { App } from "./app";
import { postForm } from "./add";
import { ServerError } from "./data";
import { fillElement, h } from "./dom";
import { formatBytes, cleanText, formatPercent } from "./format";
import { t } from "./i18n";

interface Job {
  id: number;
  name: string;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  done: number; // bytes of `all` that are read; -1 where that is not known
  all: number;
  report: number;
  error: string;
}

interface State {
  reports: { live: number; version: number; changed?: number }[];
  jobs?: Job[];
}

const IDLE_MS = 3000,
  BUSY_MS = 400;

export class Watch {
  readonly root = h("div", { class: "jobs", hidden: true });
  private versions: number[] = [];
  // jobs whose end was said, or that ended before this page began
  private said = new Set<number>();
  private timer = 0;
  private looking = false;

  constructor(private app: App) {
    app.on("session", () => {
      if (!this.timer) this.lookNow();
    });
    document.addEventListener("visibilitychange", () => !document.hidden && this.lookNow());
  }

  /** Look now, and from then on. */
  lookNow(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.askState(), 0);
  }

  private async askState(): Promise<void> {
    if (this.looking || this.app.limit) return; // an exported page never changes
    this.looking = true;
    const state = await this.app.ask<State>("state"), // which says when nobody answers
      busy = state !== undefined && (await this.takeState(state));
    this.looking = false;
    clearTimeout(this.timer);
    if (!document.hidden)
      this.timer = window.setTimeout(() => void this.askState(), busy ? BUSY_MS : IDLE_MS);
  }

  /** Whether something is going on. */
  private async takeState(state: State): Promise<boolean> {
    const app = this.app,
      jobs = state.jobs ?? [],
      running = jobs.filter((j) => j.state === "waiting" || j.state === "running");
    const live = state.reports.some((r) => r.live);
    this.drawJobs(running);
    if (state.reports.length > app.reports.length) {
      this.versions = state.reports.map((r) => r.version);
      await app.reloadReports();
    }
    const grown = state.reports.flatMap((r, i) =>
      this.versions[i] !== undefined && this.versions[i] !== r.version ? [i] : [],
    );
    this.versions = state.reports.map((r) => r.version);
    if (grown.length) await app.renewReports(grown);
    // a report that has ended is shown whole before it is said to have ended
    if (live !== app.live) {
      app.live = live;
      app.emitEvent("live");
    }
    this.sayFailed(jobs);
    this.sayChanged(state);
    return running.length > 0 || live;
  }

  /** Files that are not what was opened any more; of those that were written to nothing is true. */
  private sayChanged(state: State): void {
    const { reports } = this.app,
      listNames = (how: number): string =>
        state.reports
          .flatMap((r, i) =>
            r.changed === how && reports[i] ? [cleanText(reports[i].name, 60)] : [],
          )
          .join(", "),
      [replaced, written] = [listNames(1), listNames(2)];
    this.app.sayFiles(
      [replaced && t("replaced", replaced), written && t("written_to", written)]
        .filter(Boolean)
        .join("\n"),
      written !== "",
    );
  }

  private first = true;
  private sayFailed(jobs: Job[]): void {
    const failed = jobs.filter((j) => j.state === "failed" && !this.said.has(j.id));
    for (const j of failed) this.said.add(j.id);
    if (failed.length && !this.first)
      this.app.showNotice(
        [this.app.notice, ...failed.map((j) => cleanText(j.error, 600))].filter(Boolean).join("\n"),
      );
    this.first = false;
  }

  private drawJobs(running: Job[]): void {
    this.root.hidden = running.length === 0;
    fillElement(
      this.root,
      running.map((j) =>
        h(
          "div",
          { role: "status" },
          h(
            "bdi",
            null,
            t(
              "importing",
              cleanText(j.name, 60),
              j.done >= 0 && j.all > 0
                ? formatPercent(Math.min(1, j.done / j.all))
                : formatBytes(j.all),
            ),
          ),
          " ",
          h("button", { onclick: () => void this.cancelJob(j) }, t("cancel")),
        ),
      ),
    );
  }

  private async cancelJob(j: Job): Promise<void> {
    try {
      await postForm("cancel", { job: j.id });
    } catch (error) {
      this.app.showNotice(
        error instanceof ServerError ? cleanText(error.message, 600) : t("error"),
      );
    }
    this.lookNow();
  }
}
