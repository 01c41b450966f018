/** Searching events by name: how many match, which names, and stepping through them. */

import type { App } from "../app";
import { ServerError, type Group, type Spot } from "../data";
import { fill, h, later } from "../dom";
import { clean, count, duration } from "../format";
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
    const prev = h("button", { class: "step prev", onclick: () => void this.step(true) }, "‹"),
      next = h("button", { class: "step next", onclick: () => void this.step(false) }, "›");
    const words = (): void => {
      this.input.placeholder = t("search");
      this.input.setAttribute("aria-label", t("search_title"));
      prev.title = t("previous");
      next.title = t("next");
      prev.setAttribute("aria-label", t("previous"));
      next.setAttribute("aria-label", t("next"));
    };
    words();
    app.on("words", words);
    const label = (
      box: HTMLInputElement,
      text: string,
      word: "regex" | "match_case",
    ): HTMLElement => {
      const l = h("label", { class: "toggle", title: t(word) }, box, text);
      box.setAttribute("aria-label", t(word));
      box.addEventListener("change", () => void this.run());
      return l;
    };
    this.root = h(
      "div",
      { class: "search" },
      this.input,
      label(this.regex, ".*", "regex"),
      label(this.matchCase, "Aa", "match_case"),
      prev,
      next,
      this.result,
      this.list,
    );
    const soon = later(200, () => void this.run());
    this.input.addEventListener("input", () => {
      this.stepping = false;
      soon();
    });
    this.list.addEventListener("keydown", (e) => this.inList(e));
    this.input.addEventListener("keydown", (e) => {
      if (e.key === "Enter") void this.step(e.shiftKey);
      else if (e.key === "ArrowDown" && !this.list.hidden)
        this.list.querySelector("button")?.focus();
      else if (e.key === "Escape") this.clear();
      else return;
      e.preventDefault();
      e.stopPropagation();
    });
    this.input.addEventListener("focus", () => {
      this.list.hidden = !this.list.children.length;
    });
    document.addEventListener("pointerdown", (e) => {
      if (!this.root.contains(e.target as Node)) this.list.hidden = true;
    });
    app.on(
      "view",
      later(250, () => void this.marks()),
    );
  }

  focus(text?: string): void {
    if (text !== undefined) {
      this.input.value = text;
      void this.run();
    }
    this.input.focus();
    this.input.select();
  }

  private clear(): void {
    this.input.value = "";
    this.list.hidden = true;
    void this.run();
    this.input.blur();
  }

  private params(): { q: string; re: number; case: number } {
    return {
      q: this.input.value,
      re: this.regex.checked ? 1 : 0,
      case: this.matchCase.checked ? 1 : 0,
    };
  }

  private async run(): Promise<void> {
    const turn = ++this.turn;
    if (!this.input.value) {
      this.result.textContent = "";
      fill(this.list);
      this.list.hidden = true;
      this.app.sayRefusal("");
      this.app.found = new Float64Array(0);
      this.app.emit("found");
      return;
    }
    let refusal = "";
    const refuse = (e: unknown): undefined => {
      if (e instanceof ServerError) refusal = clean(e.message, 600);
      else this.app.fail(e);
    };
    const parts = await Promise.all(
      this.app.reports.map(async (r) => ({
        r: r.id,
        got: await this.app
          .askOrThrow<Found>("search", { r: r.id, ...this.params() })
          .catch(refuse),
      })),
    );
    if (turn !== this.turn) return;
    this.app.sayRefusal(refusal);
    if (parts.some((p) => !p.got)) return;
    const n = parts.reduce((s, p) => s + p.got!.count, 0),
      distinct = parts.reduce((s, p) => s + p.got!.distinct, 0);
    this.result.textContent = n ? t("matches", count(n), count(distinct)) : t("no_matches");
    fill(
      this.list,
      parts
        .flatMap((p) => p.got!.names.map((g) => ({ ...g, report: p.r })))
        .sort((a, b) => b.total - a.total)
        .slice(0, 50)
        .map((g) =>
          h(
            "button",
            { onclick: () => void this.jump(g) },
            h("span", { class: "n" }, count(g.count)),
            h("span", { class: "n" }, duration(g.total)),
            h("bdi", null, clean(g.name, 120)),
          ),
        ),
    );
    this.list.hidden = this.stepping || document.activeElement !== this.input || !n;
    void this.marks();
  }

  /** Where matches in sight are, on the axis. */
  private async marks(): Promise<void> {
    if (!this.input.value) return;
    const out: number[] = [];
    for (const r of this.app.reports) {
      const o = this.app.offsets[r.id];
      const got = await this.app.ask<{ events: Spot[] }>("events", {
        r: r.id,
        ...this.params(),
        t0: Math.floor(this.app.view.t0 - o),
        t1: Math.ceil(this.app.view.t1 - o),
        limit: 1000,
      });
      for (const e of got?.events ?? []) out.push(e.start + o);
    }
    this.app.found = Float64Array.from(out);
    this.app.emit("found");
  }

  private async jump(g: Group & { report: number }): Promise<void> {
    const [lane, level, event] = g.longest;
    const spot = await this.app.ask<Spot>("event", { r: g.report, lane, level, event });
    this.list.hidden = true;
    if (spot) this.app.select(g.report, spot, true);
  }

  /** Up and down in the list of names; up from its first, or Escape, back to where one types. */
  private inList(e: KeyboardEvent): void {
    const at = document.activeElement as HTMLElement,
      to =
        e.key === "ArrowDown"
          ? (at.nextElementSibling ?? at)
          : e.key === "ArrowUp"
            ? (at.previousElementSibling ?? this.input)
            : e.key === "Escape"
              ? this.input
              : null;
    if (!to) return;
    e.preventDefault();
    e.stopPropagation();
    (to as HTMLElement).focus();
    if (e.key === "Escape") this.list.hidden = true;
  }

  /**
   * The match nearest after a place (or before it), in all reports: by time, then by report, row,
   * level.
   */
  private async nearest(
    from: number,
    s: { report: number; spot: Spot } | null,
    back: boolean,
  ): Promise<{ report: number; spot: Spot } | null> {
    let best: { report: number; spot: Spot; at: number } | null = null;
    for (const r of back ? [...this.app.reports].reverse() : this.app.reports) {
      const o = this.app.offsets[r.id],
        // what is beside it at its time may be next
        same = s?.report === r.id ? { lane: s.spot.lane, level: s.spot.level } : {},
        // or is, in another report
        all = s && r.id !== s.report && r.id > s.report !== back ? (back ? 1 : -1) : 0;
      const spot = await this.app.ask<Spot>("step", {
        r: r.id,
        ...this.params(),
        t: Math.floor(from - o) + all,
        back: back ? 1 : 0,
        ...same,
      });
      if (!spot || spot.lane === undefined) continue;
      const at = spot.start + o;
      if (!best || (back ? at > best.at : at < best.at)) best = { report: r.id, spot, at };
    }
    return best;
  }

  /**
   * The next match after the selected event (or from the left edge), or the one before it; after
   * the last comes the first.
   */
  async step(back: boolean): Promise<void> {
    if (!this.input.value) return;
    this.stepping = true;
    this.list.hidden = true;
    const s = this.app.selected,
      { first, last } = this.app.view;
    const best =
      (await this.nearest(
        this.app.selectedTime() ?? (back ? this.app.view.t1 : this.app.view.t0),
        s,
        back,
      )) ?? (await this.nearest(back ? last + 1 : first - 1, null, back));
    if (best) this.app.select(best.report, best.spot, true);
    else this.result.textContent = t("no_matches");
  }
}
