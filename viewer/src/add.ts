/**
 * More reports on the page: files that are dropped on it or chosen, and recordings that it starts
 * (`view --record`).
 */

import type { App } from "./app";
import { ServerError } from "./data";
import { openDialog, showToast } from "./menu";
import { fillElement, h } from "./dom";
import { formatBytes, cleanText } from "./format";
import { t, type Word } from "./i18n";
import { outputText } from "./panels/session";
import type { Watch } from "./watch";

/** POST to the server: its answer, or an error with its sentence. */
export async function postForm<T>(
  path: string,
  params: Record<string, string | number>,
  body?: Blob,
): Promise<T> {
  const pairs = Object.entries(params).map(([key, value]) => [key, String(value)]),
    question = new URLSearchParams(pairs).toString(),
    response = await fetch(`api/${path}?${question}`, { method: "POST", body });
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
      void this.sendFiles([...(this.input.files ?? [])]);
      this.input.value = "";
    });
    const carriesFiles = (moved: DragEvent): boolean =>
      !!moved.dataTransfer && [...moved.dataTransfer.types].includes("Files");
    addEventListener("dragover", (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) document.body.classList.remove("dropping");
    });
    addEventListener("drop", (event) => {
      document.body.classList.remove("dropping");
      if (!carriesFiles(event)) return;
      event.preventDefault();
      void this.sendFiles([...event.dataTransfer!.files]);
    });
  }

  chooseFiles(): void {
    if (this.app.uploadMost) this.input.click();
  }

  /** Send files one after the other; what is wrong with one does not keep back the others. */
  async sendFiles(files: File[]): Promise<void> {
    if (this.busy || !this.app.uploadMost || !files.length) return;
    this.busy = true;
    const wrong: string[] = [];
    for (const file of files) {
      this.app.showNotice(t("opening", cleanText(file.name, 60), formatBytes(file.size)));
      try {
        if (file.size > this.app.uploadMost)
          throw new ServerError(
            t(
              "too_large",
              cleanText(file.name, 60),
              formatBytes(file.size),
              formatBytes(this.app.uploadMost),
            ),
          );
        await postForm("add", { name: file.name }, file);
      } catch (error) {
        wrong.push(
          error instanceof ServerError
            ? cleanText(error.message, 600)
            : t("not_sent", cleanText(file.name, 60)),
        );
      }
    }
    this.busy = false;
    this.app.showNotice(wrong.join("\n"));
    this.watch.lookNow();
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
function quoteCommand(command: string[]): string {
  return command
    .map((word) => (/^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`))
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
      { class: "primary", onclick: () => void controlRecording("start") },
      t("start_recording"),
    ),
    stop = h(
      "button",
      { class: "primary", onclick: () => void controlRecording("stop") },
      t("stop_recording"),
    ),
    state = h("p", { role: "status" }),
    output = h("pre", { class: "output" });
  const box = openDialog(
    "record",
    t("record"),
    h("h2", null, t("record")),
    h("p", null, h("code", null, h("bdi", null, cleanText(quoteCommand(now.command), 4000)))),
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

  function drawRecording(error = ""): void {
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
        ? t("recorded", cleanText(recording.file, 200))
        : `${t("not_recorded", recording.status)} ${cleanText(recording.problem, 600)}`;
    state.textContent =
      error || (recording.running ? t("recording") : recording.runs ? ended : t("record_hint"));
    state.className =
      error || (recording.runs && !recording.running && recording.report < 0) ? "error" : "";
    output.hidden = !recording.output;
    const end = output.scrollTop + output.clientHeight >= output.scrollHeight - 20;
    fillElement(output, outputText(recording.output));
    if (end) output.scrollTop = output.scrollHeight;
  }

  /** Follow until it has ended, whether the dialog is there or not. */
  async function followRecording(): Promise<void> {
    while (now!.running) {
      await new Promise((callback) => setTimeout(callback, 250));
      const next = await app.ask<Recording>("record");
      if (!next) return;
      now = next;
      drawRecording();
    }
    if (now!.report < 0) return;
    if (app.reports.length <= now!.report) await app.reloadReports();
    showToast(t("recorded", cleanText(now!.file, 200)));
  }

  async function controlRecording(what: "start" | "stop"): Promise<void> {
    start.disabled = true;
    try {
      await postForm(
        `record/${what}`,
        Object.fromEntries(boxes.map((b) => [b.name, b.box.checked ? "1" : "0"])),
      );
      now = (await app.ask<Recording>("record")) ?? now;
      drawRecording();
      if (what === "start") await followRecording();
    } catch (error) {
      drawRecording(error instanceof ServerError ? cleanText(error.message, 600) : t("error"));
    }
  }

  drawRecording();
  if (now.running) void followRecording();
}
