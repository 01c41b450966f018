/**
 * kernels.mjs - measured kernels: the table of all, sorted; one of them with its charts, figures
 * and what they mean; a baseline; launches on the time line; by keyboard, in links, for screen
 * readers. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { browser, equal, folder, get, near, ok, open, root, runAll, serve } from "./harness.mjs";
import { test, until, warpsight } from "./harness.mjs";

/** A report of made-up results: rows made by a script, written by a program of the tests. */
export function makeKernels(name, change = (rows) => rows) {
  const script = join(root, "tests", "kernel", "make_results.py"),
    rows = spawnSync("python3", [script], { maxBuffer: 1 << 26, encoding: "utf8" }),
    file = join(folder, name),
    writer = join(dirname(warpsight), "tests", "kernel", "write_rows"),
    r = spawnSync(writer, [file], { input: change(rows.stdout) });
  if (r.status !== 0) throw new Error(`write_rows: ${r.stderr}${rows.stderr}`);
  return file;
}

let server;
const first = async () => (server ??= await serve(makeKernels("kernels.wsrep")));
const ids = (t) =>
  t.page.$$eval(".ksummary tbody tr", (rows) => rows.map((row) => Number(row.dataset.id)));
const figures = (t, css) =>
  t.page.$$eval(`${css} .kbar`, (bars) =>
    bars.map((bar) => [
      bar.querySelector(".kname").textContent.trim(),
      bar.querySelector(".n").textContent,
    ]),
  );
const section = (id) => `.ksection[data-section=${id}]`;

async function openKernels(t) {
  await t.page.click("[data-tab=kernels]");
  await until("the table", async () => (await ids(t)).length === 5);
}
async function openResult(t, id) {
  await t.page.click(`.ksummary tr[data-id="${id}"]`);
  await until("the result", () => t.page.locator(section("SpeedOfLight")).count());
}

test("kernels: the table of all, sorted, by keyboard; the answers behind it", async () => {
  const s = await first(),
    t = await open(s);
  await openKernels(t);
  const { results } = await t.eval(() => window.warpsight.app.source.json("kernels", { r: 0 }));
  equal(
    results.map((r) => [r.id, r.name, r.grid[0], r.block[0], r.duration]),
    [
      [0, "scale", 65536, 256, 92300],
      [1, "sm90_xmma_gemm_bf16", 132, 384, 418700],
      [2, "transpose", 16384, 1024, 301400],
      [3, "force_double", 96, 128, 6800],
      [4, "scale", 64, 256, null],
    ],
    "results",
  );
  equal([results[1].compute, results[0].memory], [88.6, 91.2], "throughputs");
  equal(
    results.map((r) => r.launches.map((l) => [l.r, l.count, l.total])),
    [[[0, 12, 12 * 92300]], [], [[0, 12, 12 * 301400]], [], []],
    "launches of the same name and shape",
  );

  await t.page.click(".ksummary th button:text-is('Duration')");
  equal(await ids(t), [1, 2, 0, 3, 4], "the longest first, the unknown last");
  await t.page.click(".ksummary th button:has-text('Duration')");
  equal(await ids(t), [3, 0, 2, 1, 4], "the shortest first, the unknown last");
  await t.page.locator(".ksummary tbody tr").first().focus();
  await t.page.keyboard.press("ArrowDown");
  await t.page.keyboard.press("Enter");
  await until("the second row's", async () => (await t.text(".khead h3")).startsWith("#0 scale"));
  await t.page.keyboard.press("Escape");
  await until("the table again", async () => (await ids(t)).length === 5);

  for (const q of ["", "id=9", "id=-1", "id=x"])
    equal((await get(`${s.url}api/kernel?${q}`)).status, 400, `kernel?${q}`);
  await t.end();
});

test("kernels: a result has its charts and figures, and goes to its launches", async () => {
  const t = await open(await first());
  await openKernels(t);
  await openResult(t, 2);
  equal(
    (await figures(t, section("SpeedOfLight"))).slice(0, 5),
    [
      ["Compute (SM)", "14.6 %"],
      ["Memory", "62.8 %"],
      ["L1/TEX", "88.1 %"],
      ["L2", "62.8 %"],
      ["DRAM", "33.5 %"],
    ],
    "Speed Of Light",
  );
  equal(
    (await figures(t, section("WarpStateStats"))).slice(0, 3).map(([name]) => name),
    ["Stall MIO Throttle", "Stall Short Scoreboard", "Stall Long Scoreboard"],
    "the states that cost most come first",
  );

  /* The roofline's point is where operations and bytes put it. */
  const roofline = await t.eval(async () => {
    const result = await window.warpsight.app.source.json("kernel", { r: 0, id: 2 });
    return result.sections.find((s) => s.id === "SpeedOfLight_RooflineChart").charts[0];
  });
  near(roofline.roofs[0].flops, 2 * 128 * 132 * 1.755e9, 1e9, "the roof of single precision");
  near(roofline.points[0].flops, 1e10, 1e6, "what was achieved");
  near(roofline.points[0].bytes, 3.35e12 * 0.335, 1e7, "what was moved");
  const share = (1e10 / (3.35e12 * (0.01 / (3.35 * 0.335)))) * 100;
  ok(
    (await t.text(`${section("SpeedOfLight_RooflineChart")} .kpoints`)).includes(share.toFixed(1)),
    "its share of what is possible there",
  );
  const memory = section("MemoryWorkloadAnalysis_Chart");
  equal(await t.page.locator(`${memory} .kunit`).count(), 11, "units of the memory system");
  ok(
    (await t.page.locator(`${memory} svg`).getAttribute("aria-label")).includes(
      "L1/TEX cache → L2 cache 536.9 MB",
    ),
    "what went there, for screen readers",
  );
  ok(
    (await t.text(`${section("MemoryWorkloadAnalysis_Tables")} .kbody`)).includes("94.0 %"),
    "bank conflicts",
  );
  equal(await t.page.locator(`${section("Occupancy")} .kstairs`).count(), 3, "three curves");
  const timed = `${section("PmSampling")} .ktimed`;
  equal(
    await t.page.$$eval(timed, (rows) => rows.map((row) => row.innerText.split("\n").slice(0, 2))),
    [
      ["SM Active", "84.0 %"],
      ["DRAM Read Throughput", "66.0 %"],
    ],
    "metrics over its time",
  );
  equal(
    (await t.page.locator(`${timed} path`).first().getAttribute("d")).match(/V/g).length,
    11,
    "a step for each interval",
  );

  /* Source: the hottest first, by instruction and by line. */
  const lines = () =>
    t.page.$$eval(".ksource tbody tr", (rows) => rows.map((row) => row.cells[1].textContent));
  equal((await lines()).slice(0, 2), ["LDS R5, [R8]", "STS [R7], R2"], "the hottest instructions");
  await t.page.click(".ksource button:has-text('By line')");
  ok(
    (await t.page.locator(".ksource tbody tr").first().innerText()).startsWith("transpose.cu:27"),
    "the hottest line",
  );

  /* Side by side: what belongs together is marked. */
  await t.page.click(".ksource button:has-text('Side by side')");
  const marked = () =>
    t.page.$$eval(".kpane", (panes) =>
      panes.map((pane) => [...pane.querySelectorAll(".on bdi")].map((line) => line.textContent)),
    );
  equal(
    await marked(),
    [["  statement(27);"], ["ptx.line 7;"], ["LDS R5, [R8]"]],
    "source, PTX and instruction of the hottest line",
  );
  ok((await t.text(".kstalls")).includes("mio throttle 67 %"), "what its warps wait for");
  await t.page.click(".kpane button:has-text('statement(24)')");
  equal((await marked())[2], ["STS [R7], R2"], "those of another line");

  /* What a metric is called behind its label. */
  await t.page.hover(`${section("SpeedOfLight")} .kbar`);
  const tip = await t.text(".tip");
  ok(tip.includes("sm__throughput.avg.pct_of") && tip.includes("How busy"), `the metric: ${tip}`);
  await t.page.click("header button:text-is('中文')");
  await t.page.hover(`${section("SpeedOfLight")} .kbar >> nth=1`);
  await until("it in Chinese", async () => /[一-龥]{4}/.test(await t.text(".tip")));
  await t.page.click("header button:text-is('English')");

  /* What the rules found, beside its section, and in the table of all. */
  const { findings, gain } = await t.eval(() =>
    window.warpsight.app.source.json("kernel", { r: 0, id: 2 }),
  );
  ok(findings.length > 2, "findings");
  for (const finding of findings)
    ok(
      (await t.text(`.finding[data-rule=${finding.rule}] >> nth=0`)).includes(finding.title),
      finding.title,
    );
  ok(
    (await t.text(`${section("SpeedOfLight")} .finding`)).includes("bound by memory"),
    "the verdict is beside the Speed Of Light",
  );
  ok((await t.text(".kfacts")).includes(`${(gain * 100).toFixed(1)} %`), "what could be gained");

  await t.page.click(".khead button:has-text('12 launches')");
  await until("its launches as events", async () =>
    (await t.text(".events")).includes("12 events"),
  );
  await t.end();
});

test("kernels: a launch has the command that measures it, and what was measured", async () => {
  const t = await open(await first()),
    command = (name, n) =>
      `warpsight kernel --set full -k ${name}${n ? ` --launch-skip ${n}` : ""} --launch-count 1 ` +
      "./app --size 8192",
    select = async (time) => {
      const event = await t.select("kernels", time);
      await until("the command", () => t.page.locator(".details .next code").count());
      return event;
    };
  await select(110.05e6);
  equal(await t.text(".details .next code"), command("scale", 0), "of the first launch");
  await t.set(110.5e6, 111e6);
  await select(110.548e6 + 1e5);
  equal(await t.text(".details .next code"), command("transpose", 1), "of the second");
  await t.page.click(".details .measured");
  await until("the result", async () => (await t.text(".khead h3")).includes("transpose<float>"));
  await t.end();
  const s = await first(),
    ask = async (q) => get(`${s.url}api/launch?${q}`),
    hostile = JSON.parse((await ask("name=a%27b%20c&pid=4000&correlation=1")).body);
  ok(hostile.command.includes(` -k 'a'\\''b c' `), hostile.command);
  for (const q of ["", "name=", "name=a&pid=x", "name=a&correlation=-1"])
    equal((await ask(q)).status, 400, `launch?${q}`);
});

test("kernels: an exported page has them, too", async () => {
  const file = join(folder, "kernels.html"),
    r = spawnSync(warpsight, [
      ...["export", "-q", "-t", "html", "-o", file],
      makeKernels("exported.wsrep"),
    ]);
  equal(r.status, 0, `export: ${r.stderr}`);
  const t = await open({ url: `file://${file}` });
  await openKernels(t);
  await openResult(t, 1);
  const tensor = section("SpeedOfLight_HierarchicalTensorRooflineChart");
  ok((await t.text(`${tensor} .kpoints`)).includes("BF16, DRAM: 720.0 TFLOP/s"), "a roofline");
  equal(await t.page.locator(".kresult .kchart").count(), 9, "charts");
  await t.end();
});

test("kernels: a file of Nsight Compute is taken; without a time line they are all there is", async () => {
  const rows = (all) => all.replace(/^cuda_kernel.*\n/gm, ""),
    s = await serve(makeKernels("untimed.wsrep", rows)),
    context = await browser.newContext({ viewport: { width: 1400, height: 900 } }),
    page = await context.newPage();
  await page.goto(s.url);
  const count = () => page.locator(".ksummary tbody tr").count();
  await until("the table at once", async () => (await count()) === 5);
  ok(!(await page.locator(".timeline").isVisible()), "no time line");
  const file = join(root, "tests", "kernel", "ncu", "tail.csv.gz");
  await page.setInputFiles("input[type=file]", file);
  await until("its results among them", async () => (await count()) > 5);
  ok((await page.locator(".ksummary").innerText()).includes("tail"), "of that file");
  ok((await page.locator(".kernels").innerText()).includes("Nsight Compute"), "its tool");
  await context.close();
});

test("kernels: a baseline beside it, in a link, of another report, to screen readers", async () => {
  const faster = makeKernels("faster.wsrep", (rows) =>
    rows.replaceAll("value=301400", "value=150700").replaceAll("value=88.1\n", "value=44.05\n"),
  );
  const s = await serve(makeKernels("slower.wsrep"), faster);
  const t = await open(s);
  await t.page.click("[data-tab=kernels]");
  await until("both tables", async () => (await ids(t)).length === 10);
  await t.page.click(".ksummary tr[data-id='2'] >> nth=0");
  await until("a result", () => t.page.locator(".khead select").count());
  const value = await t.eval(() => {
    const options = [...document.querySelectorAll(".khead select option")];
    return options.find((one) => one.textContent.includes("#2 transpose")).value;
  });
  await t.page.selectOption(".khead select", value);
  const duration = await until("the difference", async () =>
    (await t.page.$$eval(".klines tr", (rows) => rows.map((row) => row.innerText))).find(
      (text) => text.startsWith("Duration") && text.includes("%"),
    ),
  );
  ok(/301.4 µs\s+150.7 µs\s+\+100.0 %|150.7 µs\s+301.4 µs\s+−50.0 %/.test(duration), duration);
  const differs = await t.text(`${section("SpeedOfLight")} .kbars > .kbar:nth-child(3) .kdiff`);
  ok(["+44.0", "+44.1", "−44.0", "−44.1"].includes(differs), `points of a percentage: ${differs}`);

  /* The link has both. */
  const link = await t.eval(() => window.warpsight.app.makeLink()),
    other = await open({ url: link });
  await until(
    "the same there",
    async () => (await other.page.locator(".klines .kdiff").count()) > 5,
  );
  await other.end();

  const axe = join(root, "viewer", "node_modules", "axe-core", "axe.min.js");
  if (existsSync(axe)) {
    await t.eval(readFileSync(axe, "utf8"));
    const complaints = await t.eval(async () =>
      (await window.axe.run(document)).violations.map((v) => [
        v.id,
        v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)),
      ]),
    );
    equal(complaints, [], "what axe complains about");
  }
  await t.end();
});

test("kernels: it is said why instructions have no text", async () => {
  const why = "Instructions of _Z9transposeIfEvPT_PKS0_i have no text: nvdisasm says: bad file.",
    rows = (text) =>
      `${text.replace(/\tsass=[^\t\n]*/g, "")}diagnostic\tsource=kernel\ttext=${why}\n`,
    t = await open(await serve(makeKernels("textless.wsrep", rows)));
  await openKernels(t);
  await openResult(t, 2);
  ok((await t.text(".ksource")).includes(why), await t.text(".ksource"));
  await t.end();
});

await runAll();
