/**
 * harness.mjs - what tests of the page share: reports and servers, a page in Debian's chromium by
 * playwright-core that is watched for errors and requests, comparing, and TAP. `SCRIPT WARPSIGHT
 * MAKE_REPORT CUDA_BENCH [words]` runs the tests whose names have all words.
 *
 * Nothing here waits for a time: `until` asks again until something holds, and fails after a long
 * while.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join, dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chrome, missing } from "./chrome.mjs";

// some are started in other folders
export const [warpsight, makeReport, cudaBench] = process.argv.slice(2, 5).map((p) => resolve(p));
// "--part=i/n" among them: every n-th of the tests from the i-th
const part = process.argv.slice(5).find((word) => word.startsWith("--part="));
const words = process.argv.slice(5).filter((word) => word !== part);
export const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
const tests = [];
export const test = (name, run) => tests.push({ name, run });

function skipAll(why) {
  console.log(`1..0 # SKIP ${why}`);
  process.exit(0);
}

const library = join(root, "viewer", "node_modules", "playwright-core", "index.mjs");
if (!chrome) skipAll(missing);
if (!existsSync(library)) skipAll("no playwright-core (npm ci in viewer)");
const { chromium } = await import(pathToFileURL(library));

export const folder = mkdtempSync(join(tmpdir(), "warpsight-page-"));
const servers = [];

export function make(name, program, ...args) {
  const file = join(folder, name);
  const r = spawnSync(program, [file, ...args]);
  if (r.status !== 0) throw new Error(`${program}: ${r.stderr}`);
  return file;
}

/** Arguments; before them, options of spawn. */
export async function serve(...args) {
  const options = typeof args[0] === "object" ? args.shift() : {};
  const p = spawn(warpsight, ["view", "--no-open", ...args], options);
  servers.push(p);
  let text = "",
    wrong = "";
  p.stderr.on("data", (d) => (wrong += d));
  const url = await new Promise((done, fail) => {
    p.stdout.on("data", (d) => {
      text += d;
      if (text.includes("\n")) done(text.split("\n")[0]);
    });
    p.on("exit", (code) => fail(new Error(`view ended with ${code}: ${wrong}`)));
  });
  return { url, process: p, output: () => text };
}

export const sleep = (ms) => new Promise((f) => setTimeout(f, ms));
/* A minute; eight where a sanitizer slows the server. */
const TRIES = process.env.WS_TEST_SANITIZE ? 19200 : 2400;

export async function until(what, f) {
  let last;
  for (let i = 0; i < TRIES; i++) {
    last = await f();
    if (last) return last;
    await sleep(25);
  }
  throw new Error(`waited in vain for: ${what}`);
}

export function equal(a, b, what) {
  if (JSON.stringify(a) !== JSON.stringify(b))
    throw new Error(`${what}: ${JSON.stringify(a)} instead of ${JSON.stringify(b)}`);
}
export function ok(v, what) {
  if (!v) throw new Error(what);
}
export function near(a, b, by, what) {
  if (!(Math.abs(a - b) <= by)) throw new Error(`${what}: ${a} is not within ${by} of ${b}`);
}

/* ---- a page under watch ---- */

export const browser = await chromium.launch({
  executablePath: chrome,
  args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"],
});

/* To make a context of the browser, and what it needs for its first page, costs more than a page:
 * one that is through with a page is kept for the next of its kind. */
const idle = new Map(), // by their options
  origins = new Set(); // that they may have kept something of

/** A context that keeps nothing of pages before. */
async function takeContext(kind, options) {
  const used = idle.get(kind)?.pop();
  if (!used)
    return browser.newContext({
      viewport: { width: 1400, height: 900 },
      locale: "en-GB",
      ...options,
    });
  const cdp = await used.newCDPSession(used.pages()[0]);
  for (const origin of origins)
    await cdp.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
  await cdp.detach();
  return used;
}

/** Leave a page and those that it opened; an empty one holds the place. */
async function giveBack(kind, context) {
  await context.clearPermissions();
  const pages = context.pages();
  await context.newPage();
  await Promise.all(pages.map((page) => page.close()));
  idle.set(kind, [...(idle.get(kind) ?? []), context]);
}

/** `search` stands behind the address. */
export async function open(server, { search = "", ...options } = {}) {
  const origin = new URL(server.url).origin,
    kind = JSON.stringify(options),
    isKept = origin !== "null", // what files keep belongs to no origin that can be emptied
    context = await takeContext(isKept ? kind : "file", options);
  if (isKept) origins.add(origin);
  const page = context.pages()[0] ?? (await context.newPage());
  const wrong = [];
  page.on(
    "console",
    (m) =>
      ["error", "warning"].includes(m.type()) &&
      !/GPU stall|GL Driver/.test(m.text()) &&
      wrong.push(`console: ${m.text()}`),
  );
  page.on("pageerror", (e) => wrong.push(`error: ${e.stack}`));
  page.on("dialog", (d) => {
    wrong.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  page.on("request", (r) => {
    if (
      !(origin === "null" ? r.url().startsWith(server.url) : r.url().startsWith(origin)) &&
      !r.url().startsWith("data:") &&
      !r.url().startsWith("blob:")
    )
      wrong.push(`request: ${r.url()}`);
  });
  await page.goto(server.url + search);
  const t = new Page(page, context, wrong, isKept ? () => giveBack(kind, context) : undefined);
  await t.settled();
  return t;
}

export class Page {
  constructor(page, context, wrong, leave = () => context.close()) {
    Object.assign(this, { page, context, wrong, leave });
  }
  eval(f, arg) {
    return this.page.evaluate(f, arg);
  }
  async settled() {
    await until("the page to be drawn", () =>
      this.eval(() => {
        const w = window.warpsight;
        return (
          w &&
          w.app.rows &&
          w.app.complete &&
          !w.app.cache.busy() &&
          w.app.rows.visible.length > 0 &&
          !w.panels.findings.isAsking()
        );
      }),
    );
    await this.eval(
      () => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f))),
    );
    await until("tiles", () => this.eval(() => !window.warpsight.app.cache.busy()));
  }
  /** What "Copy link" gives, once the address line, which follows a moment later, is the same. */
  link() {
    return until("the address of what is shown", () =>
      this.eval(() => {
        const link = window.warpsight.app.makeLink();
        return link === location.href && link;
      }),
    );
  }
  view() {
    return this.eval(() => [window.warpsight.app.view.t0, window.warpsight.app.view.t1]);
  }
  async set(t0, t1) {
    await this.eval(([a, b]) => window.warpsight.app.view.set(a, b), [t0, t1]);
    await this.settled();
  }
  /**
   * Where a time on the n-th row of a type is on the screen; n may be the row's key, which stays
   * when rows come and go.
   */
  at(type, time, level = 0, n = 0) {
    return this.eval(
      ([ty, tm, lv, k]) => {
        const { app, timeline } = window.warpsight;
        const row =
          typeof k === "string"
            ? app.rows.byKey.get(k)
            : app.rows.visible.filter((r) => r.type === ty)[k];
        app.scrollTo(row, lv);
        const box = timeline.area.getBoundingClientRect();
        return {
          x: box.left + app.view.x(tm),
          y:
            box.top +
            timeline.top(row) +
            3 +
            (row.lane === undefined ? row.h / 2 - 3 : (lv + 0.5) * row.height),
          row: row.key,
        };
      },
      [type, time, level, n],
    );
  }
  async click(type, time, level = 0, n = 0, options = {}) {
    // brings it into sight, and what is read for that may move others
    const { row } = await this.at(type, time, level, n);
    await this.settled();
    const p = await this.at(type, time, level, row);
    await this.page.mouse.click(p.x, p.y, options);
  }
  /** The colour of the rows at a point of the screen. */
  pixel(x, y) {
    return this.eval(
      ([px, py]) => {
        const { timeline } = window.warpsight,
          c = timeline.root.querySelector(".rects"),
          box = c.getBoundingClientRect(),
          copy = document.createElement("canvas").getContext("2d");
        timeline.paintRows(timeline.inSight());
        copy.drawImage(c, Math.round(px - box.left), Math.round(py - box.top), 1, 1, 0, 0, 1, 1);
        timeline.draw();
        return [...copy.getImageData(0, 0, 1, 1).data].slice(0, 3);
      },
      [x, y],
    );
  }
  selected() {
    return this.eval(
      () =>
        window.warpsight.app.selected && {
          name: window.warpsight.app.selected.spot.name,
          ...window.warpsight.app.selected.spot,
          detail: window.warpsight.app.selected.detail,
        },
    );
  }
  async select(type, time, level = 0, n = 0) {
    await this.eval(() => window.warpsight.app.select(0, null));
    await this.click(type, time, level, n);
    return until("an event to be selected", async () => {
      const s = await this.selected();
      return s?.detail ? s : null;
    });
  }
  text(css) {
    return this.page.locator(css).innerText();
  }
  async drag(from, to, options = {}) {
    const { page } = this;
    if (options.key) await page.keyboard.down(options.key);
    await page.mouse.move(from.x, from.y);
    await page.mouse.down({ button: options.button ?? "left" });
    await page.mouse.move((from.x + to.x) / 2, (from.y + to.y) / 2, { steps: 3 });
    await page.mouse.move(to.x, to.y, { steps: 3 });
    await page.mouse.up({ button: options.button ?? "left" });
    if (options.key) await page.keyboard.up(options.key);
  }
  async end() {
    await this.leave();
    if (this.wrong.length) throw new Error(this.wrong.join("\n"));
  }
}

let one;
/** The server of a report with some of everything, started once. */
export async function first() {
  one ??= await serve(make("one.wsrep", makeReport));
  return one;
}

export const withPage = (name, run, options) =>
  test(name, async () => {
    const t = await open(await first(), options);
    try {
      await run(t);
    } catch (e) {
      await t.page
        .screenshot({
          path: join(process.env.WS_SHOTS ?? folder, `${name.replace(/\W+/g, "-")}.png`),
        })
        .catch(() => undefined);
      if (t.wrong.length) e.message += `\n${t.wrong.join("\n")}`;
      throw e;
    }
    await t.end();
  });

export const MS = 1e6;

export function get(url, headers = {}, method = "GET") {
  return new Promise((done, fail) => {
    const u = new URL(url);
    const r = http.request(
      { host: u.hostname, port: u.port, path: u.pathname + u.search, method, headers },
      (a) => {
        let body = "";
        a.on("data", (d) => (body += d));
        a.on("end", () => done({ status: a.statusCode, body, headers: a.headers }));
      },
    );
    r.on("error", fail);
    r.end();
  });
}

/** Run what was declared by `test`, and end. */
export async function runAll() {
  const named = tests.filter((t) => words.every((w) => t.name.includes(w)));
  const [which, parts] = part ? part.slice("--part=".length).split("/").map(Number) : [1, 1];
  const chosen = named.filter((_, i) => i % parts === which - 1);
  console.log(`1..${chosen.length}`);
  let failed = 0,
    number = 0;
  for (const t of chosen) {
    number++;
    try {
      await t.run();
      console.log(`ok ${number} - ${t.name}`);
    } catch (e) {
      failed++;
      console.log(`not ok ${number} - ${t.name}\n${String(e.stack).replace(/^/gm, "# ")}`);
    }
  }
  await browser.close();
  for (const p of servers) p.kill("SIGTERM");
  rmSync(folder, { recursive: true, force: true });
  process.exit(failed ? 1 : 0);
}
