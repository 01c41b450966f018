/**
 * More reports on the page: files that are dropped on it or chosen, and recordings that it starts
 * (`view --record`).
 */

import type { App } from "./app";
import { ServerError } from "./data";
import { dialog, toast } from "./menu";
import { fill, h } from "./dom";
import { bytes, clean } from "./format";
import { t, type Word } from "./i18n";
import { outputText } from "./panels/session";
import type { Watch } from "./watch";

/** POST to the server: its answer, or an error with its sentence. */
export async function post<T>(
  path: string,
  params: Record<string, string | number>,
  body?: Blob,
): Promise<T> {
  const response = await fetch(
    `api/${path}?${new URLSearchParams(Object.entries(params).map(([k, v]) => [k, String(v)])).toString()}`,
    { method: "POST", body },
  );
  if (!response.ok)
    throw new ServerError((await response.text()).trim() || `HTTP ${response.status}`);
  const v = (await response.json()) as T & { error?: string };
  if (v.error !== undefined) throw new ServerError(v.error);
  return v;
}

/* ---- files ---- */

export class Opener {
  readonly input = h("input", {
    type: "file",
    multiple: true,
    hidden: true,
    "aria-label": t("open_file"),
  });
  private busy = false;

  constructor(
    private app: App,
    private watch: Watch,
  ) {
    this.input.addEventListener("change", () => {
      void this.take([...(this.input.files ?? [])]);
      this.input.value = "";
    });
    const has = (e: DragEvent): boolean =>
      !!e.dataTransfer && [...e.dataTransfer.types].includes("Files");
    addEventListener("dragover", (event) => {
      if (!has(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (e) => {
      if (!e.relatedTarget) document.body.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      document.body.classList.remove("dropping");
      if (!has(event)) return;
      event.preventDefault();
      void this.take([...event.dataTransfer!.files]);
    });
  }

  choose(): void {
    if (this.app.uploadMost) this.input.click();
  }

  /** Send files one after the other; what is wrong with one does not keep back the others. */
  async take(files: File[]): Promise<void> {
    if (this.busy || !this.app.uploadMost || !files.length) return;
    this.busy = true;
    const wrong: string[] = [];
    for (const file of files) {
      this.app.tell(t("opening", clean(file.name, 60), bytes(file.size)));
      try {
        if (file.size > this.app.uploadMost)
          throw new ServerError(
            t("too_large", clean(file.name, 60), bytes(file.size), bytes(this.app.uploadMost)),
          );
        await post("add", { name: file.name }, file);
      } catch (e) {
        wrong.push(
          e instanceof ServerError ? clean(e.message, 600) : t("not_sent", clean(file.name, 60)),
        );
      }
    }
    this.busy = false;
    this.app.tell(wrong.join("\n"));
    this.watch.look();
  }
}

/* ---- recording ---- */

interface Recording {
  command: string[];
  running: number;
  runs: number;
  status: number;
  report: number;
  file: string;
  problem: string;
  output: string;
}

const CHOICES: [string, Word][] = [
  ["nvtx", "collect_nvtx"],
  ["cuda", "collect_cuda"],
  ["osrt", "collect_osrt"],
  ["sample", "collect_samples"],
  ["python-gil", "collect_gil"],
];

/** A command as one would type it. */
function quoted(command: string[]): string {
  return command
    .map((w) => (/^[\w./:=@%+,-]+$/.test(w) ? w : `'${w.replace(/'/g, "'\\''")}'`))
    .join(" ");
}

export async function showRecord(app: App): Promise<void> {
  let now = await app.ask<Recording>("record");
  if (!now || document.querySelector(".record")) return;
  const boxes = CHOICES.map(([name, word]) => ({
    name,
    box: h("input", { type: "checkbox", checked: true }),
    word,
  }));
  const start = h(
      "button",
      { class: "primary", onclick: () => void run("start") },
      t("start_recording"),
    ),
    stop = h("button", { class: "primary", onclick: () => void run("stop") }, t("stop_recording")),
    state = h("p", { role: "status" }),
    output = h("pre", { class: "output" });
  const box = dialog(
    "record",
    t("record"),
    h("h2", null, t("record")),
    h("p", null, h("code", null, h("bdi", null, clean(quoted(now.command), 4000)))),
    h(
      "div",
      { class: "choices" },
      boxes.map((b) => h("label", null, b.box, t(b.word))),
    ),
    h(
      "div",
      { class: "actions" },
      start,
      stop,
      h("button", { onclick: () => box.close() }, t("close")),
    ),
    state,
    output,
  );

  function draw(error = ""): void {
    const recording = now!;
    const here =
      document.activeElement === start ||
      document.activeElement === stop ||
      document.activeElement === document.body;
    start.disabled = recording.running === 1;
    stop.disabled = recording.running !== 1;
    // a control that is off takes no keys, not even Escape
    if (here && box.open) (recording.running ? stop : start).focus();
    for (const b of boxes) b.box.disabled = recording.running === 1;
    const ended =
      recording.report >= 0
        ? t("recorded", clean(recording.file, 200))
        : `${t("not_recorded", recording.status)} ${clean(recording.problem, 600)}`;
    state.textContent =
      error || (recording.running ? t("recording") : recording.runs ? ended : t("record_hint"));
    state.className =
      error || (recording.runs && !recording.running && recording.report < 0) ? "error" : "";
    output.hidden = !recording.output;
    const end = output.scrollTop + output.clientHeight >= output.scrollHeight - 20;
    fill(output, outputText(recording.output));
    if (end) output.scrollTop = output.scrollHeight;
  }

  /** Follow until it has ended, whether the dialog is there or not. */
  async function follow(): Promise<void> {
    while (now!.running) {
      await new Promise((f) => setTimeout(f, 250));
      const next = await app.ask<Recording>("record");
      if (!next) return;
      now = next;
      draw();
    }
    if (now!.report < 0) return;
    if (app.reports.length <= now!.report) await app.reload();
    toast(t("recorded", clean(now!.file, 200)));
  }

  async function run(what: "start" | "stop"): Promise<void> {
    start.disabled = true;
    try {
      await post(
        `record/${what}`,
        Object.fromEntries(boxes.map((b) => [b.name, b.box.checked ? "1" : "0"])),
      );
      now = (await app.ask<Recording>("record")) ?? now;
      draw();
      if (what === "start") await follow();
    } catch (e) {
      draw(e instanceof ServerError ? clean(e.message, 600) : t("error"));
    }
  }

  draw();
  if (now.running) void follow();
}
