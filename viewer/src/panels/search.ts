/** Searching events by name: how many match, which names, and stepping through them. */

import type { App } from "../app";
import { ServerError, type Group, type Spot } from "../data";
import { fillElement, h, delayCalls } from "../dom";
import { cleanText, formatCount, formatDuration } from "../format";
import { t } from "../i18n";

/** How many events match in a report, and what they are called. */
interface Found {
  names: Group[];
  count: number;
  distinct: number;
}

export class SearchBar {
  readonly root: HTMLElement;
  private input: HTMLInputElement;
  private result = h("span", { class: "quiet found", role: "status" });
  private list = h("div", { class: "foundlist", hidden: true });
  private regex: HTMLInputElement;
  private matchCase: HTMLInputElement;
  private turn = 0;
  private stepping = false; // the list has been left for the matches themselves

  constructor(private app: App) {
    this.input = h("input", { type: "search", class: "searchbox", maxlength: 900 });
    this.regex = h("input", { type: "checkbox" });
    this.matchCase = h("input", { type: "checkbox" });
    const prev = h(
        "button",
        { class: "step prev", onclick: () => void this.stepMatches(true) },
        "‹",
      ),
      next = h("button", { class: "step next", onclick: () => void this.stepMatches(false) }, "›");
    const nameControls = (): void => {
      this.input.placeholder = t("search");
      this.input.setAttribute("aria-label", t("search_title"));
      prev.title = t("previous");
      next.title = t("next");
      prev.setAttribute("aria-label", t("previous"));
      next.setAttribute("aria-label", t("next"));
    };
    nameControls();
    app.on("words", nameControls);
    const nameControl = (
      box: HTMLInputElement,
      text: string,
      word: "regex" | "match_case",
    ): HTMLElement => {
      const element = h("label", { class: "toggle", title: t(word) }, box, text);
      box.setAttribute("aria-label", t(word));
      box.addEventListener("change", () => void this.runSearch());
      return element;
    };
    this.root = h(
      "div",
      { class: "search" },
      this.input,
      nameControl(this.regex, ".*", "regex"),
      nameControl(this.matchCase, "Aa", "match_case"),
      prev,
      next,
      this.result,
      this.list,
    );
    const soon = delayCalls(200, () => void this.runSearch());
    this.input.addEventListener("input", () => {
      this.stepping = false;
      soon();
    });
    this.list.addEventListener("keydown", (event) => this.inList(event));
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.stepMatches(event.shiftKey);
      else if (event.key === "ArrowDown" && !this.list.hidden)
        this.list.querySelector("button")?.focus();
      else if (event.key === "Escape") this.clearSearch();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.input.addEventListener("focus", () => {
      this.list.hidden = !this.list.children.length;
    });
    document.addEventListener("pointerdown", (event) => {
      if (!this.root.contains(event.target as Node)) this.list.hidden = true;
    });
    app.on(
      "view",
      delayCalls(250, () => void this.loadMarks()),
    );
  }

  focusSearch(text?: string): void {
    if (text !== undefined) {
      this.input.value = text;
      void this.runSearch();
    }
    this.input.focus();
    this.input.select();
  }

  private clearSearch(): void {
    this.input.value = "";
    this.list.hidden = true;
    void this.runSearch();
    this.input.blur();
  }

  private askParams(): { q: string; re: number; case: number } {
    return {
      q: this.input.value,
      re: this.regex.checked ? 1 : 0,
      case: this.matchCase.checked ? 1 : 0,
    };
  }

  private async runSearch(): Promise<void> {
    const turn = ++this.turn;
    if (!this.input.value) {
      this.result.textContent = "";
      fillElement(this.list);
      this.list.hidden = true;
      this.app.sayRefusal("");
      this.app.found = new Float64Array(0);
      this.app.emitEvent("found");
      return;
    }
    let refusal = "";
    const refuseSearch = (error: unknown): undefined => {
      if (error instanceof ServerError) refusal = cleanText(error.message, 600);
      else this.app.showFailure(error);
    };
    const parts = await Promise.all(
      this.app.reports.map(async (info) => ({
        r: info.id,
        got: await this.app
          .askOrThrow<Found>("search", { r: info.id, ...this.askParams() })
          .catch(refuseSearch),
      })),
    );
    if (turn !== this.turn) return;
    this.app.sayRefusal(refusal);
    if (parts.some((p) => !p.got)) return;
    const n = parts.reduce((s, p) => s + p.got!.count, 0),
      distinct = parts.reduce((s, p) => s + p.got!.distinct, 0);
    this.result.textContent = n
      ? t("matches", formatCount(n), formatCount(distinct))
      : t("no_matches");
    fillElement(
      this.list,
      parts
        .flatMap((p) => p.got!.names.map((group) => ({ ...group, report: p.r })))
        .sort((a, b) => b.total - a.total)
        .slice(0, 50)
        .map((g) =>
          h(
            "button",
            { onclick: () => void this.jumpTo(g) },
            h("span", { class: "n" }, formatCount(g.count)),
            h("span", { class: "n" }, formatDuration(g.total)),
            h("bdi", null, cleanText(g.name, 120)),
          ),
        ),
    );
    this.list.hidden = this.stepping || document.activeElement !== this.input || !n;
    void this.loadMarks();
  }

  /** Where matches in sight are, on the axis. */
  private async loadMarks(): Promise<void> {
    if (!this.input.value) return;
    const out: number[] = [];
    for (const report of this.app.reports) {
      const offset = this.app.offsets[report.id];
      const got = await this.app.ask<{ events: Spot[] }>("events", {
        r: report.id,
        ...this.askParams(),
        t0: Math.floor(this.app.view.t0 - offset),
        t1: Math.ceil(this.app.view.t1 - offset),
        limit: 1000,
      });
      for (const spot of got?.events ?? []) out.push(spot.start + offset);
    }
    this.app.found = Float64Array.from(out);
    this.app.emitEvent("found");
  }

  private async jumpTo(group: Group & { report: number }): Promise<void> {
    const [lane, level, event] = group.longest;
    const spot = await this.app.ask<Spot>("event", { r: group.report, lane, level, event });
    this.list.hidden = true;
    if (spot) this.app.select(group.report, spot, true);
  }

  /** Up and down in the list of names; up from its first, or Escape, back to where one types. */
  private inList(event: KeyboardEvent): void {
    const at = document.activeElement as HTMLElement,
      to =
        event.key === "ArrowDown"
          ? (at.nextElementSibling ?? at)
          : event.key === "ArrowUp"
            ? (at.previousElementSibling ?? this.input)
            : event.key === "Escape"
              ? this.input
              : null;
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    (to as HTMLElement).focus();
    if (event.key === "Escape") this.list.hidden = true;
  }

  /**
   * The match nearest after a place (or before it), in all reports: by time, then by report, row,
   * level.
   */
  private async findNearest(
    from: number,
    s: { report: number; spot: Spot } | null,
    back: boolean,
  ): Promise<{ report: number; spot: Spot } | null> {
    let best: { report: number; spot: Spot; at: number } | null = null;
    for (const info of back ? [...this.app.reports].reverse() : this.app.reports) {
      const offset = this.app.offsets[info.id],
        // what is beside it at its time may be next
        same = s?.report === info.id ? { lane: s.spot.lane, level: s.spot.level } : {},
        // or is, in another report
        all = s && info.id !== s.report && info.id > s.report !== back ? (back ? 1 : -1) : 0;
      const spot = await this.app.ask<Spot>("step", {
        r: info.id,
        ...this.askParams(),
        t: Math.floor(from - offset) + all,
        back: back ? 1 : 0,
        ...same,
      });
      if (!spot || spot.lane === undefined) continue;
      const at = spot.start + offset;
      if (!best || (back ? at > best.at : at < best.at)) best = { report: info.id, spot, at };
    }
    return best;
  }

  /**
   * The next match after the selected event (or from the left edge), or the one before it; after
   * the last comes the first.
   */
  async stepMatches(back: boolean): Promise<void> {
    if (!this.input.value) return;
    this.stepping = true;
    this.list.hidden = true;
    const selected = this.app.selected,
      { first, last } = this.app.view;
    const best =
      (await this.findNearest(
        this.app.selectedTime() ?? (back ? this.app.view.t1 : this.app.view.t0),
        selected,
        back,
      )) ?? (await this.findNearest(back ? last + 1 : first - 1, null, back));
    if (best) this.app.select(best.report, best.spot, true);
    else this.result.textContent = t("no_matches");
  }
}
