/** The state of the page, and the messages between its parts. */

import {
  AGAIN,
  chosen,
  FORM,
  HttpSource,
  lit,
  palettes,
  ServerError,
  TileCache,
  type EventDetail,
  type ReportInfo,
  type Source,
  type Spot,
  type Sum,
  type TreeRow,
} from "./data";
import { DARK, LIGHT, type Theme } from "./colors";
import {
  FIRST_LEVELS,
  isCounter,
  MOST_NAMES,
  opensToNames,
  Rows,
  unitOf,
  type Row,
  type Saved,
} from "./layout";
import { Viewport } from "./viewport";
import { getLanguage, setLanguage, t, hasWord, type Language } from "./i18n";
import { cleanText, formatValue } from "./format";
import { delayCalls } from "./dom";
import { Link, writeHash, type Linked, type LinkPairs } from "./link";

export interface Marker {
  time: number;
  end?: number; // of a note about a stretch
  note: string;
}

/** A selected event. `level` and `event` number it on its lane. */
export interface Selected {
  report: number;
  spot: Spot;
  detail?: EventDetail;
  byPanel?: boolean; // the user came to it from elsewhere than the time line
}

export interface Hit {
  row: Row;
  level: number;
  lane: Row; // whose events these are: the row itself, or a strip of a closed group
  away: number; // pixels from the pointer; 0: under it
  name: number; // as tiles number names
  count: number;
  t0: number; // on the page's axis
  t1: number;
  event: number;
  flags: number;
  fill: number;
  color: number; // as the tile has it: of a state of a thread which one
}

interface Stored extends Saved {
  markers: Marker[];
  labels: number;
  bottom: number;
  offsets: number[];
  colors: Record<string, number>; // of rows, by key: which of CHOICES
  nameColors: Record<string, number>; // of names, by text
}

interface Settings {
  dark: boolean | null;
  language: Language | null;
  wheelScrolls: boolean;
  fold: boolean; // names that differ only in numbers are one
}

function loadStored<T>(key: string, fallback: T): T {
  try {
    return { ...fallback, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as T) };
  } catch {
    return fallback;
  }
}

const LIBRARIES: Record<string, string> = {
  CUBLAS: "cuBLAS",
  CUDNN: "cuDNN",
  CUFFT: "cuFFT",
  CUSPARSE: "cuSPARSE",
  UCP: "UCX",
  OPENACC: "OpenACC",
  OPENMP: "OpenMP",
  OPENGL: "OpenGL",
  KHR: "OpenGL",
  VULKAN: "Vulkan",
};

/** A row of calls of a library: CUBLAS_EVENTS, MPI_P2P_EVENTS, CUPTI_ACTIVITY_KIND_OPENACC_DATA. */
function libraryName(category: string): string {
  const [library, ...rest] = category.replace(/^CUPTI_ACTIVITY_KIND_/, "").split("_");
  return [
    LIBRARIES[library] ?? library,
    ...rest
      .filter((word) => !["EVENTS", "EVENT", "KIND", "API"].includes(word))
      .map((text) => text.toLowerCase()),
  ].join(" ");
}

/** A name as the server is asked for it: of a very long one the beginning. */
export function takeBeginning(name: string): { q: string; cut: number } {
  const end = name.charCodeAt(199) >= 0xd800 && name.charCodeAt(199) < 0xdc00 ? 199 : 200;
  return { q: name.slice(0, end), cut: name.length > 200 ? 1 : 0 };
}

/** How reports are put on one axis: by their clocks, at their first events, at their starts. */
export type Alignment = "clock" | "first" | "start";
const BEFORE = 2 ** 52; // ns: earlier than any event

/** What a link holds about rows: the changes made to them. */
type LinkedRows = Partial<Saved> & { offsets?: number[] };
const ADDRESS = "warpsight address"; // that this page has given itself
const NO_CHANGES: Saved = { open: {}, hidden: {}, pinned: [], order: {}, full: {}, height: {} };

/** A value of a link that may stand for one of ours: a list, or an object that is none. */
function isLike(ours: unknown, value: unknown): boolean {
  return (
    typeof value === "object" && value !== null && Array.isArray(ours) === Array.isArray(value)
  );
}

export class App {
  source: Source;
  cache: TileCache;
  rows = new Rows(structuredClone(NO_CHANGES));
  view = new Viewport();
  reports: ReportInfo[] = [];
  uploadMost = 0; // bytes of a file that the server takes; 0: it takes none
  canRecord = false;
  version = "";
  offsets: number[] = []; // of each report's times on the page's axis
  markers: Marker[] = [];
  range: [number, number] | null = null;
  selected: Selected | null = null;
  hover: Hit | null = null;
  pointer: number | null = null; // time under the pointer
  highlight: string | null = null; // a name
  found: Float64Array = new Float64Array(0); // starts of matches in sight
  settings: Settings = loadStored("warpsight", {
    dark: null,
    language: null,
    wheelScrolls: false,
    fold: true,
  });
  stored!: Stored;
  busyNow = new Map<string, number>(); // share of the window, by row key
  theme: Theme = LIGHT;
  building = true;
  complete = false;
  hasPath = true; // the critical path can be asked for
  limit: [number, number] | null = null; // of an exported page: what it holds
  private listeners: Record<string, (() => void)[]> = {};

  constructor(source?: Source) {
    this.source = source ?? new HttpSource();
    this.cache = new TileCache(this.source);
    this.cache.onArrive = () => this.emitEvent("draw");
    this.cache.onError = (error) => this.showFailure(error);
    this.cache.onReading = () => this.resumeReading();
    this.cache.onLevels = (tile) => this.deepenRow(tile);
    this.view.onChange = () => this.emitEvent("view");
    this.applySettings();
    window.addEventListener("pagehide", () => this.storeNow());
  }

  /* ---- telling ---- */

  /**
   * The events that can be observed: draw, view (what is in sight), layout (rows), select, range,
   * statistics (are wanted), theme, words, found, error, ready.
   */
  on(what: string, callback: () => void): void {
    (this.listeners[what] ??= []).push(callback);
  }

  emitEvent(what: string): void {
    for (const callback of this.listeners[what] ?? []) callback();
  }

  /**
   * Stays until it is closed, or another takes its place; an error goes when the server answers.
   */
  notice = "";

  /** Lines for the user, or "" to take them away. */
  showNotice(text: string): void {
    this.notice = text;
    this.emitEvent("error");
  }

  /**
   * Nothing reliable can be shown about the report: the server does not answer, or its file has
   * changed.
   */
  lost = false;
  private files = ""; // what became of the files
  private written = false;

  sayFiles(text: string, written: boolean): void {
    if (text === this.files) return;
    this.files = text;
    this.written = written;
    this.sayLost();
  }

  /** The message for the user about what went wrong. */
  get problems(): string {
    const all = [this.error, this.refusal, this.files, this.notice];
    return [...new Set(all)].filter(Boolean).join("\n");
  }

  private silent = false; // the server does not answer
  private sayLost(): void {
    this.lost = this.silent || this.written;
    this.emitEvent("error");
  }

  private refusal = ""; // why what is searched for cannot be; other answers leave it standing
  sayRefusal(text: string): void {
    if (text === this.refusal) return;
    this.refusal = text;
    this.sayLost();
  }

  error = "";
  showFailure(error: unknown): void {
    if ((error as Error).name === "AbortError") return;
    this.silent = !(error instanceof ServerError);
    this.error = error instanceof ServerError ? cleanText(error.message, 600) : t("error");
    this.sayLost();
  }

  /** Ask the server; rejects when that fails, and says nothing. */
  async askOrThrow<T>(
    path: string,
    params: Record<string, string | number | undefined> = {},
    signal?: AbortSignal,
  ): Promise<T> {
    const v = await this.source.json<T>(path, params, signal);
    if (path !== "progress" && (v as { unread?: number }).unread) this.resumeReading();
    if (this.error) {
      this.error = "";
      this.silent = false;
      this.sayLost();
    }
    return v;
  }

  /** Ask the server; undefined (and a message on the page) when that fails. */
  async ask<T>(
    path: string,
    params: Record<string, string | number | undefined> = {},
    signal?: AbortSignal,
  ): Promise<T | undefined> {
    try {
      return await this.askOrThrow<T>(path, params, signal);
    } catch (error) {
      this.showFailure(error);
      return undefined;
    }
  }

  /* ---- settings ---- */

  applySettings(): void {
    const dark = this.settings.dark ?? matchMedia("(prefers-color-scheme: dark)").matches;
    this.theme = dark ? DARK : LIGHT;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    setLanguage(this.settings.language ?? (navigator.language.startsWith("zh") ? "zh" : "en"));
    this.emitEvent("theme");
  }

  private ownFold: boolean | undefined; // the user's, while a link's holds

  changeSettings(changed: Partial<Settings>): void {
    Object.assign(this.settings, changed);
    if (changed.fold !== undefined) this.ownFold = undefined;
    const kept = { ...this.settings, fold: this.ownFold ?? this.settings.fold };
    try {
      localStorage.setItem("warpsight", JSON.stringify(kept));
    } catch {
      /* private windows refuse; the setting then lasts as long as the page */
    }
    const words = getLanguage();
    this.applySettings();
    if (getLanguage() !== words) {
      this.nameRows();
      this.emitEvent("words");
    }
    this.emitEvent("draw");
  }

  private storeKey(): string {
    return `warpsight ${this.reports.map((report) => `${report.path} ${report.bytes}`).join("|")}`;
  }

  /** Keep how rows and markers are, soon; and at once when the page goes. */
  storeState = (): void => {
    this.dirty = true;
    this.storeSoon();
  };
  private dirty = false;
  private storeSoon = delayCalls(300, () => this.storeNow());

  private storeNow(): void {
    if (!this.dirty) return;
    this.dirty = false;
    this.stored.markers = this.markers;
    this.stored.offsets = this.offsets;
    try {
      localStorage.setItem(this.storeKey(), JSON.stringify(this.stored));
    } catch {
      /* as above */
    }
  }

  /* ---- starting ---- */

  private starts = 0;

  /** Reports were added: show them too. */
  async reloadReports(): Promise<void> {
    const before = this.reports.length ? this.stored : undefined;
    this.select(0, null);
    this.setRange(null);
    this.busyNow.clear();
    await this.startReports(before);
  }

  live = false; // something is being recorded

  /**
   * Reports that are being recorded have grown: show what is new. A view of all, or of the end,
   * stays one.
   */
  async renewReports(which: number[]): Promise<void> {
    const session = await this.ask<{ reports: ReportInfo[] }>("session"),
      { first, last, t0, t1 } = this.view;
    if (!session || session.reports.length !== this.reports.length) return;
    this.reports = session.reports;
    this.setExtent();
    const grown = this.view.last - last;
    if (t0 <= first && t1 >= last)
      [this.view.t0, this.view.t1] = [Math.min(t0, this.view.first), this.view.last];
    else if (t1 >= last && grown > 0) [this.view.t0, this.view.t1] = [t0 + grown, t1 + grown];
    this.view.onChange();
    await this.loadTrees();
    for (const report of which) this.cache.renewTiles(report);
    this.complete = false;
    await this.followReading();
    this.emitEvent("built");
  }

  async startReports(before?: Stored): Promise<void> {
    const session = await this.ask<{
      version: string;
      reports: ReportInfo[];
      upload_most?: number;
      record?: number;
      trees?: { rows: TreeRow[] }[];
    }>("session", { trees: 1 });
    if (!session) return;
    this.starts++;
    this.reports = session.reports;
    this.version = session.version;
    this.uploadMost = session.upload_most ?? 0;
    this.canRecord = session.record === 1;
    this.emitEvent("session");
    if (!this.reports.length) {
      document.title = "warpsight";
      return;
    }
    this.building = true;
    this.complete = false;
    const titles = this.reports.map((report) => cleanText(report.name, 60));
    document.title = `${titles.join(", ")} – warpsight`;
    this.stored = loadStored(
      this.storeKey(),
      before ?? {
        ...structuredClone(NO_CHANGES),
        markers: [],
        labels: 290,
        bottom: Math.max(260, Math.round(innerHeight * 0.28)),
        offsets: [],
        colors: {},
        nameColors: {},
      },
    );
    if (!before) this.followLink();
    this.markers = this.stored.markers;
    this.offsets = this.reports.map((_, i) => this.stored.offsets[i] ?? this.clockOffset(i));
    this.rows = new Rows(this.stored);
    this.rows.piles = this.source.piles;
    this.setExtent();
    this.view.t0 = this.view.first;
    this.view.t1 = this.view.last;
    if (!before) this.openWindow();
    this.emitEvent("ready");
    this.emitEvent("view");
    await this.loadTrees(session.trees);
    void this.followReading();
  }

  /**
   * Reports of different hosts or times: by CLOCK_REALTIME when they overlap, else each from its
   * own start.
   */
  clockOffset(i: number): number {
    const a = BigInt(this.reports[0].realtime),
      b = BigInt(this.reports[i].realtime);
    if (!i) return 0;
    const distance = Number(b - a),
      overlap = distance < this.reports[0].last && -distance < this.reports[i].last;
    return a !== 0n && b !== 0n && overlap ? distance : this.offsetBy("first", i);
  }

  /** The offset of a report by a way to align; undefined where its clock is not known. */
  private offsetBy(how: Alignment, i: number): number {
    const [report, info] = [this.reports[0], this.reports[i]];
    if (how === "first") return report.first - info.first;
    return how === "clock" ? Number(BigInt(info.realtime) - BigInt(report.realtime)) : 0;
  }

  /** The ways in which the reports can be aligned. */
  listAlignments(): Alignment[] {
    const known = this.reports.every((report) => report.realtime !== "0");
    return known ? ["clock", "first", "start"] : ["first", "start"];
  }

  /** How they are. */
  alignedBy(): Alignment | undefined {
    return this.listAlignments().find((how) =>
      this.reports.every((_, i) => this.offsets[i] === this.offsetBy(how, i)),
    );
  }

  alignReports(how: Alignment): void {
    this.setOffsets(this.reports.map((_, i) => this.offsetBy(how, i)));
  }

  /** Align all reports at their first event of a name, where they have one. */
  async alignByName(report: number, name: string): Promise<void> {
    const { q: text } = takeBeginning(name),
      firsts = await Promise.all(
        this.reports.map((info) =>
          this.ask<Partial<Spot>>("step", {
            r: info.id,
            q: text,
            exact: name.length > 200 ? 2 : 1,
            t: -BEFORE,
          }),
        ),
      ),
      base = firsts[report]?.start;
    if (base === undefined) return;
    const at = base + this.offsets[report];
    this.setOffsets(
      firsts.map((f, i) => (f?.start === undefined ? this.offsets[i] : at - f.start)),
    );
  }

  private setOffsets(offsets: number[]): void {
    this.offsets = offsets;
    this.setExtent();
    this.storeState();
    this.emitEvent("align");
    this.view.fit();
    this.emitEvent("draw");
  }

  setExtent(): void {
    this.view.first = Math.min(...this.reports.map((report, i) => report.first + this.offsets[i]));
    this.view.last = Math.max(
      ...this.reports.map((info, i) => info.last + this.offsets[i]),
      this.view.first + 1000,
    );
    if (this.limit) this.cutExtent(this.limit);
    const margin = (this.view.last - this.view.first) * 0.01;
    this.view.first -= margin;
    this.view.last += margin;
  }

  /** An exported page shows what it holds, and as with a server nothing before the first event. */
  private cutExtent([from, to]: [number, number]): void {
    const first = Math.max(this.view.first, from),
      last = Math.min(this.view.last, to);
    this.view.first = first < to ? first : from;
    this.view.last = Math.max(last, this.view.first + 1000);
  }

  setOffset(report: number, offset: number): void {
    this.offsets[report] = offset;
    this.setExtent();
    this.storeState();
    this.emitEvent("align");
    this.emitEvent("view");
    this.emitEvent("draw");
  }

  /** `trees`: where they are there already. */
  async loadTrees(trees?: { rows: TreeRow[] }[]): Promise<void> {
    await Promise.all(
      this.reports.map(async (info) => {
        const tree =
          trees?.[info.id] ?? (await this.ask<{ rows: TreeRow[] }>("tree", { r: info.id }));
        for (const x of tree?.rows ?? [])
          if (x.lane !== undefined && !x.ready) x.levels ??= this.deep.get(`${info.id} ${x.lane}`);
        if (tree) this.rows.setTree(info.id, info.name, this.reports.length > 1, tree.rows);
      }),
    );
    this.nameRows();
    this.layoutRows();
  }

  progress = 0;
  unread = 0; // rows that are not read: too large to be read before someone looks closer

  // levels of rows that are not read, as far as they were in sight
  private deep = new Map<string, number>();

  private deepenRow(t: { report: number; lane: number; levels: unknown[] }): void {
    const key = `${t.report} ${t.lane}`;
    if ((this.deep.get(key) ?? 1) >= t.levels.length) return;
    this.deep.set(key, t.levels.length);
    const row = this.laneRow(t.report, t.lane);
    if (!row || row.ready) return;
    row.levels = t.levels.length;
    this.layoutRows();
  }

  /** Rows are being read because someone looked at them. */
  private resumeReading(): void {
    if (!this.complete) return;
    this.complete = false;
    void this.followReading().then(() => this.emitEvent("built"));
  }

  /**
   * Until all events are read: show lanes as they become ready. `building` ends when only ranges
   * on GPUs are still to come.
   */
  private async followReading(): Promise<void> {
    const mine = this.starts;
    let last = "";
    for (let wait = 60; ; wait = Math.min(wait * 1.4, 1000)) {
      let built = 0,
        all = 0,
        unread = 0,
        done = true,
        end = true;
      for (const info of this.reports) {
        const p = await this.ask<{
          events: number;
          built: number;
          done: number;
          all: number;
          unread?: number;
        }>("progress", { r: info.id });
        if (!p || mine !== this.starts) return;
        built += p.built;
        all += p.events;
        unread += p.unread ?? 0;
        done &&= p.done === 1;
        end &&= p.all === 1;
      }
      this.progress = all ? built / all : 1;
      this.unread = unread;
      if (`${built} ${done} ${end}` !== last) {
        last = `${built} ${done} ${end}`;
        await this.loadTrees();
        this.cache.retryPending();
      }
      if (this.building && done) {
        this.building = false;
        this.emitEvent("built");
        this.emitEvent("view");
      }
      this.emitEvent("progress");
      this.emitEvent("draw");
      if (end) break;
      await new Promise((callback) => setTimeout(callback, wait));
    }
    this.complete = true;
    this.emitEvent("view");
    this.idsOf.clear(); // rows that were not read may have names under other numbers
    await this.markNames();
  }

  layoutRows(): void {
    this.rows.placeRows();
    this.emitEvent("layout");
    this.emitEvent("draw");
  }

  private processName(row: Row, label: string): string {
    const rank = row.rank !== undefined ? `${t("rank", row.rank)} · ` : "";
    return `${rank}${t("process")} ${label} [${row.pid}]`.replace(/ +/g, " ");
  }

  /**
   * A thread is called one, whatever it is called: programs have threads of their own name. Other
   * tools have the thread's number in its name.
   */
  private threadName(row: Row, label: string): string {
    if (label.includes(String(row.tid)))
      return /thread/i.test(label) ? label : `${t("thread")} ${label}`;
    if (!row.main) return `${t("thread")} ${label} [${row.tid}]`.replace(/ +/g, " ");
    let above = this.rows.byKey.get(row.parentKey);
    while (above && above.type !== "process") above = this.rows.byKey.get(above.parentKey);
    const own = label === cleanText(above?.label ?? "", 300) ? "" : label;
    return `${t("main_thread")} ${own} [${row.tid}]`.replace(/ +/g, " ");
  }

  /** A domain of NVTX without a name has a number; the default one needs none. */
  private domainName(row: Row, label: string): string {
    return label || (row.domain ? t("nvtx_domain", row.domain) : "");
  }

  private gpuName(row: Row, label: string): string {
    const process = row.parent ? "" : `${cleanText(row.process ?? "", 40)} [${row.pid}]`;
    return [t("gpu", row.device ?? 0), label, process].filter(Boolean).join(" · ");
  }

  /** Text of a row, as shown and as filtered by. */
  rowName(row: Row): string {
    const label = cleanText(row.label ?? "", 300);
    switch (row.type) {
      case "report":
        return label;
      case "process":
        return this.processName(row, label);
      case "thread":
        return this.threadName(row, label);
      case "threads":
        return t("more_threads", row.threads ?? row.children.length);
      case "processes":
        return t("more_processes", row.processes ?? row.children.length);
      case "streams":
        return t("more_streams", row.children.length);
      case "gpu":
        return this.gpuName(row, label);
      case "projected":
        return [
          t("projected"),
          this.domainName(row, label),
          cleanText(row.process ?? "", 40) ||
            (row.tid ===
            this.rows.byKey.get(this.rows.byKey.get(row.parentKey)?.parentKey ?? "")?.pid
              ? t("main_thread")
              : String(row.tid)),
        ]
          .filter(Boolean)
          .join(" · ");
      case "stream":
        return t(row.default ? "default_stream" : "stream", row.stream ?? 0);
      case "nvtx":
        return [t(row.loose ? "nvtx_loose" : "nvtx"), this.domainName(row, label)]
          .filter(Boolean)
          .join(" · ");
      case "cpu":
      case "ftrace":
        return t(row.type, label);
      case "op":
        return t(row.python ? "python_calls" : "op");
      case "gpu_bytes":
        return [t("gpu_bytes"), label].filter(Boolean).join(" · ");
      case "slice":
        return label ? libraryName(label) : t("slice");
      case "counter_group":
        // below its GPU the row need not name it
        if (/^GPU metrics, GPU \d+$/.test(label) && this.isOfGpu(row)) return t("gpu_metrics");
        return /^GPU \d+$/.test(label) && row.parentKey ? t("metrics") : label || t("unnamed");
      case "named":
      case "counter":
      case "track":
        return label || t("unnamed");
      default:
        return hasWord(row.type) ? t(row.type) : row.type;
    }
  }

  private isOfGpu(row: Row): boolean {
    return this.rows.byKey.get(row.parentKey)?.type === "gpu";
  }

  private nameRows(): void {
    for (const row of this.rows?.byKey.values() ?? [])
      this.rows.names.set(row.key, this.rowName(row));
  }

  /* ---- selecting ---- */

  laneRow(report: number, lane: number): Row | undefined {
    return this.rows.byLane.get(`${report}/${lane}`);
  }

  /** The row of an event and what that is below: its thread, or its GPU. */
  placeOf(report: number, lane: number): string {
    const row = this.laneRow(report, lane),
      above = row && this.rows.byKey.get(row.parentKey);
    return [row, above]
      .map((line) => (line ? (this.rows.names.get(line.key) ?? "") : ""))
      .filter(Boolean)
      .join(" · ");
  }

  /** How many events there are: those that the table of events can show. */
  countEvents(): number {
    return [...(this.rows?.byLane.values() ?? [])].reduce(
      (n, row) =>
        n +
        (AGAIN.includes(row.type) || isCounter(row) || row.of !== undefined ? 0 : (row.count ?? 0)),
      0,
    );
  }

  /** When the selected event begins, on the page's axis. */
  selectedTime(): number | undefined {
    return this.selected
      ? this.selected.spot.start + this.offsets[this.selected.report]
      : undefined;
  }

  /** A value of a counter is called what it is. */
  private nameSpot(report: number, spot: Spot): Spot {
    const row = this.laneRow(report, spot.lane);
    if (spot.value === undefined || !row) return spot;
    return { ...spot, name: formatValue(spot.value, unitOf(row)) };
  }

  select(report: number, spot: Spot | null, reveal = false): void {
    this.selected = spot ? { report, spot: this.nameSpot(report, spot), byPanel: reveal } : null;
    this.emitEvent("select");
    this.emitEvent("draw");
    if (!spot) return;
    if (reveal) this.revealEvent(report, spot);
    const chosen = this.selected;
    void this.ask<EventDetail>("event", {
      r: report,
      lane: spot.lane,
      level: spot.level,
      event: spot.event,
    }).then((detail) => {
      if (!detail || this.selected !== chosen || !chosen) return;
      chosen.detail = detail;
      this.emitEvent("select");
      this.emitEvent("draw");
    });
  }

  /** Bring an event into sight: open the rows above it, scroll, move. */
  revealEvent(report: number, spot: Spot): void {
    const row = this.laneRow(report, spot.lane);
    if (row) {
      row.hidden_ = false;
      if (spot.level > 0) this.setOpen(row, true);
      if (spot.level >= FIRST_LEVELS) this.stored.full[row.key] = true;
      for (
        let line = this.rows.byKey.get(row.parentKey);
        line;
        line = this.rows.byKey.get(line.parentKey)
      ) {
        line.hidden_ = false;
        this.setOpen(line, true);
      }
      this.layoutRows();
      this.scrollTo?.(row, spot.level);
    }
    const offset = this.offsets[report];
    this.view.revealSpan(spot.start + offset, spot.end + offset);
  }

  scrollTo?: (row: Row, level: number) => void;

  setOpen(row: Row, open: boolean): void {
    row.open = open;
    this.stored.open[row.key] = open;
    this.storeState();
    if (open && opensToNames(row) && !row.children.length) void this.loadNames(row);
  }

  setHidden(row: Row, hidden: boolean): void {
    row.hidden_ = hidden;
    if (hidden) this.stored.hidden[row.key] = true;
    else delete this.stored.hidden[row.key];
    this.storeState();
  }

  setPinned(row: Row, pinned: boolean): void {
    row.pinned = pinned;
    this.stored.pinned = this.stored.pinned.filter((key) => key !== row.key);
    if (pinned) this.stored.pinned.push(row.key);
    this.storeState();
  }

  setHeight(row: Row, height: number): void {
    row.height = Math.max(8, Math.min(400, Math.round(height)));
    this.stored.height[row.key] = row.height;
    this.storeState();
  }

  /** The colour chosen for a row, or for one that it is below; -1: none. */
  rowColor(row: Row): number {
    for (let line: Row | undefined = row; line; line = this.rows.byKey.get(line.parentKey)) {
      const c = this.stored.colors[line.key];
      if (c !== undefined) return c;
    }
    return -1;
  }

  setRowColor(row: Row, color: number | null): void {
    if (color === null) delete this.stored.colors[row.key];
    else this.stored.colors[row.key] = color;
    this.storeState();
    this.emitEvent("theme");
    this.emitEvent("layout");
    this.emitEvent("draw");
  }

  async setNameColor(name: string, color: number | null): Promise<void> {
    if (color === null) delete this.stored.nameColors[name];
    else this.stored.nameColors[name] = color;
    this.storeState();
    await this.markNames();
  }

  async setHighlight(name: string | null): Promise<void> {
    this.highlight = name;
    await this.markNames();
  }

  /** What sums are asked with, so that names that differ only in numbers are one, or are not. */
  get folding(): { fold: number } {
    return { fold: Number(this.settings.fold) };
  }

  /** Show names that differ only in numbers as one, or each. */
  async setFolding(fold: boolean): Promise<void> {
    this.changeSettings({ fold });
    this.rows.forgetNames();
    await this.loadTrees();
    this.emitEvent("view");
    this.emitEvent("fold");
  }

  private idsOf = new Map<string, number[]>();

  private async numbersOf(report: number, name: string): Promise<number[]> {
    const key = `${report} ${name}`,
      known = this.idsOf.get(key);
    if (known) return known;
    const got =
      (await this.ask<{ ids: number[] }>("names", { r: report, ...takeBeginning(name) }))?.ids ??
      [];
    if (this.complete) this.idsOf.set(key, got);
    return got;
  }

  /** Rows for the names that took most time, below a row that was opened. */
  private async loadNames(row: Row): Promise<void> {
    const sum = await this.ask<Sum>("sum", { r: row.report, lanes: row.lane, ...this.folding });
    if (!sum || sum.unread) return; // its row is being read: again when that is done
    const most = sum.groups.sort((a, b) => b.total - a.total).slice(0, MOST_NAMES);
    if (!most.length) return;
    const names = await Promise.all(
      most.map(async (group) => ({
        name: group.name,
        ids:
          group.form === undefined
            ? await this.numbersOf(row.report, group.name)
            : [FORM + group.form],
        count: group.count,
      })),
    );
    const now = this.rows.byKey.get(row.key);
    if (!now || now.children.length) return;
    this.rows.setNames(now, names);
    this.nameRows();
    this.layoutRows();
    this.emitEvent("view");
  }

  /** How much of the window a report spans, ns. */
  spanOf(report: number): number {
    const offset = this.offsets[report];
    return Math.max(
      1,
      Math.min(this.view.t1 - offset, this.reports[report].last) -
        Math.max(this.view.t0 - offset, 0),
    );
  }

  /** How much of the window is filled by events of each name, shown as for rows of whole lanes. */
  async nameShares(): Promise<void> {
    for (const row of [...this.rows.byKey.values()].filter((x) => x.open && opensToNames(x))) {
      if (!row.children.length) {
        await this.loadNames(row); // it was open from the start, or could not be asked for
        continue;
      }
      const offset = this.offsets[row.report];
      const sum = await this.ask<Sum>("sum", {
        r: row.report,
        lanes: row.lane,
        t0: Math.round(this.view.t0 - offset),
        t1: Math.round(this.view.t1 - offset),
        limit: 2000, // names; the rows are of those that took most time in the whole report
        ...this.folding,
      });
      if (!sum) continue;
      const totals = new Map(sum.groups.map((group) => [group.name, group.total])),
        span = this.spanOf(row.report);
      for (const line of row.children)
        this.busyNow.set(line.key, Math.min(1, (totals.get(line.label ?? "") ?? 0) / span));
    }
  }

  /**
   * Find the numbers of the names that are highlighted or coloured (a text may have several), and
   * mark these in tiles.
   */
  private async markNames(): Promise<void> {
    for (const info of this.reports) {
      const colors = new Map<number, number>();
      for (const [name, color] of Object.entries(this.stored.nameColors))
        for (const id of await this.numbersOf(info.id, name)) colors.set(id, color);
      const name = this.highlight,
        bright = name === null ? null : new Set(await this.numbersOf(info.id, name));
      chosen[info.id] = colors;
      lit[info.id] = bright;
    }
    this.cache.markTiles();
    this.emitEvent("draw");
  }

  /** Show the selected event as wide as fits. */
  zoomToEvent(): void {
    const selected = this.selected;
    if (!selected) return;
    const offset = this.offsets[selected.report],
      distance = Math.max(selected.spot.end - selected.spot.start, 50);
    this.view.set(
      selected.spot.start + offset - distance * 0.15,
      selected.spot.end + offset + distance * 0.15,
    );
  }

  /** Select the stretch of an event, and show what it is made of. */
  selectTime(report: number, spot: { start: number; end: number }): void {
    const offset = this.offsets[report];
    this.setRange([spot.start + offset, spot.end + offset]);
    this.emitEvent("statistics");
  }

  setRange(range: [number, number] | null): void {
    this.range = range && range[0] > range[1] ? [range[1], range[0]] : range;
    this.emitEvent("range");
    this.emitEvent("draw");
  }

  /* ---- links to a view ---- */

  /**
   * Where this view can be opened again, as long as the server runs (with --port: whenever it
   * does, but for the token).
   */
  makeLink(): string {
    return location.href.replace(/#.*/, "") + this.makeHash();
  }

  panel = ""; // which is shown
  /** Other parts of the page that links hold the state of. */
  linkedParts: Linked[] = [];
  /** The link that was opened, until all that it says is shown. */
  linked: Link | null = new Link(location.hash);

  /** The changes made to the rows; "" when there are none. */
  private rowsAsText(): string {
    const { open, hidden, pinned, order, full, height } = this.stored,
      changed: LinkedRows = { open, hidden, pinned, order, full, height },
      parts = Object.entries(changed).filter(([, v]) => Object.keys(v as object).length);
    if (this.offsets.some((offset, i) => offset !== this.clockOffset(i)))
      parts.push(["offsets", this.offsets]);
    return parts.length ? JSON.stringify(Object.fromEntries(parts)) : "";
  }

  /** What a link says about rows. Rows that it does not mention are as at first or, with an old
   * link, as they were. */
  private linkedRows(): LinkedRows {
    const link = this.linked;
    if (!link?.version || this.isOwnAddress()) return {};
    const first: LinkedRows =
      link.version > 1 ? { ...structuredClone(NO_CHANGES), offsets: [] } : {};
    try {
      const said = JSON.parse(link.get("rows") ?? "{}") as Record<string, unknown>;
      for (const [key, value] of Object.entries({ ...NO_CHANGES, offsets: [] }))
        if (isLike(value, said[key])) Object.assign(first, { [key]: said[key] });
    } catch {
      /* a link that was cut: the rest of it holds */
    }
    return first;
  }

  /** The page was loaded again: what the browser keeps of it is newer than its address. */
  private isOwnAddress(): boolean {
    try {
      return (
        sessionStorage.getItem(ADDRESS) === location.hash &&
        localStorage.getItem(this.storeKey()) !== null
      );
    } catch {
      return false; // nothing is kept
    }
  }

  /** Have the browser's address line be a link to what is shown. */
  keepAddress(): void {
    if (this.building || this.linked) return; // what the address has is yet to be shown
    history.replaceState(null, "", this.makeHash());
    try {
      sessionStorage.setItem(ADDRESS, location.hash);
    } catch {
      /* loading again then opens the link */
    }
  }

  /** Settings and rows as the link has them, without keeping the settings. */
  private followLink(): void {
    Object.assign(this.stored, this.linkedRows());
    if ((this.linked?.version ?? 0) < 2 || this.isOwnAddress()) return;
    this.ownFold = this.settings.fold;
    this.settings.fold = this.linked!.get("fold") !== "0";
  }

  /** Select and show what the link that was opened had. Returns its panel, "" for none. */
  async openLink(): Promise<string> {
    const link = this.linked,
      [report, lane, level, event] = link?.getNumbers("e", 4) ?? [];
    if (!link) return "";
    for (const part of this.linkedParts) part.readLink(link);
    if (lane !== undefined && this.laneRow(report, lane)) {
      const question = { r: report, lane, level, event },
        spot = await this.askOrThrow<EventDetail>("event", question).catch(() => undefined);
      if (spot) this.select(report, spot);
    }
    return link.get("p") ?? "";
  }

  makeHash(): string {
    const writePair = ([a, b]: [number, number]): string => `${Math.round(a)},${Math.round(b)}`,
      pairs: LinkPairs = [["t", writePair([this.view.t0, this.view.t1])]],
      rows = this.rowsAsText();
    if (this.range) pairs.push(["s", writePair(this.range)]);
    if (this.selected) {
      const { lane, level, event } = this.selected.spot;
      pairs.push(["e", [this.selected.report, lane, level, event].join(",")]);
    }
    if (this.panel) pairs.push(["p", this.panel]);
    if (!this.settings.fold) pairs.push(["fold", "0"]);
    for (const part of this.linkedParts) pairs.push(...part.writeLink());
    if (rows) pairs.push(["rows", rows]);
    return writeHash(pairs);
  }

  /** The window and the selected stretch of the link. */
  private openWindow(): void {
    const [t0, t1] = this.linked?.getNumbers("t", 2) ?? [],
      [from, to] = this.linked?.getNumbers("s", 2) ?? [];
    if (t1 > t0) {
      this.view.t0 = t0;
      this.view.t1 = t1;
      this.view.given = true;
    }
    if (to !== undefined) this.range = from > to ? [to, from] : [from, to];
  }

  getPalettes(): Uint32Array[] {
    return palettes;
  }
}
