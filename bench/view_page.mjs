/**
 * view_page.mjs - how fast the page of `view` is, in Debian's chromium without a GPU: for
 * figures_view.py.
 *
 *   view_page.mjs WARPSIGHT painted REPORT
 *       from the start of `view` to the picture of all rows in sight, ms
 *   view_page.mjs WARPSIGHT link REPORT
 *       the same over a link with 100 ms from end to end and back; then from a pan or zoom to the
 *       next picture and to the sharp one
 *   view_page.mjs WARPSIGHT rows REPORT N
 *       frames a second, and memory, while panning and zooming with N rows on the page: on a screen
 *       of 1920x1080, and on one so high that all are in sight
 *
 * Prints one object of numbers; or a sentence about what is missing, with status 77. The browser
 * runs already, as a user's does; its profile is new, and nothing is kept from run to run.
 */
import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { chrome, missing } from "../tests/serve/chrome.mjs";

const [warpsight, what, report, wanted] = process.argv.slice(2);
const ROUND_TRIP = 100,
  MOVES = 24,
  SECONDS = 4;

function skip(why) {
  console.log(why);
  process.exit(77);
}

const library = join(
  dirname(fileURLToPath(import.meta.url)),
  "..",
  "viewer",
  "node_modules",
  "playwright-core",
  "index.mjs",
);
if (!chrome) skip(missing);
if (!existsSync(library)) skip("no playwright-core (npm ci in viewer)");
const { chromium } = await import(pathToFileURL(library));
const browser = await chromium.launch({
  executablePath: chrome,
  args: ["--no-sandbox", "--disable-gpu"],
});

/* ---- server, link, page ---- */

async function serve() {
  const began = Date.now(),
    p = spawn(warpsight, ["view", "--no-open", report], { stdio: ["ignore", "pipe", "inherit"] });
  const url = await new Promise((done, fail) => {
    let text = "";
    p.stdout.on("data", (d) => (text += d).includes("\n") && done(text.split("\n")[0]));
    p.on("exit", (code) => fail(new Error(`view ended with ${code}`)));
  });
  return { url, began, end: () => p.kill("SIGTERM") };
}

const later = (ms, f) => setTimeout(f, ms);

/**
 * A way to the server that takes half of ROUND_TRIP in each direction, and one more round trip to
 * open a connection.
 */
async function far(url) {
  const to = new URL(url),
    agent = new http.Agent({ keepAlive: true }),
    opened = new WeakSet();
  const proxy = http.createServer((q, a) => {
    const parts = [],
      fresh = !opened.has(q.socket);
    opened.add(q.socket);
    q.on("data", (d) => parts.push(d));
    q.on("end", () =>
      later(ROUND_TRIP / 2 + (fresh ? ROUND_TRIP : 0), () => {
        const r = http.request(
          {
            host: to.hostname,
            port: to.port,
            path: q.url,
            method: q.method,
            headers: q.headers,
            agent,
          },
          (b) => {
            later(ROUND_TRIP / 2, () => a.writeHead(b.statusCode, b.headers));
            b.on("data", (d) => later(ROUND_TRIP / 2, () => a.write(d)));
            b.on("end", () => later(ROUND_TRIP / 2, () => a.end()));
          },
        );
        r.on("error", () => a.destroy());
        r.end(Buffer.concat(parts));
      }),
    );
  });
  proxy.keepAliveTimeout = 120000;
  await new Promise((f) => proxy.listen(0, "127.0.0.1", f));
  return {
    url: `http://127.0.0.1:${proxy.address().port}${to.pathname}`,
    end: () => (proxy.closeAllConnections(), proxy.close()),
  };
}

/**
 * In the page: has every row in sight its tiles of the present view (`sharp`), or any picture? When
 * did that come to be?
 */
function watch() {
  const b = (window.bench = { firstAt: 0 });
  b.rows = () => window.warpsight.timeline.inSight().filter((r) => r.lane !== undefined);
  b.sharp = () => {
    const { app, timeline } = window.warpsight ?? {};
    if (!app?.rows?.visible.length) return false;
    const k = timeline.scaleOf(),
      span = 1024 * 2 ** k,
      rows = b.rows();
    return (
      rows.length > 0 &&
      rows.every((r) => {
        for (let i = Math.floor(app.view.t0 / span); i * span < app.view.t1; i++)
          if (!app.cache.get(r.report, r.lane, k, i)) return false;
        return true;
      })
    );
  };
  b.drawn = () => {
    const { app, timeline } = window.warpsight;
    return b.rows().filter((r) => {
      let any = false;
      timeline.batches(
        r.report,
        r.lane,
        0,
        timeline.scaleOf(),
        app.view.t0,
        app.view.t1,
        () => (any = true),
      );
      return any;
    }).length;
  };
  /* What a frame draws is on the screen when the next begins. */
  b.next = () => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)));
  const look = async () => {
    if (!b.sharp()) return requestAnimationFrame(look);
    await b.next();
    b.firstAt = Date.now();
  };
  requestAnimationFrame(look);
  /** From a move to a picture of all rows, and to the sharp one; ms. */
  b.move = async (t0, t1) => {
    const began = performance.now();
    window.warpsight.app.view.set(t0, t1);
    await b.next();
    const rows = b.rows().length,
      drawn = b.drawn(),
      picture = performance.now() - began;
    while (!b.sharp()) await new Promise((f) => requestAnimationFrame(f));
    await b.next();
    return { rows, drawn, picture, sharp: performance.now() - began };
  };
}

async function tab(viewport = { width: 1920, height: 1080 }) {
  const context = await browser.newContext({ viewport, locale: "en-GB" }),
    page = await context.newPage();
  await page.addInitScript(watch);
  return page;
}

async function open(page, url) {
  await page.goto(url, { waitUntil: "commit" });
  await until(page, () => window.bench?.firstAt);
  return page;
}

async function until(page, f) {
  for (const end = Date.now() + 240000; Date.now() < end; await new Promise((g) => later(50, g)))
    if (await page.evaluate(f)) return;
  throw new Error(`waited in vain for ${f}`);
}

const settled = (page) =>
  until(page, () => window.warpsight.app.complete && !window.warpsight.app.cache.busy());
const median = (v) => [...v].sort((a, b) => a - b)[v.length >> 1];

/* ---- what is measured ---- */

async function painted() {
  const page = await tab(),
    s = await serve();
  await open(page, s.url);
  const ms = (await page.evaluate(() => window.bench.firstAt)) - s.began;
  s.end();
  return { painted: ms };
}

/**
 * Moves as people make them: in by a factor of four at some place, aside by a third, out again, far
 * away.
 */
function* moves(first, last) {
  let [a, b] = [first, last],
    seed = 7;
  const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff;
  for (let i = 0; i < MOVES; i++) {
    const w = b - a,
      at = random();
    if (i % 6 < 3) [a, b] = [a + (w * 3 * at) / 4, a + (w * 3 * at) / 4 + w / 4];
    else if (i % 6 === 3) [a, b] = [a + w / 3, b + w / 3];
    else if (i % 6 === 4) [a, b] = [a - w / 2, b + w / 2];
    else (a = first + at * (last - first - w)), (b = a + w);
    yield [a, b];
  }
}

async function link() {
  const page = await tab(),
    s = await serve(),
    l = await far(s.url),
    picture = [],
    sharp = [];
  let blank = 0;
  await open(page, l.url);
  const first = (await page.evaluate(() => window.bench.firstAt)) - s.began;
  await settled(page);
  const [a, b] = await page.evaluate(() => [
    window.warpsight.app.view.first,
    window.warpsight.app.view.last,
  ]);
  for (const to of moves(a, b)) {
    const m = await page.evaluate(([x, y]) => window.bench.move(x, y), to);
    await settled(page);
    picture.push(m.picture);
    sharp.push(m.sharp);
    blank += m.rows - m.drawn;
  }
  l.end();
  s.end();
  return {
    first,
    picture: median(picture),
    sharp: median(sharp),
    sharp_most: Math.max(...sharp),
    blank,
  };
}

/**
 * Fields of /proc/PID/status in MB, and processor time in ms, of the process that draws the page.
 */
async function renderer() {
  const session = await browser.newBrowserCDPSession(),
    { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  const all = processInfo
    .filter((p) => p.type === "renderer")
    .map((p) => {
      const status = readFileSync(`/proc/${p.id}/status`, "utf8"),
        field = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)[1]) / 1024;
      return {
        memory: field("VmRSS"),
        own: field("RssAnon") + field("RssShmem"),
        cpu: p.cpuTime * 1000,
      };
    });
  return all.sort((x, y) => y.memory - x.memory)[0];
}

async function frames(page) {
  const before = await renderer(),
    r = await page.evaluate(
      (seconds) =>
        new Promise((done) => {
          const { app, timeline } = window.warpsight,
            began = performance.now();
          let n = 0;
          const go = () => {
            const t = performance.now() - began;
            if (t > seconds * 1000)
              return done({
                fps: n / (t / 1000),
                draw: [...timeline.frames].sort((a, b) => a - b)[timeline.frames.length >> 1],
                rows: window.bench.rows().length,
                drawn: window.bench.drawn(),
              });
            n++;
            if (t % 2000 < 1000)
              app.view.zoom(app.view.width * 0.4, t % 1000 < 500 ? 0.97 : 1 / 0.97);
            else app.view.pan(t % 1000 < 500 ? 12 : -12);
            requestAnimationFrame(go);
          };
          requestAnimationFrame(go);
        }),
      SECONDS,
    ),
    after = await renderer();
  return { ...r, cpu: (after.cpu - before.cpu) / (r.fps * SECONDS) };
}

async function rows() {
  const s = await serve(),
    out = {};
  for (const [name, high] of [
    ["screen", false],
    ["all", true],
  ]) {
    const page = await tab();
    await open(page, s.url);
    await settled(page);
    out.rows = await page.evaluate(() => window.warpsight.app.rows.visible.length);
    if (out.rows < Number(wanted)) throw new Error(`${out.rows} rows on the page`);
    if (high) {
      await page.setViewportSize({
        width: 1920,
        height: await page.evaluate(
          (n) =>
            Math.ceil(
              window.warpsight.app.rows.visible[n - 1].y +
                innerHeight -
                window.warpsight.timeline.areaHeight,
            ),
          Number(wanted),
        ),
      });
      await settled(page);
    }
    await frames(page); // tiles of the way come to be there
    await settled(page);
    const f = await frames(page),
      m = await renderer();
    Object.assign(out, {
      [`${name}_fps`]: f.fps,
      [`${name}_draw`]: f.draw,
      [`${name}_cpu`]: f.cpu,
      [`${name}_rows`]: f.rows,
      [`${name}_memory`]: m.memory,
      [`${name}_own`]: m.own,
    });
    await page.context().close();
  }
  s.end();
  return out;
}

try {
  console.log(JSON.stringify(await { painted, link, rows }[what]()));
} finally {
  await browser.close();
}
process.exit(0);
