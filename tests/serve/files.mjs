/**
 * files.mjs - several reports on a page, exported and large ones; the server's refusals; files and
 * recordings from the page. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import {
  browser,
  cudaBench,
  equal,
  first,
  folder,
  get,
  make,
  makeReport,
  MS,
  near,
  ok,
  open,
  Page,
  root,
  runAll,
  serve,
  test,
  until,
  warpsight,
} from "./harness.mjs";

const readText = (path) => {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return ""; // it has ended meanwhile
  }
};
test("two reports below one another, aligned by their clocks or by an event", async () => {
  const s = await serve(make("a.wsrep", makeReport, "4"), make("b.wsrep", makeReport, "6"));
  const t = await open(s);
  equal(
    await t.eval(() => window.warpsight.app.rows.roots.map((r) => r.label)),
    ["a.wsrep", "b.wsrep"],
    "reports",
  );
  equal(await t.eval(() => window.warpsight.app.offsets), [0, 0], "offsets by clock");
  await t.eval(() => window.warpsight.app.setOffset(1, 500000));
  await t.settled();
  const x = await t.eval(async () => {
    const { app } = window.warpsight;
    const spot = await app.source.json("step", { r: 1, q: "step 1", t: 0 });
    app.select(1, spot, true);
    return spot.start;
  });
  ok(x > 0, "an event of the second report");
  const [a, b] = await t.view();
  ok(a < x + 500000 && b > x + 500000, "it is shown where its report was put");
  await t.page.locator("[data-tab=statistics]").click();
  await until(
    "statistics of both",
    async () => (await t.page.locator(".statistics tbody tr").count()) > 4,
  );
  await t.end();
});

test("an exported page stands alone: rows, zoom, details, statistics, search", async () => {
  const file = make("e.wsrep", makeReport),
    html = join(folder, "e.html");
  const r = spawnSync(warpsight, [
    "export",
    "-t",
    "html",
    "-o",
    html,
    "--times",
    "0.5ms/3ms",
    file,
  ]);
  equal(r.status, 0, String(r.stderr));
  const one = await first();
  const t = await open({ url: pathToFileURL(html).href });
  ok(
    await t.eval(() => getComputedStyle(document.querySelector("header")).display === "flex"),
    "its style applies",
  );
  const [a, b] = await t.view();
  near(a, 0.5 * MS, 0.1 * MS, "start of what is shown");
  near(b, 3 * MS, 0.1 * MS, "end of what is shown");
  const names = await t.page.locator(".label .name").allInnerTexts();
  ok(names.includes("rank 0 · Process python3 [100]"), "rows");
  await t.eval(() => window.warpsight.app.select(0, null));
  await t.click("nvtx", 1.5 * MS, 0);
  const s = await until("an event", () => t.selected());
  ok(s.name.startsWith("step"), s.name);

  /* Details are what the server says, but for links that need the whole report. */
  const live = await open(one);
  const spots = await t.eval(async () =>
    (await window.warpsight.app.source.json("events", { r: 0, limit: 1000 })).events.filter(
      (x) => x.start > 0.6e6 && x.end < 2.9e6,
    ),
  );
  const all = await live.eval(
    async () =>
      (await window.warpsight.app.source.json("events", { r: 0, limit: 1000, t0: 0.5e6, t1: 3e6 }))
        .events,
  );
  const detail = (page, x) =>
    page.eval(async (p) => window.warpsight.app.source.json("event", { r: 0, ...p }), {
      lane: x.lane,
      level: x.level,
      event: x.event,
    });
  const strip = (d) => ({ table: d.table, sqlite: d.sqlite, columns: d.columns, stack: d.stack });
  const kinds = new Set();
  for (const x of spots) {
    const there = all.find(
      (y) => y.name === x.name && y.start === x.start && y.end === x.end && y.lane === x.lane,
    );
    const mine = await detail(t, x);
    if (kinds.has(mine.table) || !there) continue;
    const theirs = await detail(live, there);
    // launched before what the page carries
    if (theirs.links.some((l) => l.role === "call" && l.end < 0.5e6)) continue;
    kinds.add(mine.table);
    equal(strip(mine), strip(theirs), `details of ${x.name} (${mine.table})`);
  }
  ok(
    ["cuda_api", "cuda_kernel", "nvtx", "osrt", "sample", "state"].every((k) => kinds.has(k)),
    `tables: ${[...kinds]}`,
  );
  const calls = await t.eval(() =>
    [...window.warpsight.app.rows.byLane.values()]
      .filter((r) => r.type === "cuda_api")
      .map((r) => r.lane),
  );
  const launch = spots.find((x) => calls.includes(x.lane) && x.name.startsWith("cudaLaunchKernel"));
  const work = (await detail(t, launch)).links.filter((l) => l.role === "work");
  equal(work.length, 1, "the work of a launch");
  ok(
    (await detail(t, work[0])).links.some((l) => l.role === "call" && l.start === launch.start),
    "and back",
  );
  /* Ranges around a launch and its kernel, and ranges as the GPU saw them, are the server's. */
  const ranges = (d) =>
    d.links
      .filter((l) => ["range", "on_gpu"].includes(l.role))
      .map((l) => [l.role, l.name, l.start, l.end]);
  const step = await t.eval(async () =>
    window.warpsight.app.source.json("step", { r: 0, q: "step 2", t: 0.6e6 }),
  );
  // its rows are numbered as they come
  const gpu = async (page, x) => (await detail(page, x)).links.find((l) => l.role === "on_gpu");
  const there = (x) =>
    live.eval(
      async (p) =>
        (
          await window.warpsight.app.source.json("events", {
            r: 0,
            lanes: p.lane,
            t0: p.start,
            t1: p.start + 1,
          })
        ).events.find((e) => e.start === p.start && e.name === p.name),
      x,
    );
  const pairs = await Promise.all([launch, work[0], step].map(async (x) => [x, await there(x)]));
  for (const [x, y] of [...pairs, [await gpu(t, step), await gpu(live, pairs[2][1])]]) {
    const links = ranges(await detail(t, x));
    ok(links.length > 0, `${x.name} is in a range, or was on the GPU`);
    equal(links, ranges(await detail(live, y)), `ranges of ${x.name}`);
  }

  await t.drag(await t.at("process", 1 * MS), await t.at("process", 2 * MS));
  await until("statistics", async () => (await t.page.locator(".statistics tbody tr").count()) > 2);
  /* The same window asked of the server: the same sums. */
  const range = await t.eval(() => window.warpsight.app.range.map(Math.round));
  const sum = (page) =>
    page.eval(
      async ([x, y]) =>
        (await window.warpsight.app.source.json("sum", { r: 0, t0: x, t1: y })).groups
          .map((g) => [g.kind, g.name, g.count, g.total])
          .sort((p, q) => (p.join() < q.join() ? -1 : 1)),
      range,
    );
  equal(await sum(t), await sum(live), "sums of the exported page and of the server");
  await live.end();
  await t.page.locator(".searchbox").fill("forward");
  await until("matches", async () => /^\d+ matches/.test(await t.text(".found")));
  await t.end();
});

test("a report of ten million events", async () => {
  const t0 = Date.now();
  const file = make("big.wsrep", cudaBench);
  const t1 = Date.now();
  const s = await serve(file);
  const t = await open(s);
  console.log(
    `# made in ${t1 - t0} ms, everything read and drawn ${Date.now() - t1} ms after the start`,
  );
  const [a, b] = await t.view();
  ok(b - a > 80e9, "all of it is shown");
  const frames = await t.eval(async () => {
    const { app, timeline } = window.warpsight;
    timeline.frames.length = 0;
    const began = performance.now();
    for (let i = 0; i < 60; i++) {
      app.view.zoom(500, i < 30 ? 0.8 : 1.25);
      await new Promise((f) => requestAnimationFrame(f));
    }
    return {
      n: timeline.frames.length,
      ms: performance.now() - began,
      mean: timeline.frames.reduce((x, y) => x + y, 0) / timeline.frames.length,
    };
  });
  console.log(
    `# zooming: ${(frames.n / frames.ms) * 1000} frames a second, ${frames.mean} ms of work a frame`,
  );
  await t.settled();
  const s2 = await t.eval(async () =>
    window.warpsight.app.source.json("search", { r: 0, q: "elementwise" }),
  );
  ok(s2.count > 1e6, `search over all: ${s2.count}`);
  await t.end();
});

/* ---- the server ---- */

test("the server refuses what lacks the token, is for another host, or is no file of its own", async () => {
  const one = await first();
  const u = new URL(one.url);
  equal((await get(one.url)).status, 200, "with the token");
  equal((await get(u.origin + "/")).status, 403, "without");
  equal((await get(u.origin + "/" + "0".repeat(32) + "/")).status, 403, "with another");
  equal((await get(one.url.slice(0, -2) + "x/")).status, 403, "with one letter changed");
  for (const host of [
    "evil.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example:80",
    "localhost:1x",
  ])
    equal((await get(one.url, { Host: host })).status, 403, `for host ${host}`);
  for (const host of ["localhost", "LOCALHOST:9999", "127.0.0.1:1", "[::1]:80"])
    equal((await get(one.url, { Host: host })).status, 200, `for host ${host}`);
  for (const path of ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "api/", "nothing", "app.js/"])
    ok([403, 404].includes((await get(one.url + path)).status), `path ${path}`);
  equal((await get(one.url + "api/session", {}, "POST")).status, 405, "POST");
  const page = await get(one.url);
  ok(
    page.headers["content-security-policy"].includes("default-src 'none'"),
    "content security policy",
  );
  equal(page.headers["x-content-type-options"], "nosniff", "no sniffing");
  ok(!/https?:/.test(page.body), "the page names no other place");
});

test("the page and its files are small", async () => {
  const one = await first();
  let sum = 0;
  for (const f of ["", "app.js", "app.css", "icon.svg"])
    sum += (await get(one.url + f)).body.length;
  console.log(`# ${sum} bytes before compression`);
  ok(sum < 1000000, `${sum} bytes`);
});

test("view: what it prints, and that it ends by a signal", async () => {
  const s = await serve("--remote-hint", make("c.wsrep", makeReport, "1"));
  ok(/^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/$/.test(s.url), s.url);
  await until("the hint", () => s.output().includes("ssh -L"));
  const code = await new Promise((f) => {
    s.process.removeAllListeners("exit");
    s.process.on("exit", f);
    s.process.kill("SIGINT");
  });
  equal(code, 0, "exit status");
  const r = spawnSync(warpsight, ["view", "--no-open", join(folder, "not-there.wsrep")]);
  equal(r.status, 1, "status for a file that is not there");
  ok(String(r.stderr).includes("not-there.wsrep"), "its name is said");
});

test("the page's types check", async () => {
  const tsc = join(root, "viewer", "node_modules", "typescript", "bin", "tsc");
  ok(existsSync(tsc), "typescript is there with playwright-core, by the same lock file");
  mkdirSync(join(root, "viewer", "generated"), { recursive: true });
  const constants = join(root, "viewer", "generated", "constants.ts");
  const made = spawnSync("python3", [join(root, "scripts", "page_constants.py"), constants]);
  equal(made.status, 0, `constants from the program's declarations: ${made.stderr}`);
  const r = spawnSync(process.execPath, [tsc, "--noEmit", "-p", join(root, "viewer")]);
  equal(String(r.stdout), "", "what the compiler says");
  equal(r.status, 0, "its status");
});

/* ---- files from the page, and recording from it ---- */

/** POST with a body, as the page sends it unless `headers` say otherwise. */
function post(url, body = "", headers = {}) {
  return new Promise((done, fail) => {
    const u = new URL(url);
    const r = http.request(
      {
        host: u.hostname,
        port: u.port,
        path: u.pathname + u.search,
        method: "POST",
        headers: { Origin: u.origin, ...headers },
      },
      (a) => {
        let text = "";
        a.on("data", (d) => (text += d));
        a.on("end", () => done({ status: a.statusCode, body: text }));
      },
    );
    r.on("error", fail);
    r.end(body);
  });
}

/** A page without a report: there are no rows to wait for. */
async function openEmpty(server) {
  const context = await browser.newContext({
    viewport: { width: 1400, height: 900 },
    locale: "en-GB",
  });
  const page = await context.newPage();
  const wrong = [];
  page.on(
    "console",
    (m) =>
      ["error", "warning"].includes(m.type()) &&
      !/GPU stall|GL Driver/.test(m.text()) &&
      wrong.push(`console: ${m.text()}`),
  );
  page.on("pageerror", (e) => wrong.push(`error: ${e.stack}`));
  await page.goto(server.url);
  await page.waitForSelector(".empty:not([hidden])");
  return new Page(page, context, wrong);
}

const names = (t) => t.eval(() => window.warpsight.app.reports.map((r) => r.name));
const left = (dir) => readdirSync(dir).filter((n) => n.startsWith("warpsight-upload-"));

test("open: a page without a report takes some by dialog and by drop, and says what it cannot take", async () => {
  const dir = mkdtempSync(join(folder, "upload-"));
  const s = await serve({ env: { ...process.env, TMPDIR: dir } });
  const a = make("first.wsrep", makeReport),
    b = make("second.wsrep", makeReport, "1");
  const t = await openEmpty(s);
  ok(
    (await t.page.textContent(".empty")).includes("Drop a report here"),
    "what the empty page says",
  );
  for (const key of ["w", "s", "ArrowRight", "z", "Escape"]) await t.page.keyboard.press(key);
  await t.page.setViewportSize({ width: 1300, height: 800 });

  const asked = t.page.waitForEvent("filechooser");
  await t.page.click(".empty button");
  await (await asked).setFiles([a, b]);
  await until("both", async () => (await names(t)).length === 2);
  await t.settled();
  equal(await names(t), ["first.wsrep", "second.wsrep"], "reports by dialog");
  ok(await t.eval(() => document.querySelector(".empty").hidden), "the empty page is gone");
  ok(
    await t.eval(() => window.warpsight.app.rows.visible.some((r) => r.report === 1)),
    "rows of the second",
  );

  const drop = (files) =>
    t.eval((list) => {
      const d = new DataTransfer();
      for (const [name, text] of list) d.items.add(new File([text], name));
      for (const type of ["dragover", "drop"])
        document.body.dispatchEvent(
          new DragEvent(type, { dataTransfer: d, bubbles: true, cancelable: true }),
        );
    }, files);
  const trace = JSON.stringify([{ ph: "X", ts: 1, dur: 5, pid: 1, tid: 2, name: "dropped" }]);
  await drop([
    ["no\u202ething.bin", "\u0001 neither report nor trace"],
    ["<b>t.json", trace],
    ["empty.wsrep", ""],
  ]);
  await until("the trace", async () => (await names(t)).length === 3);
  await until("what is wrong", async () =>
    (await t.page.textContent("#app > .error")).includes("empty.wsrep is empty"),
  );
  const said = await t.page.textContent("#app > .error");
  ok(said.includes("is neither a report nor a trace that can be imported"), said);
  ok(!said.includes(dir), "the place of temporary files is not said");
  await t.settled();
  equal((await names(t))[2], "<b>t.json", "an imported trace");
  const found = await t.eval(
    async () => (await window.warpsight.app.source.json("search", { r: 2, q: "dropped" })).count,
  );
  equal(found, 1, "its event");
  equal(left(dir), [], "nothing is left of the files while the server runs");

  /* Beyond the limit, the page says so by itself and sends nothing. */
  await t.eval(() => (window.warpsight.app.uploadMost = 10));
  await drop([["large.json", trace]]);
  await until("the limit", async () =>
    (await t.page.textContent("#app > .error")).includes("large.json has"),
  );
  equal((await names(t)).length, 3, "reports after that");
  await t.end();
});

test("open: the server takes files from its own page only, up to a size, and stays as it was when one breaks off", async () => {
  const dir = mkdtempSync(join(folder, "upload-"));
  const s = await serve({ env: { ...process.env, TMPDIR: dir } }, make("served.wsrep", makeReport));
  const origin = new URL(s.url).origin,
    add = `${s.url}api/add?name=x.wsrep`,
    bytes = readFileSync(join(folder, "served.wsrep"));
  for (const [headers, what] of [
    [{ Origin: "http://evil.example" }, "another origin"],
    [{ Origin: "null" }, "no origin"],
    [{ Origin: origin.replace(/\d$/, (d) => String((Number(d) + 1) % 10)) }, "another port"],
    [{ "Sec-Fetch-Site": "cross-site" }, "another site"],
    [{ Host: "evil.example", Origin: "http://evil.example" }, "another host"],
  ])
    equal((await post(add, bytes, headers)).status, 403, what);
  equal(
    (await post(`${origin}/${"0".repeat(32)}/api/add?name=x`, bytes)).status,
    403,
    "another token",
  );
  equal((await post(`${s.url}api/record/start`)).status, 405, "recording, which was not allowed");
  equal((await post(`${s.url}api/add`, bytes)).status, 400, "no name");
  equal((await post(`${s.url}api/add?name=${"n".repeat(300)}`, bytes)).status, 400, "a long name");
  const large = await new Promise((done, fail) => {
    const u = new URL(add);
    const r = http.request(
      {
        host: u.hostname,
        port: u.port,
        path: u.pathname + u.search,
        method: "POST",
        headers: { Origin: origin, "Content-Length": "5000000000" },
      },
      (a) => {
        let text = "";
        a.on("data", (d) => (text += d));
        a.on("end", () => done({ status: a.statusCode, body: text }));
      },
    );
    r.on("error", fail);
    r.flushHeaders();
  });
  equal(large.status, 413, "five billion bytes");
  ok(large.body.includes("x.wsrep has 5000000000 bytes"), large.body);

  /* Broken off in the middle: what came of it goes. */
  const half = http.request({
    host: "127.0.0.1",
    port: new URL(add).port,
    path: new URL(add).pathname + "?name=half",
    method: "POST",
    headers: { Origin: origin, "Content-Length": String(bytes.length) },
  });
  half.on("error", () => undefined);
  half.write(bytes.subarray(0, 5000));
  await until("the first half", () => left(dir).length === 1);
  const inside = join(dir, left(dir)[0]);
  equal(statSync(inside).mode & 0o777, 0o700, "mode of the folder");
  equal(statSync(join(inside, "file")).mode & 0o777, 0o600, "mode of the file");
  half.destroy();
  await until("the half to be gone", () => left(dir).length === 0);

  for (let i = 1; i <= 64; i++)
    equal(
      JSON.parse((await post(`${s.url}api/add?name=..%2f..%2fa${i}`, bytes)).body).report,
      i,
      "number of an added report",
    );
  ok(
    JSON.parse((await post(add, bytes)).body).error.includes("no more can be added"),
    "one too many",
  );
  const session = JSON.parse((await get(`${s.url}api/session`)).body);
  equal(
    [session.reports.length, session.reports[64].path],
    [65, "a64"],
    "reports, and the last one's path",
  );
});

/* The sanitizer of threads keeps back the signal that stops a recording. */
if (process.env.WS_TEST_SANITIZE !== "thread")
  test("record: the page runs the command of the command line, as chosen, stops it, and opens the reports", async () => {
    const cwd = mkdtempSync(join(folder, "record-"));
    const s = await serve(
      { cwd },
      "--record",
      "--",
      process.execPath,
      "-e",
      "console.log('it runs'); require('fs').existsSync('long') && setInterval(() => 0, 1000)",
      "a b",
      "$HOME;`id`",
    );
    const t = await openEmpty(s);
    const shown = (what) =>
      until(what, async () => (await t.page.textContent(".record [role=status]")).includes(what));
    await t.page.click("header button[title=Record]");
    const said = await t.page.textContent(".record code");
    ok(said.includes("'a b'") && said.includes("'$HOME;`id`'"), `the command: ${said}`);
    equal(
      await t.page.$$eval(".record label", (l) => l.map((x) => x.textContent)),
      [
        "Collect NVTX trace",
        "Collect CUDA trace",
        "Collect OS runtime trace",
        "Sample call stacks and context switches",
        "Collect Python GIL trace",
      ],
      "choices",
    );
    ok(await t.page.isDisabled(".record button:text-is('Stop')"), "nothing to stop");
    for (const word of ["CUDA", "NVTX", "GIL", "Sample"])
      await t.page.uncheck(`.record label:has-text("${word}") input`);
    await t.page.click(".record button:text-is('Start')");
    await shown("Recorded as report1.wsrep");
    ok((await t.page.textContent(".record .output")).includes("it runs"), "its output");
    await until("the report", async () => (await names(t)).length === 1);
    await t.settled();
    const rows = await t.eval(() =>
      Object.fromEntries(window.warpsight.app.reports[0].tables.map((x) => [x.name, x.rows])),
    );
    ok(
      rows.osrt > 0 && !rows.sample && !rows.sched,
      `only what was chosen: ${JSON.stringify(rows)}`,
    );

    /* A second one, which ends only when it is stopped; no other beside it. */
    writeFileSync(join(cwd, "long"), "");
    await t.page.click(".record button:text-is('Start')");
    await until(
      "its output",
      async () =>
        !(await t.page.isDisabled(".record button:text-is('Stop')")) &&
        (await t.page.textContent(".record .output")).includes("it runs"),
    );
    await t.page.keyboard.press("Escape");
    await until(
      "the dialog to close while it records",
      async () => (await t.page.locator(".record").count()) === 0,
    );
    await t.page.click("header button[title=Record]");
    await shown("Recording");
    ok(
      JSON.parse((await post(`${s.url}api/record/start`)).body).error.includes("under way already"),
      "a second at once",
    );
    equal(
      (await post(`${s.url}api/record/stop`, "", { Origin: "http://evil.example" })).status,
      403,
      "stopped by another page",
    );
    equal((await get(`${s.url}api/record/start`)).status, 404, "by GET");
    await t.page.click(".record button:text-is('Stop')");
    await until(
      "its end",
      async () => JSON.parse((await get(`${s.url}api/record`)).body).running === 0,
    ); // its report is shown before
    await until("both", async () => (await names(t)).length === 2);
    await t.settled();
    equal(await names(t), ["report1.wsrep", "report2.wsrep"], "reports");
    ok(
      JSON.parse((await post(`${s.url}api/record/stop`)).body).error.includes("no recording"),
      "stopped when none runs",
    );
    await t.end();
  });

test("record: a command that cannot be run is said; words that go astray are refused; the server's end stops a recording", async () => {
  const cwd = mkdtempSync(join(folder, "record-"));
  const s = await serve({ cwd }, "--record", "--", "./not-there");
  await post(`${s.url}api/record/start?nvtx=1`);
  const r = await until("the end", async () => {
    const a = JSON.parse((await get(`${s.url}api/record`)).body);
    return !a.running && a;
  });
  ok(r.report === -1 && r.status !== 0 && r.output.includes("not-there"), JSON.stringify(r));
  for (const args of [["--record"], ["--record", "true"]]) {
    const e = spawnSync(warpsight, ["view", "--no-open", ...args]);
    equal([e.status, String(e.stderr).includes("two dashes")], [2, true], args.join(" "));
  }
  const l = await serve({ cwd }, "--record", "--", "sleep", "1000");
  await post(`${l.url}api/record/start`);
  const ended = new Promise((f) => {
    l.process.removeAllListeners("exit");
    l.process.on("exit", f);
  });
  await until("the report to be begun", () => readdirSync(cwd).some((n) => n.includes("wsrep")));
  l.process.kill("SIGINT");
  equal(await ended, 0, "exit status");
  ok(existsSync(join(cwd, "report1.wsrep")), "the recording was ended in order");
});

test("open: traces are imported beside the page, which shows how far it is, can cancel, and other pages see what comes of it", async () => {
  const dir = mkdtempSync(join(folder, "import-"));
  const s = await serve(
    { env: { ...process.env, TMPDIR: dir } },
    make("beside.wsrep", makeReport, "1"),
  );
  const t = await open(s),
    other = await open(s);
  const trace = (n) =>
    `[${Array.from({ length: n }, (_, i) => `{"ph":"X","ts":${i},"dur":1,"pid":1,"tid":2,"name":"imported"}`).join(",\n")}]`;
  const drop = (name, n) =>
    t.eval(
      ([name, text]) => {
        const d = new DataTransfer();
        d.items.add(new File([text], name));
        document.body.dispatchEvent(
          new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true }),
        );
      },
      [name, trace(n)],
    );
  const state = async () => JSON.parse((await get(`${s.url}api/state`)).body);

  /* A child that is held still is under way for as long as this takes. */
  await drop("held.json", 400000);
  const child = await until("the import", () =>
    readdirSync("/proc").find(
      (p) =>
        /^\d+$/.test(p) &&
        existsSync(`/proc/${p}/cmdline`) &&
        readText(`/proc/${p}/cmdline`).includes(dir) &&
        readText(`/proc/${p}/cmdline`).includes("import"),
    ),
  );
  process.kill(Number(child), "SIGSTOP");
  await until("it is shown", async () =>
    (await t.page.textContent(".jobs")).includes("Importing held.json"),
  );
  equal((await get(`${s.url}api/sum?r=0`)).status, 200, "the server answers meanwhile");
  await drop("second.json", 3);
  await until("the second waits", async () =>
    (await state()).jobs.some((j) => j.state === "waiting"),
  );
  await t.page.click(".jobs button:text-is('Cancel')");
  await until("it is cancelled", async () =>
    (await state()).jobs.some((j) => j.name === "held.json" && j.state === "cancelled"),
  );
  ok(
    !existsSync(`/proc/${child}`) || readText(`/proc/${child}/cmdline`) === "",
    "its process is gone",
  );
  await until("the second, here", async () => (await names(t)).includes("second.json"));
  await until("the second, in the other page", async () =>
    (await names(other)).includes("second.json"),
  );
  await until("nothing is left", () => left(dir).length === 0);
  equal(
    (await post(`${s.url}api/cancel?job=0`)).body.includes("not under way"),
    true,
    "cancelled twice",
  );
  equal(
    (await post(`${s.url}api/cancel?job=0`, "", { Origin: "http://evil.example" })).status,
    403,
    "cancelled by another page",
  );

  /* The server's end ends an import too. */
  await drop("last.json", 400000);
  const last = await until("the last", () =>
    readdirSync("/proc").find(
      (p) =>
        /^\d+$/.test(p) &&
        readText(`/proc/${p}/cmdline`).includes(dir) &&
        readText(`/proc/${p}/cmdline`).includes("import"),
    ),
  );
  process.kill(Number(last), "SIGSTOP");
  await t.end();
  await other.end();
  const ended = new Promise((f) => {
    s.process.removeAllListeners("exit");
    s.process.on("exit", f);
  });
  s.process.kill("SIGINT");
  equal(await ended, 0, "exit status");
  ok(
    !existsSync(`/proc/${last}`) || readText(`/proc/${last}/cmdline`) === "",
    "its process is gone with the server",
  );
  equal(left(dir), [], "nothing is left");
});

test("live: a report that is being recorded grows on the page until it has ended", async () => {
  const cwd = mkdtempSync(join(folder, "live-"));
  const s = await serve(
    { cwd },
    "--record",
    "--",
    process.execPath,
    "-e",
    "const f = require('fs'); const i = setInterval(() => { f.writeFileSync('beat', String(Date.now())); if (f.existsSync('stop')) clearInterval(i); }, 20)",
  );
  await post(`${s.url}api/record/start?osrt=1`);
  await until("it runs", () => existsSync(join(cwd, "beat")));
  await until(
    "the report, while it is recorded",
    async () => JSON.parse((await get(`${s.url}api/state`)).body).reports.length === 1,
  );
  const t = await open(s);
  await until("the mark", async () =>
    (await t.page.textContent("header .status")).includes("live"),
  );
  const facts = () =>
    t.eval(() => {
      const a = window.warpsight.app;
      return {
        last: a.reports[0].last,
        events: a.reports[0].tables.reduce((n, x) => n + x.rows, 0),
        t1: a.view.t1,
        rows: a.rows.visible.map((r) => r.key),
        all: [...a.rows.byKey.keys()],
      };
    });
  await until("rows", async () => (await facts()).rows.length > 2);
  const before = await facts();
  const after = await until("more", async () => {
    const f = await facts();
    return f.last > before.last && f.events > before.events && f.t1 > before.t1 && f;
  });
  /* A thread that others leave behind may go to the row of those that hardly ran. */
  ok(
    before.rows.every((k) => after.all.includes(k)),
    `rows keep what they are called: ${before.rows} / ${after.all}`,
  );
  /*
   * Someone who looks at the beginning goes on doing so. (Where the first event is: far from it,
   * the window would be held back.)
   */
  const looked = await t.eval(() => {
    const a = window.warpsight.app;
    const { first, last } = a.reports[0];
    a.view.set(first, first + Math.min(1e6, (last - first) / 4));
    return a.view.t1;
  });
  await until("more again", async () => (await facts()).events > after.events);
  equal((await facts()).t1, looked, "the window stays");
  writeFileSync(join(cwd, "stop"), "");
  await until(
    "the end",
    async () => !(await t.page.textContent("header .status")).includes("live"),
  );
  await t.settled();
  const shown = JSON.parse((await get(`${s.url}api/session`)).body).reports[0];
  equal([shown.complete, shown.damage.length], [1, 0], "it is whole now");
  equal(
    (await facts()).events,
    shown.tables.reduce((n, x) => n + x.rows, 0),
    "all of its events",
  );
  ok(JSON.parse((await get(`${s.url}api/record`)).body).report === 0, "one report, not two");
  await t.end();
});

await runAll();
