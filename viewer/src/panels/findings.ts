/**
 * What is wrong, what it costs and what to do (`warpsight analyze`): each finding leads to the
 * place on the time line that it is about, and to the SQL that proves it.
 *
 * A report is analysed when the page has read it, unless it is large or still being recorded: then
 * when someone asks for it, and again when it has grown.
 */

import type { App } from "../app";
import { ServerError } from "../data";
import type { Panel, Panels } from "./panels";
import type { Link, Linked, LinkPairs } from "../link";
import { copyAndSay } from "../copy";
import { fillElement, h } from "../dom";
import { cleanText, formatDuration, formatMoment, formatPercent } from "../format";
import { goToPlace, type Place } from "../goto";
import { t, type Word } from "../i18n";

type Level = "ok" | "note" | "warning" | "critical";

interface Evidence extends Partial<Place> {
  text: string;
  query?: string;
}

interface Finding {
  id: string;
  rule: string;
  level: Level;
  title: string;
  cost: number; // ns of the window
  gain: number;
  cost_share: number;
  gain_share: number;
  assumption?: string;
  advice?: string;
  next?: string; // a command
  evidence: Evidence[];
}

interface Answer {
  state: "made" | "large" | "live" | "none"; // none: an exported page without them
  as_of?: number; // of a report that was growing: how far it went then
  window: [number, number];
  steps: {
    source: "none" | "marked" | "repeated";
    count: number;
    warm_up: number;
    typical?: [number, number]; // the step of median length
  };
  findings: Finding[];
  not_looked: { rule: string; why: string }[];
  rules: Record<string, { title: string; about: string }>;
}

/** What is known of a report's findings. */
interface Known {
  asking?: AbortController;
  answer?: Answer;
  error?: string;
}

/** Kinds of rows of a thread that are tables of SQL. */
const QUERIED = ["osrt", "cuda_api", "nvtx", "op", "slice", "sample"];
const FAULTS: Level[] = ["warning", "critical"];

/** What a rule says, in the language that it was written in. */
function said(text: string): HTMLElement {
  return h("bdi", { lang: "en" }, cleanText(text));
}

function mayGoTo(evidence: Evidence): evidence is Evidence & Place {
  return evidence.start !== undefined && evidence.end !== undefined;
}

/** Where to look for something that happens in every step. */
function typicalStep({ steps: { typical } }: Answer): Place | undefined {
  return typical && { start: typical[0], end: typical[1] };
}

export class Findings implements Panel, Linked {
  readonly root = h("div", { class: "findings" });
  private known: Known[] = [];
  private open = new Set<string>(); // report:id
  private unfolded = new Set<string>(); // healthy notes and what could not be looked at, by report
  private explained = new Set<string>();
  private touched = false; // entries were opened or closed by the user, or by a link
  private linked = false;
  onArrive: () => void = () => undefined;

  constructor(
    private app: App,
    private panels: Panels,
  ) {
    app.linkedParts.push(this);
    app.on("ready", () => this.forgetAll());
    app.on("built", () => this.askUnasked());
    app.on("live", () => this.askUnasked());
    app.on("words", () => this.drawPanel());
    this.root.addEventListener("keydown", (event) => this.pressArrow(event));
  }

  hasContent(): boolean {
    return this.app.reports.length > 0 && !this.known.every((one) => one.answer?.state === "none");
  }

  /** How many findings there are above a note. */
  countUrgent(): number {
    return this.listFaults().length;
  }

  isCritical(): boolean {
    return this.listFaults().some((finding) => finding.level === "critical");
  }

  /** Whether an answer is under way. */
  isAsking(): boolean {
    return this.known.some((one) => one.asking);
  }

  private listFaults(): Finding[] {
    return this.known.flatMap(
      (one) => one.answer?.findings?.filter((finding) => FAULTS.includes(finding.level)) ?? [],
    );
  }

  updatePanel(): void {
    this.drawPanel();
  }

  /* ---- links ---- */

  writeLink(): LinkPairs {
    const pairs: LinkPairs = [];
    if (this.touched) pairs.push(["f", [...this.open].join(",")]);
    if (this.unfolded.size) pairs.push(["fh", [...this.unfolded].join(",")]);
    return pairs;
  }

  readLink(link: Link): void {
    const ids = link.get("f"),
      unfolded = link.get("fh");
    if (ids !== undefined) {
      this.touched = this.linked = true;
      this.open = new Set(ids.split(",").filter(Boolean));
    }
    if (unfolded) this.unfolded = new Set(unfolded.split(","));
    this.drawPanel();
  }

  /* ---- asking ---- */

  private forgetAll(): void {
    for (const one of this.known) one.asking?.abort();
    this.known = this.app.reports.map(() => ({}));
    if (!this.linked) this.open.clear();
  }

  /** The reports that have not been asked about yet, and those whose recording has ended since. */
  private askUnasked(): void {
    if (this.app.building) return;
    this.known.forEach((one, report) => {
      const { state } = one.answer ?? {},
        waits = !state || (state === "live" && !this.app.live);
      if (one.asking || one.error) return;
      if (waits) void this.askFindings(report, { unasked: 1 });
      else if (!this.app.live && this.hasGrown(report)) void this.askFindings(report, { again: 1 });
    });
  }

  /** Whether events came after those that were looked at. */
  private hasGrown(report: number): boolean {
    const { answer } = this.known[report];
    return answer?.as_of !== undefined && this.app.reports[report].last > answer.as_of;
  }

  private async askFindings(report: number, how: Record<string, number>): Promise<void> {
    const one = this.known[report],
      mine = (one.asking = new AbortController());
    one.error = undefined;
    this.drawPanel();
    try {
      const question = { r: report, ...how };
      const answer = await this.app.source.json<Answer>("findings", question, mine.signal);
      if (one.asking !== mine) return;
      one.answer = answer;
      this.openFirst(report, answer);
    } catch (error) {
      if (one.asking !== mine) return;
      if (!mine.signal.aborted)
        one.error = error instanceof ServerError ? cleanText(error.message, 600) : t("error");
    }
    one.asking = undefined;
    this.drawPanel();
    this.app.emitEvent("findings");
    this.onArrive();
  }

  /** What costs most is there to read at once. */
  private openFirst(report: number, answer: Answer): void {
    const [first] = answer.findings ?? [],
      none = ![...this.open].some((key) => key.startsWith(`${report}:`));
    if (first && first.level !== "ok" && !this.touched && none)
      this.open.add(`${report}:${first.id}`);
  }

  /* ---- the panel ---- */

  private drawPanel(): void {
    const many = this.app.reports.length > 1;
    fillElement(
      this.root,
      this.app.reports.map((report, i) =>
        h(
          "section",
          { "aria-label": cleanText(report.name) },
          many ? h("h3", null, h("bdi", null, cleanText(report.name))) : null,
          this.makeStatus(i),
          this.makeFindings(i),
        ),
      ),
    );
  }

  /** What is going on, and what can be asked for. */
  private makeStatus(report: number): HTMLElement {
    const { asking, answer, error } = this.known[report] ?? {},
      line = (text: string, word?: Word, run?: () => void): HTMLElement =>
        h(
          "p",
          { class: "says actions", role: "status" },
          h("span", null, text),
          word && run ? h("button", { onclick: run }, t(word)) : null,
        ),
      ask = (how: Record<string, number>) => (): void => void this.askFindings(report, how);
    if (asking) return line(t("findings_asking"), "cancel", () => asking.abort());
    if (error) return line(error, "findings_again", ask({}));
    if (!answer) return line("", "findings_look", ask({}));
    if (answer.state === "large") return line(t("findings_large"), "findings_look", ask({}));
    if (answer.state === "live") return line(t("findings_live"), "findings_look", ask({}));
    return this.makeSummary(report, answer, line);
  }

  private makeSummary(
    report: number,
    answer: Answer,
    line: (text: string, word?: Word, run?: () => void) => HTMLElement,
  ): HTMLElement {
    const faults = answer.findings.filter((finding) => FAULTS.includes(finding.level)).length,
      { steps, window } = answer,
      looked =
        steps.source === "none"
          ? t("findings_run", formatDuration(window[1] - window[0]))
          : t("findings_steps", steps.count, steps.warm_up),
      text = `${faults ? t("findings_count", faults) : t("findings_none")} ${looked}`;
    if (answer.as_of === undefined || !this.hasGrown(report)) return line(text);
    return line(
      `${text} ${t("findings_as_of", formatMoment(answer.as_of))}`,
      "findings_again",
      () => void this.askFindings(report, { again: 1 }),
    );
  }

  private makeFindings(report: number): (HTMLElement | null)[] {
    const answer = this.known[report]?.answer;
    if (answer?.state !== "made") return [];
    const faults = answer.findings.filter((finding) => finding.level !== "ok"),
      healthy = answer.findings.filter((finding) => finding.level === "ok"),
      list = (findings: Finding[]): HTMLElement =>
        h(
          "ol",
          { class: "findlist" },
          findings.map((finding) => this.makeFinding(report, answer, finding)),
        );
    return [
      faults.length ? list(faults) : null,
      healthy.length
        ? this.makeFold(`${report}:ok`, t("findings_healthy", healthy.length), () => list(healthy))
        : null,
      answer.not_looked.length
        ? this.makeFold(`${report}:no`, t("findings_unlooked", answer.not_looked.length), () =>
            this.listUnlooked(answer),
          )
        : null,
    ];
  }

  /** A part that is folded until someone wants it. */
  private makeFold(key: string, text: string, make: () => HTMLElement): HTMLElement {
    const open = this.unfolded.has(key);
    return h(
      "div",
      { class: "folded" },
      h(
        "button",
        {
          class: "opens",
          "aria-expanded": String(open),
          onclick: () => this.toggleIn(this.unfolded, key),
        },
        text,
      ),
      open ? make() : null,
    );
  }

  private toggleIn(set: Set<string>, key: string): void {
    if (!set.delete(key)) set.add(key);
    if (set === this.open) this.touched = true;
    this.drawPanel();
    this.app.emitEvent("link");
  }

  private listUnlooked(answer: Answer): HTMLElement {
    return h(
      "ul",
      { class: "unlooked" },
      answer.not_looked.map(({ rule, why }) =>
        h(
          "li",
          null,
          h("b", { title: answer.rules[rule]?.title }, cleanText(rule)),
          ": ",
          said(why),
        ),
      ),
    );
  }

  /* ---- one finding ---- */

  private makeFinding(report: number, answer: Answer, finding: Finding): HTMLElement {
    const key = `${report}:${finding.id}`,
      open = this.open.has(key),
      place = finding.evidence.find(mayGoTo) ?? typicalStep(answer);
    return h(
      "li",
      { class: `finding ${finding.level}`, "data-id": finding.id },
      h(
        "div",
        { class: "head" },
        h(
          "button",
          {
            class: "opens",
            "aria-expanded": String(open),
            onclick: () => this.toggleIn(this.open, key),
          },
          h("span", { class: "level" }, t(`level_${finding.level}`)),
          " ",
          said(finding.title),
          finding.gain > 0
            ? h("span", { class: "gain" }, ` −${formatPercent(finding.gain_share)}`)
            : null,
        ),
        place ? this.makeGoTo(report, place) : null,
      ),
      open ? this.makeBody(report, answer, finding) : null,
    );
  }

  private makeGoTo(report: number, place: Place): HTMLElement {
    return h(
      "button",
      {
        class: "goto",
        title: t("jump"),
        onclick: () => void goToPlace(this.app, report, place),
      },
      t("go_there"),
    );
  }

  private makeBody(report: number, answer: Answer, finding: Finding): HTMLElement {
    return h(
      "div",
      { class: "body" },
      finding.advice ? h("p", { class: "advice" }, said(finding.advice)) : null,
      this.makePrice(answer, finding),
      finding.evidence.length
        ? h(
            "ul",
            { class: "evidence" },
            finding.evidence.map((evidence) => this.makeEvidence(report, evidence)),
          )
        : null,
      finding.next ? this.makeNext(finding.next) : null,
      this.makeExplanation(report, answer, finding),
    );
  }

  /** What it costs and could gain, per step where there are steps. */
  private makePrice(answer: Answer, finding: Finding): HTMLElement | null {
    const { source, count } = answer.steps,
      each = (ns: number): string =>
        source === "none"
          ? formatDuration(ns)
          : t("findings_a_step", formatDuration(ns / Math.max(1, count))),
      share = (part: number): string => formatPercent(part);
    if (!finding.cost && !finding.gain) return null;
    return h(
      "p",
      { class: "price" },
      t("findings_cost", each(finding.cost), share(finding.cost_share)),
      finding.gain ? " " : null,
      finding.gain ? t("findings_gain", each(finding.gain), share(finding.gain_share)) : null,
      finding.gain && finding.assumption
        ? [" ", t("findings_if"), " ", said(finding.assumption), "."]
        : null,
    );
  }

  private makeEvidence(report: number, evidence: Evidence): HTMLElement {
    return h(
      "li",
      null,
      said(evidence.text),
      mayGoTo(evidence)
        ? [
            " ",
            h("span", { class: "quiet" }, formatDuration(evidence.end - evidence.start)),
            " ",
            this.makeGoTo(report, evidence),
          ]
        : null,
      " ",
      this.makeProof(report, evidence),
    );
  }

  /** The SQL that proves it; of a place without one, what finds the events there. */
  private makeProof(report: number, evidence: Evidence): HTMLElement | null {
    const { query } = evidence,
      lanes = mayGoTo(evidence) ? this.listBeside(report, evidence) : [],
      prove = async (): Promise<void> => {
        const question = {
            r: report,
            lanes: lanes.join(","),
            t0: evidence.start,
            t1: evidence.end,
          },
          sql = query ?? (await this.app.ask<{ sql: string }>("sql", question))?.sql;
        if (sql) this.panels.showQuery(report, sql);
      };
    if (this.app.limit || (!query && !lanes.length)) return null;
    return h(
      "button",
      { class: "proof", onclick: () => void prove() },
      t(query ? "findings_query" : "findings_events"),
    );
  }

  /** Rows of the same thread or stream whose events SQL can find. */
  private listBeside(report: number, { lane }: Place): number[] {
    const row = lane === undefined ? undefined : this.app.laneRow(report, lane);
    if (row?.type === "stream") return [row.lane!];
    return (this.app.rows.byKey.get(row?.parentKey ?? "")?.children ?? [])
      .filter((line) => line.lane !== undefined && QUERIED.includes(line.type))
      .map((line) => line.lane!);
  }

  private makeNext(command: string): HTMLElement {
    return h(
      "p",
      { class: "next" },
      `${t("findings_next")} `,
      h("code", null, cleanText(command)),
      " ",
      h("button", { onclick: () => copyAndSay(command) }, t("copy")),
    );
  }

  /** What its rule looks for, from which threshold on, and why. */
  private makeExplanation(report: number, answer: Answer, finding: Finding): HTMLElement | null {
    const rule = answer.rules[finding.rule],
      key = `${report}:${finding.id}`,
      open = this.explained.has(key);
    if (!rule) return null;
    return h(
      "div",
      { class: "folded" },
      h(
        "button",
        {
          class: "opens quiet",
          "aria-expanded": String(open),
          onclick: () => this.toggleIn(this.explained, key),
        },
        t("findings_why", finding.rule),
      ),
      open
        ? h("p", { class: "about" }, h("b", null, said(rule.title)), " ", said(rule.about))
        : null,
    );
  }

  /** Up and Down go from entry to entry. */
  private pressArrow(event: KeyboardEvent): void {
    const all = [...this.root.querySelectorAll<HTMLElement>(".opens")],
      at = all.indexOf(document.activeElement as HTMLElement),
      by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (by === undefined || at < 0) return;
    event.preventDefault();
    event.stopPropagation();
    all[Math.max(0, Math.min(all.length - 1, at + by))].focus();
  }
}
