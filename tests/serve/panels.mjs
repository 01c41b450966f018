/**
 * panels.mjs - comparing two reports, name by name and by call stack; flame graphs by keyboard and
 * by search; tables sorted by any column; going to a time, to markers and to a selection. See
 * harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  browser,
  equal,
  folder,
  get,
  make,
  makeReport,
  MS,
  near,
  ok,
  open,
  runAll,
  serve,
  test,
  until,
  warpsight,
  withPage,
} from "./harness.mjs";

test("compare: two reports, and two windows of them, name by name", async () => {
  const two = [make("a.wsrep", makeReport, "20"), make("b.wsrep", makeReport, "10")];
  const s = await serve(...two);
  const t = await open(s);
  await t.page.click("[data-tab=compare]");
  const rows = () =>
    t.page.$$eval(".compare > table tbody tr", (all) =>
      all.map((r) => [...r.cells].map((c) => c.textContent)),
    );
  const shown = await until("kernels", async () => (await rows()).length > 2 && (await rows()));
  const gemm = shown.find((r) => r[8] === "sm90_gemm_f16");
  equal([gemm[0], gemm[1]], ["360", "180"], "how often here and there");
  ok(gemm[6].startsWith("−"), `less there: ${gemm[6]}`);
  ok(Math.abs(Number(gemm[7]) - 0.5) < 0.1, `half of it: ${gemm[7]}`);

  /* What the server says is what sums of each say. */
  const ask = (path) => t.eval((p) => window.warpsight.app.source.json(...p), path);
  for (const w of [{}, { t0: 0, t1: 3e6, u0: 1e6, u1: 2e6 }]) {
    const d = await ask(["diff", { a: 0, b: 1, ...w }]);
    const sums = [
      await ask(["sum", { r: 0, t0: w.t0, t1: w.t1 }]),
      await ask(["sum", { r: 1, t0: w.u0, t1: w.u1 }]),
    ];
    equal(d.unread, 0, "all is read");
    for (const [k, side] of [
      ["a", 0],
      ["b", 1],
    ]) {
      const by = new Map(d.pairs.filter((p) => p[k][0]).map((p) => [`${p.kind} ${p.name}`, p[k]]));
      const plain = new Map(); // threads of one name are several groups of a report
      for (const g of sums[side].groups) {
        const x = plain.get(`${g.kind} ${g.name}`) ?? [0, 0, Infinity, 0];
        plain.set(`${g.kind} ${g.name}`, [
          x[0] + g.count,
          x[1] + g.total,
          Math.min(x[2], g.min),
          Math.max(x[3], g.max),
        ]);
      }
      equal([...by.keys()].sort(), [...plain.keys()].sort(), `names of ${k}`);
      for (const [name, x] of plain) equal(by.get(name), x, name);
    }
  }

  /* Sorted by a column, both ways; another kind; a window on one side. */
  const values = async (i) => (await rows()).map((r) => Number(r[i].replace(/[^0-9]/g, "")));
  await t.page.click(".compare th:nth-child(1) button");
  const down = await values(0);
  equal(
    down,
    [...down].sort((x, y) => y - x),
    "by count",
  );
  await t.page.click(".compare th:nth-child(1) button");
  equal(
    await values(0),
    [...down].reverse().sort((x, y) => x - y),
    "by count, upwards",
  );
  await t.page.click(".compare .actions button:text-is('CUDA API')");
  ok(
    (await rows()).some((r) => r[8].startsWith("cudaLaunchKernel")),
    "calls",
  );
  await t.eval(() => window.warpsight.app.setRange([0, 2e6]));
  const calls = async (column = 0) =>
    Number(
      (await rows())
        .find((r) => r[8].startsWith("cudaLaunchKernel"))
        [column].replace(/[^0-9]/g, ""),
    );
  const all = await calls();
  await t.page.click(".compare .side:nth-child(1) button:nth-of-type(2)");
  await until("the window", async () => (await calls()) < all);
  await t.page.selectOption(".compare .side:nth-child(2) select", "0");
  await until("one with itself", async () => (await calls()) < all && (await calls(1)) === all);
  for (const q of ["a=9", "b=-1", "t0=x", "u1=1e9"])
    equal((await get(`${s.url}api/diff?${q}`)).status, 400, q);
  await t.end();
});

/** A trace of 30 steps with an operator that takes `length` us. */
function makeTrace(name, length) {
  const traceEvents = [];
  for (let step = 0; step < 30; step++) {
    const event = { ph: "X", pid: 1, tid: 1, ts: step * 1000 };
    traceEvents.push(
      { ...event, cat: "user_annotation", name: `ProfilerStep#${step}`, dur: 900 },
      { ...event, cat: "cpu_op", name: "aten::mm", ts: event.ts + 10, dur: length + (step % 3) },
    );
  }
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify({ schemaVersion: 1, traceEvents }));
  return path;
}

test("compare: what changed, how certain that is and what explains it, as diff says", async () => {
  const two = [makeTrace("before.json", 300), makeTrace("after.json", 450)],
    s = await serve(...two),
    t = await open(s);
  await t.page.click("[data-tab=compare]");
  const read = (selector) =>
    t.page.$$eval(selector, (all) =>
      all.map((row) => [...row.cells].map((cell) => cell.textContent)),
    );
  const items = ".changes table:not(:has(caption)) tbody tr";
  await until("changes", async () => (await read(items)).length);
  const said = JSON.parse(spawnSync(warpsight, ["diff", "-f", "json", ...two]).stdout),
    changed = said.items.filter((item) => item.verdict !== "no_change");
  equal(
    (await read(items)).map((row) => row.slice(0, 3)),
    changed.map((item) => [item.verdict, item.kind, item.name]),
    "what changed",
  );
  ok(
    changed.some((item) => item.name === "aten::mm" && item.verdict === "slower"),
    "the operator",
  );
  const summary = await t.page.textContent(".changes .summary");
  ok(summary.startsWith("Step time: 996.7 µs → 996.7 µs"), summary);
  ok(summary.includes("no change; 1 part changed"), summary);
  const answer = await t.eval(() => window.warpsight.app.source.json("changes", { a: 0, b: 1 }));
  equal(answer.items, said.items, "items");
  equal(answer.explanation, said.explanation, "what explains it");
  const sums = await read(".changes tr.sum");
  equal(sums.length, 2, "tables that add up");
  for (const q of ["a=9", "b=-1", "limit=0"])
    equal((await get(`${s.url}api/changes?${q}`)).status, 400, q);
  await t.page.click(".compare .side:nth-child(1) button:nth-of-type(2)");
  await until("of stretches there is none", async () => !(await read(".changes tr")).length);
  await t.end();
});

test("compare: flame graphs of two windows as one, red and blue by change of share, and the largest changes", async () => {
  const s = await serve(make("fa.wsrep", makeReport, "20"), make("fb.wsrep", makeReport, "10"));
  const t = await open(s);
  await t.page.click("[data-tab=compare]");
  await t.page.click(".compare button:text-is('On the GPU')");
  const cells = () =>
    t.page.$$eval(".flamediff .cell", (all) =>
      all.map((e) => ({
        name: e.getAttribute("aria-label") ?? e.textContent,
        says: e.getAttribute("aria-description"),
        color: e.style.background.match(/\d+/g)?.map(Number),
        width: e.getBoundingClientRect().width,
      })),
    );
  const whole = await until(
    "both as one",
    async () => (await cells()).length > 8 && (await cells()),
  );
  equal(whole[0].name, "A + B", "the root");

  /*
   * Shares are those of each flame graph; the width is their mean, the colour says which is larger.
   */
  const flames = () =>
    t.eval(async () =>
      Promise.all(
        [0, 1].map((r) => window.warpsight.app.source.json("flame", { r, kind: 3, up: 0 })),
      ),
    );
  const roots = (await flames()).map((f) => f.root);
  const tops = new Set(roots.flatMap((r) => r.children.map((c) => c.name)));
  let reds = 0,
    blues = 0;
  for (const name of tops) {
    const [a, b] = roots.map(
      (r) => r.children.filter((c) => c.name === name).reduce((n, c) => n + c.total, 0) / r.total,
    );
    const cell = whole.find((c) => c.name === name);
    if (!cell) continue; // too narrow
    const text = (v) => (v ? `${(v * 100).toFixed(v * 100 >= 10 ? 1 : 2)} %` : "<0.05 %");
    ok(
      cell.says.startsWith(`A ${text(a)} · B ${text(b)} · `),
      `${name}: ${cell.says} for ${a} and ${b}`,
    );
    near(cell.width, ((a + b) / 2) * whole[0].width, 2, `width of ${name}`);
    const [red, , blue] = cell.color;
    if (b - a > 0.02) ok(red > blue, `${name} is red: ${cell.color}`);
    if (a - b > 0.02) ok(blue > red, `${name} is blue: ${cell.color}`);
    reds += b - a > 0.02;
    blues += a - b > 0.02;
  }
  ok(reds && blues, `some of both: ${reds}, ${blues}`);

  /* Functions: largest change first, from the flat lists of both. */
  await t.page.click(".flamediff button:text-is('Largest changes')");
  const rows = () =>
    t.page.$$eval(".flamediff tbody tr", (all) =>
      all.map((r) => [...r.cells].map((c) => c.textContent)),
    );
  const shown = await until("the table", async () => (await rows()).length > 2 && (await rows()));
  const change = (r) => Number(r[2].replace("−", "-"));
  const sorted = shown.map((r) => Math.abs(change(r)));
  equal(
    sorted,
    [...sorted].sort((x, y) => y - x),
    "by how much they changed",
  );
  for (const r of shown.slice(0, 5)) {
    const [a, b] = (await flames()).map(
      (f) => f.flat.filter((x) => x.name === r[6]).reduce((n, x) => n + x.self, 0) / f.root.total,
    );
    near(change(r), (b - a) * 100, 0.006, r[6]);
  }
  await t.page.click(".flamediff th:nth-child(7) button");
  const names = (await rows()).map((r) => r[6]);
  equal(
    names,
    [...names].sort((x, y) => (x < y ? -1 : x > y ? 1 : 0)),
    "by name",
  );

  /* One window on one side, bottom up, a report with itself. */
  await t.page.click(".flamediff button:text-is('Bottom up')");
  await until("kernels on top", async () =>
    (await cells()).some((c) => c.name === "sm90_gemm_f16"),
  );
  await t.page.selectOption(".compare .side:nth-child(2) select", "0");
  const grey = (c) => Math.max(...c.color) - Math.min(...c.color) < 20;
  await until(
    "no change",
    async () => (await cells()).slice(1).length > 3 && (await cells()).slice(1).every(grey),
  );
  await t.eval(() => window.warpsight.app.setRange([0, 1e6]));
  await t.page.click(".compare .side:nth-child(2) button:nth-of-type(2)");
  await until("changes again", async () => !(await cells()).slice(1).every(grey));
  /* Back to names. */
  await t.page.click(".compare .actions button:text-is('Kernels')");
  await until(
    "names",
    async () => (await t.page.locator(".compare th", { hasText: "B ÷ A" }).count()) === 1,
  );
  await t.end();
});

withPage("compare: two steps of one report", async (t) => {
  await t.page.click("[data-tab=compare]");
  await until("that a report is as itself", async () =>
    (await t.text(".compare")).includes("Both sides are the same"),
  );
  const totals = [];
  for (const [side, name] of [
    [1, "step 2"],
    [2, "step 5"],
  ]) {
    const step = await t.eval(
      async (q) => window.warpsight.app.source.json("step", { r: 0, q, t: 0 }),
      name,
    );
    const sum = await t.eval(
      async ([a, b]) =>
        (await window.warpsight.app.source.json("sum", { r: 0, t0: a, t1: b })).groups
          .filter((g) => g.kind === "kernels" && g.name === "sm90_gemm_f16")
          .reduce((n, g) => n + g.count, 0),
      [step.start, step.end],
    );
    totals.push(String(sum));
    await t.eval((x) => window.warpsight.app.setRange([x.start, x.end]), step);
    await t.page.click(`.compare .side:nth-child(${side}) button:nth-of-type(2)`);
  }
  const row = () =>
    t.page.$$eval(
      ".compare > table tbody tr",
      (all) =>
        all
          .map((r) => [...r.cells].map((c) => c.textContent))
          .find((c) => c[8] === "sm90_gemm_f16") ?? [],
    );
  await until(`${totals}`, async () => (await row()).slice(0, 2).join() === totals.join());
  ok(!(await t.text(".compare")).includes("Both sides are the same"), "they differ");
});

withPage("flame graph by keyboard and by search", async (t) => {
  await t.page.locator("[data-tab=functions]").click();
  await until("the flame graph", async () => (await t.page.locator(".cell").count()) >= 8);
  equal(await t.page.locator(".cell[tabindex='0']").count(), 1, "one of them is reached by Tab");
  await t.page.locator(".cell").first().focus();
  const focused = () =>
    t.eval(
      () => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent,
    );
  for (const [key, name] of [
    ["ArrowDown", "main"],
    ["ArrowDown", "train"],
    ["ArrowDown", "forward"],
    ["ArrowRight", "backward"],
    ["ArrowLeft", "forward"],
    ["ArrowUp", "train"],
  ]) {
    await t.page.keyboard.press(key);
    equal(await focused(), name, key);
  }
  await t.page.keyboard.press("Enter");
  equal(await t.page.locator(".cell.above").count(), 2, "what is above");
  equal(await focused(), "train", "what was zoomed to keeps the keyboard");
  await t.page.locator(".functions button", { hasText: "Reset" }).click();
  await t.page.locator(".flamesearch").fill("MATMUL");
  await until("faded ones", async () => (await t.page.locator(".cell.off").count()) > 3);
  equal(
    await t.page.locator(".cell:not(.off)").allInnerTexts(),
    ["matmul", "matmul"],
    "what is called so",
  );
  const share = await t.eval(async () => {
    const f = await window.warpsight.app.source.json("flame", { r: 0 });
    const x = f.flat.find((n) => n.name === "matmul");
    return ((x.total / f.root.total) * 100).toFixed(1);
  });
  ok((await t.text(".functions .actions")).includes(`${share} %`), `its share: ${share}`);
});

withPage("statistics are sorted by each column, both ways", async (t) => {
  await t.page.locator("[data-tab=statistics]").click();
  const column = (i) =>
    t.page.$$eval(".statistics tbody tr", (all, k) => all.map((r) => r.cells[k].textContent), i);
  await until("rows", async () => (await column(6)).length > 3);
  const head = (i) => t.page.click(`.statistics th:nth-child(${i}) button`);
  await head(7);
  const names = await column(6);
  equal(
    names,
    [...names].sort((x, y) => (x < y ? -1 : x > y ? 1 : 0)),
    "names",
  );
  await head(7);
  equal(await column(6), [...names].reverse(), "names, the other way");
  await head(3);
  const counts = (await column(2)).map((c) => Number(c.replace(/\D/g, "")));
  equal(
    counts,
    [...counts].sort((x, y) => y - x),
    "counts",
  );
  equal(
    await t.page.getAttribute(".statistics th:nth-child(3)", "aria-sort"),
    "descending",
    "and it says so",
  );
});

withPage("go to a time; to markers; the menu zooms to the selection and ends it", async (t) => {
  await t.set(1 * MS, 2 * MS);
  const middle = async () => ((await t.view())[0] + (await t.view())[1]) / 2;
  for (const [said, at] of [
    ["3.5ms", 3.5],
    ["0.005 s", 5],
    ["1 ms 250 us", 1.25],
    ["2500 µs", 2.5],
  ]) {
    await t.page.locator(".area").focus();
    await t.page.keyboard.press("g");
    await t.page.locator("dialog input").fill(said);
    await t.page.keyboard.press("Enter");
    await until(said, async () => Math.abs((await middle()) - at * MS) < 2);
    const [a, b] = await t.view();
    near(b - a, MS, 2, "the zoom stays");
  }
  await t.page.keyboard.press("g");
  await t.page.locator("dialog input").fill("soon");
  await t.page.keyboard.press("Enter");
  await until(
    "that it is none",
    async () => (await t.page.locator(".toast", { hasText: "soon is no time" }).count()) === 1,
  );
  near(await middle(), 2.5 * MS, 2, "nothing moved");

  await t.eval(() => {
    const { app } = window.warpsight;
    app.markers.push({ time: 1e6, note: "a" }, { time: 4e6, note: "b" });
  });
  await t.page.locator(".area").focus();
  for (const [key, at] of [
    [".", 4],
    [".", 4],
    [",", 1],
    [",", 1],
    [".", 4],
  ]) {
    await t.page.keyboard.press(key);
    near(await middle(), at * MS, 2, `marker by ${key}`);
  }

  await t.eval(() => window.warpsight.app.setRange([3e6, 3.4e6]));
  const menu = async (item) => {
    await t.page.locator(".area").click({ button: "right", position: { x: 5, y: 12 } });
    await t.page.locator(".menu button", { hasText: item }).click();
  };
  await menu("Zoom to selection");
  const [a, b] = await t.view();
  near(a, 3 * MS, 1, "start of the window");
  near(b, 3.4 * MS, 1, "end of the window");
  await menu("End selection");
  equal(await t.eval(() => window.warpsight.app.range), null, "the selection");
  /* An event's time as the selection. */
  const step = await t.eval(async () =>
    window.warpsight.app.source.json("step", { r: 0, q: "step 3", t: 0 }),
  );
  await t.set(step.start - 50000, step.end + 50000);
  await t.click("nvtx", (step.start + step.end) / 2, 0, 0, { button: "right" });
  await t.page.locator(".menu button", { hasText: "Select its time" }).click();
  equal(await t.eval(() => window.warpsight.app.range), [step.start, step.end], "its time");
  await until("its statistics", async () =>
    (await t.text(".statistics .actions")).startsWith("Selection"),
  );
});

withPage(
  "a button that is pressed while its panel is made anew is clicked all the same",
  async (t) => {
    await t.page.click("[data-tab=statistics]");
    const button = t.page.locator(".statistics .actions button", { hasText: /^NVTX \d/ });
    await button.waitFor();
    await t.settled();
    // it is made anew with its panel, and for a moment is not there
    const box = await until("its place", () => button.boundingBox());
    await t.page.mouse.move(box.x + 5, box.y + 5);
    await t.page.mouse.down();
    const answered = t.page.waitForResponse((r) => r.url().includes("api/sum"));
    await t.eval(() => window.warpsight.app.view.set(0, 3e6));
    await (await answered).finished();
    await t.eval(() => new Promise((f) => requestAnimationFrame(() => setTimeout(f, 100))));
    await t.page.mouse.up();
    await until("the choice", async () => (await button.getAttribute("aria-pressed")) === "true");
    await until(
      "the new window",
      async () =>
        (await t.page.getAttribute(".statistics", "data-of")) ===
        String(await t.eval(() => [window.warpsight.app.view.t0, window.warpsight.app.view.t1])),
    );
  },
);

withPage(
  "the table of events is sorted by each column as a plain sort of all events is, both ways and page by page",
  async (t) => {
    const { base, lanes, all } = await t.eval(async () => {
      const { app } = window.warpsight,
        rows = app.rows.roots
          .flatMap((r) => app.rows.lanesUnder(r))
          .filter((r) => !["stream", "cpu", "projected", "counter", "gpu_bytes"].includes(r.type)),
        events = [];
      for (let n = 0; n === events.length; n += 1000)
        events.push(...(await app.source.json("events", { r: 0, offset: n, limit: 1000 })).events);
      return { base: app.reports.length, lanes: rows.map((r) => r.lane), all: events };
    });
    equal(base, 1, "reports");
    ok(all.length > 2000, `${all.length} events`);
    const bytes = new Map(all.map((e) => [e.name, Buffer.from(e.name)]));
    const by = {
      start: (a, b) => a.start - b.start,
      duration: (a, b) => a.end - a.start - b.end + b.start,
      name: (a, b) => Buffer.compare(bytes.get(a.name), bytes.get(b.name)),
      row: (a, b) => lanes.indexOf(a.lane) - lanes.indexOf(b.lane),
    };
    const rest = (a, b) =>
      a.start - b.start || a.lane - b.lane || a.level - b.level || a.event - b.event;
    const place = (e) => [e.lane, e.level, e.event];
    for (const sort of Object.keys(by))
      for (const down of [0, 1]) {
        const sign = down ? -1 : 1,
          want = [...all].sort((a, b) => sign * by[sort](a, b) || rest(a, b));
        const got = await t.eval(
          async (q) => {
            const out = [];
            for (let n = 0; n === out.length; n += 700)
              out.push(
                ...(
                  await window.warpsight.app.source.json("events", { ...q, offset: n, limit: 700 })
                ).events,
              );
            return out;
          },
          { r: 0, sort, down, lanes: sort === "row" ? lanes.join(",") : undefined },
        );
        equal(got.map(place), want.map(place), `by ${sort}, down: ${down}`);
      }

    /* The same by the heads of the table. */
    await t.page.locator("[data-tab=events]").click();
    const shown = () =>
      t.eval(() => window.warpsight.panels.events.shown.map((e) => [e.lane, e.level, e.event]));
    const head = (i) => t.page.locator(`.events th:nth-child(${i}) button`);
    const comes = (what, want) =>
      until(
        what,
        async () => JSON.stringify(await shown()) === JSON.stringify(want.slice(0, 200).map(place)),
      );
    await comes("events", [...all].sort(rest));
    await head(3).focus();
    await t.page.keyboard.press("Enter");
    await comes(
      "the first by name",
      [...all].sort((a, b) => by.name(a, b) || rest(a, b)),
    );
    equal(
      await t.eval(() => document.activeElement.closest("th")?.getAttribute("aria-sort")),
      "ascending",
      "the head keeps the focus, and says how",
    );
    await t.page.keyboard.press("Enter");
    await comes(
      "the last by name",
      [...all].sort((a, b) => by.name(b, a) || rest(a, b)),
    );
    await head(4).click();
    await comes(
      "the first by row",
      [...all].sort((a, b) => by.row(a, b) || rest(a, b)),
    );
    await until(
      "they are in the table",
      async () => (await t.page.locator(".events tbody tr").count()) === 200,
    );
  },
);

withPage("the table of events says of which rows it is, and goes back to all", async (t) => {
  await t.page.locator(".label[data-type=kernels]").first().click({ button: "right" });
  await t.page.locator(".menu button", { hasText: "Show in events" }).click();
  await until("the row", async () => /Kernels · GPU 0/.test(await t.text(".events .only bdi")));
  const few = await until(
    "its events",
    async () => /^([\d\s]+) events/.exec((await t.text(".events .actions")).trim())?.[1],
  );
  await t.page.locator(".events .only button").click();
  await until(
    "all events again",
    async () =>
      !(await t.page.locator(".events .only").isVisible()) &&
      /^([\d\s]+) events/.exec((await t.text(".events .actions")).trim())?.[1] !== few,
  );
});

withPage("events of a name are those of just that name; copied SQL finds them", async (t) => {
  /* Of names that begin so, and of none: what is asked is the whole name. */
  const counts = await t.eval(async () => {
    const { source } = window.warpsight.app,
      all = [];
    for (let n = 0; n === all.length; n += 1000)
      all.push(
        ...(await source.json("events", { r: 0, offset: n, limit: 1000 })).events.map(
          (e) => e.name,
        ),
      );
    const count = (q) => source.json("events", { r: 0, limit: 1, ...q }).then((x) => x.count);
    const out = [];
    for (const name of [...new Set(all)].filter((n) => n.length <= 200))
      out.push([await count({ q: name, exact: 1 }), all.filter((x) => x === name).length]);
    for (const q of ["step", "layer 1", "sm90"])
      out.push([await count({ q, exact: 2 }), all.filter((x) => x.startsWith(q)).length]);
    return out;
  });
  ok(counts.length > 20 && counts.some(([, n]) => n > 1), `${counts.length} names`);
  for (const [got, want] of counts) equal(got, want, "events of a name");

  await t.page.locator("[data-tab=statistics]").click();
  await t.page.locator(".statistics .actions button", { hasText: /^NVTX \d/ }).click();
  const row = t.page.locator(".statistics tbody tr", {
    has: t.page.locator("bdi", { hasText: /^step 1$/ }),
  });
  const of = Number(await row.locator("td").nth(2).innerText());
  await row.click();
  await until(
    "its events",
    async () =>
      (await t.text(".events .only bdi")).includes("named step 1") &&
      (await t.text(".events .actions")).trim().startsWith(`${of} event`),
  );
  ok(
    (await t.page.$$eval(".events tbody bdi", (all) => all.map((b) => b.textContent)))
      .filter((_, i) => i % 2 === 0)
      .every((n) => n === "step 1"),
    "no other name",
  );
  const sql = await t.eval(
    async () =>
      (await window.warpsight.app.source.json("sql", { r: 0, q: "step 1", exact: 1 })).sql,
  );
  const found = spawnSync(warpsight, ["query", "--format=csv", sql, join(folder, "one.wsrep")]);
  equal(
    [found.status, String(found.stdout).trim().split("\n").length - 1],
    [0, of],
    `rows of ${sql}: ${found.stderr}`,
  );
  await t.page.locator(".events input:not(.where, [type=checkbox])").fill("step 1");
  await until(
    "names that have it in them",
    async () => !(await t.page.locator(".events .only", { hasText: "named" }).isVisible()),
  );
});

withPage("the table of functions is sorted by each column and filtered", async (t) => {
  await t.page.locator("[data-tab=functions]").click();
  await t.page.locator(".functions button", { hasText: "Flat" }).click();
  const column = (i) =>
    t.page.$$eval(".functions tbody tr", (all, k) => all.map((r) => r.cells[k].textContent), i);
  await until("functions", async () => (await column(0)).length > 4);
  const percents = async (i) => (await column(i)).map((x) => parseFloat(x.replace("<", "")));
  const falls = (v) => v.every((x, i) => !i || v[i - 1] >= x);
  ok(falls(await percents(0)), "by their own time at first");
  const head = (i) => t.page.locator(`.functions th:nth-child(${i}) button`);
  await head(3).click();
  ok(falls(await percents(2)) && !falls(await percents(0)), "by all time");
  await head(5).click();
  const names = await column(4);
  equal(
    names,
    [...names].sort((x, y) => (x < y ? -1 : Number(x > y))),
    "by name",
  );
  await t.page.locator(".functions .flatfilter").fill("MATM");
  equal([...new Set(await column(4))], ["matmul"], "filtered");
});

withPage(
  "stepping through matches comes to each once, those of one moment too, and round to the first again",
  async (t) => {
    const all = await t.eval(
      async () =>
        (await window.warpsight.app.source.json("events", { r: 0, q: "layer 1", limit: 1000 }))
          .events,
    );
    ok(all.length > 5, `${all.length} matches`);
    const seen = await t.eval(async () => {
      const { source } = window.warpsight.app,
        out = [];
      for (const back of [0, 1])
        for (
          let at = { start: back ? 1e15 : -1 };
          (at = await source.json("step", {
            r: 0,
            q: "layer 1",
            back,
            t: at.start,
            lane: at.lane,
            level: at.level,
          })).lane !== undefined;

        )
          out.push([at.start, at.lane, at.level, at.event]);
      return out;
    });
    const want = all.map((e) => [e.start, e.lane, e.level, e.event]);
    equal(seen, [...want, ...[...want].reverse()], "forth and back");
    await t.page.keyboard.press("Control+f");
    await t.page.keyboard.type("layer 1");
    await until("counts", async () => /^\d+ matches/.test(await t.text(".found")));
    await t.page.keyboard.press("ArrowDown");
    ok(
      await t.eval(() => document.activeElement.parentElement.classList.contains("foundlist")),
      "Down goes to the list of names",
    );
    await t.page.keyboard.press("ArrowUp");
    equal(await t.eval(() => document.activeElement.className), "searchbox", "and Up back");
    for (let i = 0; i <= want.length; i++) {
      const [start, lane] = want[i % want.length];
      await t.page.keyboard.press("Enter");
      await until(`match ${i}`, () =>
        t.eval(
          ([s, l]) =>
            window.warpsight.app.selected?.spot.start === s &&
            window.warpsight.app.selected.spot.lane === l,
          [start, lane],
        ),
      );
    }
    ok(/^\d+ matches/.test(await t.text(".found")), "what is said of them stays");
    ok(
      await t.eval(() => document.querySelector(".foundlist").hidden),
      "the list is not in the way",
    );
  },
);

withPage(
  "by keyboard: the end of a row, the menu of the selected event, rows of tables; a link opens just the window that it was made of",
  async (t) => {
    const last = await t.eval(async () => {
      const { app } = window.warpsight,
        row = [...app.rows.byLane.values()].find((r) => r.type === "kernels"),
        { of } = await app.source.json("event", { r: 0, lane: row.lane, level: 0, event: 0 }),
        e = await app.source.json("event", { r: 0, lane: row.lane, level: 0, event: of - 1 });
      app.select(0, e, true);
      return e;
    });
    await until("its details", async () => (await t.selected())?.detail);
    await t.page.locator(".area").focus();
    const asked = [];
    t.page.on("response", (r) => r.status() !== 200 && asked.push(r.url()));
    await t.page.keyboard.press("ArrowRight");
    await t.page.keyboard.press("ArrowLeft");
    await until("the one before", async () => (await t.selected()).event === last.event - 1);
    equal(asked, [], "what the server refused");
    equal(
      await t.eval(() => document.querySelector("#app > .error").hidden),
      true,
      "nothing is said to be wrong",
    );
    await t.page.keyboard.press("ContextMenu");
    await t.page.locator(".menu button", { hasText: "Search this name" }).waitFor();
    await t.page.keyboard.press("Escape");

    await t.page.locator("[data-tab=statistics]").click();
    const row = t.page.locator(".statistics tbody tr").first();
    await row.waitFor();
    await t.settled();
    await row.focus();
    await t.page.keyboard.press("ArrowDown");
    equal(
      await t.eval(() =>
        [...document.querySelectorAll(".statistics tbody tr")].indexOf(document.activeElement),
      ),
      1,
      "the row below",
    );

    await t.set(1.25 * MS, 2.75 * MS);
    const link = await t.eval(() => window.warpsight.app.makeLink());
    const other = await t.context.newPage();
    await other.goto(link);
    await until("the other page", () =>
      other.evaluate(() => window.warpsight?.app.complete && !window.warpsight.app.cache.busy()),
    );
    await other.evaluate(
      () => new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f))),
    );
    equal(
      await other.evaluate(() => [window.warpsight.app.view.t0, window.warpsight.app.view.t1]),
      [1.25 * MS, 2.75 * MS],
      "its window",
    );
  },
);

withPage("help begins at its beginning; a marker whose note is given up is none", async (t) => {
  await t.page.setViewportSize({ width: 1000, height: 400 });
  await t.page.keyboard.press("?");
  equal(
    await t.eval(() => document.querySelector("dialog.help").scrollTop),
    0,
    "where help is scrolled to",
  );
  ok(
    await t.eval(
      () =>
        document.querySelector("dialog.help").scrollHeight >
        document.querySelector("dialog.help").clientHeight,
    ),
    "it is longer than the screen",
  );
  const none = () => t.eval(() => !document.querySelector("dialog"));
  await t.page.keyboard.press("Escape");
  await until("help to be gone", none); // until then it has the keys
  await t.page.keyboard.press("Control+m");
  await until("to be asked for a note", () =>
    t.eval(() => document.activeElement.closest("dialog.ask") !== null),
  );
  await t.page.keyboard.press("Escape");
  await until("no marker", () =>
    t.eval(() => window.warpsight.app.markers.length === 0 && !document.querySelector("dialog")),
  );
});

withPage(
  "statistics and events of a group of rows count each event once; a pinned row says what it is of; a filter that finds no row says so",
  async (t) => {
    const gpu = t.page.locator(".label[data-type=gpu]").first();
    const menu = async (label, item) => {
      await label.click({ button: "right" });
      await t.page.locator(".menu button", { hasText: item }).click();
    };
    const lanes = await t.eval(() => {
      const { rows } = window.warpsight.app,
        gpu = rows.byKey.get(document.querySelector(".label[data-type=gpu]").dataset.key);
      return rows.lanesUnder(gpu).map((r) => [r.type, r.count]);
    });
    ok(
      lanes.some(([type]) => type === "stream") && lanes.some(([type]) => type === "projected"),
      `${lanes}`,
    );
    await menu(gpu, "Statistics of this row");
    await until(
      "its statistics",
      async () =>
        (await t.page
          .locator(".statistics .actions button", { hasText: "Show all rows" })
          .count()) === 1,
    );
    const kinds = await t.page.$$eval(".statistics .actions button[aria-pressed]", (all) =>
      all.map((b) => b.textContent.replace(/ [\d.]+ .*| \d+$/, "")),
    );
    equal(kinds.length, new Set(kinds).size, `kinds, each once: ${kinds}`);
    ok(!kinds.some((k) => k.startsWith("Stream")), `no streams beside kernels: ${kinds}`);
    await menu(gpu, "Show in events");
    const want = lanes
      .filter(([type]) => !["stream", "projected", "gpu_bytes", "counter"].includes(type))
      .reduce((n, [, count]) => n + count, 0);
    await until(
      "its events",
      async () =>
        Number(
          /^\s*([\d\s]+) events/.exec(await t.text(".events .actions"))?.[1].replace(/\s/g, ""),
        ) === want,
    );

    await menu(t.page.locator(".label[data-type=kernels]").first(), "Pin row");
    await until("what it is of", async () =>
      /^Kernels · GPU 0.* · rank 0 · Process python3 \[100\]$/.test(
        await t.page.locator(".label.pinned .name").innerText(),
      ),
    );
    await menu(t.page.locator(".label.pinned"), "Unpin row");
    equal(await t.page.locator(".nothing").isVisible(), false, "there are rows");
    await t.page.locator(".rowfilter").fill("no such row");
    await until(
      "that there is none",
      async () => (await t.text(".nothing")) === "No row has this in its name.",
    );
  },
);

test("a report without events says so, from its start to its end", async () => {
  const file = join(folder, "nothing.wsrep"),
    r = spawnSync(warpsight, [
      "profile",
      "--trace=none",
      "--sample=none",
      "--cpuctxsw=none",
      "--system-metrics=none",
      "-o",
      file,
      "true",
    ]);
  equal(r.status, 0, String(r.stderr));
  const server = await serve(file),
    context = await browser.newContext({ viewport: { width: 1000, height: 700 }, locale: "en-GB" }),
    page = await context.newPage();
  await page.goto(server.url);
  await until("the sentence", () =>
    page.evaluate(
      () =>
        document.querySelector(".nothing")?.checkVisibility() &&
        document.querySelector(".nothing").textContent.startsWith("This report has no events"),
    ),
  );
  const [first, last, t0] = await page.evaluate(() => [
    window.warpsight.app.reports[0].first,
    window.warpsight.app.reports[0].last,
    window.warpsight.app.view.t0,
  ]);
  equal(first, 0, "its start");
  ok(last > 0 && t0 <= 0, `the window: from ${t0}, of ${last}`);
  await until("no statistics", async () =>
    (await page.locator(".statistics").innerText()).includes("No events in this stretch of time."),
  );
  await context.close();
});

withPage(
  "a flame graph of more boxes than fit leaves out the deepest, not those on the right",
  async (t) => {
    await t.page.locator("[data-tab=functions]").click();
    await until("the flame graph", async () => (await t.page.locator(".cell").count()) >= 8);
    const [lines, widest] = await t.eval(() => {
      const chain = (name, depth) => ({
          name,
          total: 1,
          self: 0,
          children: depth ? [chain(name, depth - 1)] : [],
        }),
        graph = window.warpsight.panels.all.find(([word]) => word === "functions")[1].graph;
      graph.setRoot({
        total: 300,
        self: 0,
        children: [...Array(300).keys()].map((i) => chain(`f${i}`, 30)),
      });
      graph.drawGraph();
      const cells = [...document.querySelectorAll(".functions .cell")].map((c) => [
        parseFloat(c.style.top),
        parseFloat(c.style.left) + parseFloat(c.style.width),
      ]);
      const count = new Map();
      for (const [top] of cells) count.set(top, (count.get(top) ?? 0) + 1);
      return [
        [...count.values()],
        Math.max(...cells.slice(1).map(([, right]) => right)) / graph.root.clientWidth,
      ];
    });
    ok(lines.length > 5 && lines.slice(1).every((n) => n === 300), `boxes of each line: ${lines}`);
    near(widest, 1, 0.01, "the last is at the end");
  },
);

withPage("statistics of moments say how many there are, and no durations", async (t) => {
  await t.page.click("[data-tab=statistics]");
  await t.page.locator(".statistics .actions button", { hasText: /^CPU samples \d/ }).click();
  const heads = () => t.page.$$eval(".statistics th", (all) => all.map((e) => e.innerText));
  await until("the samples", async () => !(await heads()).includes("Total"));
  equal(await heads(), ["Share", "Count ▾", "Name"], "columns");
  const rows = await t.page.$$eval(".statistics tbody tr", (all) =>
      all.map((r) => [...r.cells].map((c) => c.innerText)),
    ),
    counts = rows.map((r) => Number(r[1].replace(/\s/g, ""))),
    all = counts.reduce((a, b) => a + b, 0);
  ok(rows.length > 1 && all > 2, `samples: ${rows}`);
  equal(
    counts,
    [...counts].sort((a, b) => b - a),
    "most first",
  );
  near(parseFloat(rows[0][0]), (100 * counts[0]) / all, 0.06, "its share");
  /* Other kinds have durations, in the order in which they were. */
  await t.page.locator(".statistics .actions button", { hasText: /^Kernels \d/ }).click();
  await until("kernels", async () => (await heads()).includes("Total ▾"));
});

withPage("a click on the time line shows what was clicked, whatever is shown below", async (t) => {
  const tab = () => t.eval(() => document.querySelector("[role=tab].on").dataset.tab);
  for (const [from, to] of [
    ["functions", "details"],
    ["compare", "details"],
    ["sql", "details"],
    ["statistics", "details"],
    ["events", "events"], // which marks it among its rows
  ]) {
    await t.page.click(`[data-tab=${from}]`);
    await t.select("nvtx", 0.25 * MS, 1);
    await t.settled();
    equal(await tab(), to, `from ${from}`);
  }
  /* Who is led to an event by a panel stays in it. */
  await t.page.click("[data-tab=sql]");
  await t.eval(() => {
    const { app } = window.warpsight;
    app.select(0, app.selected.spot, true);
  });
  await t.settled();
  equal(await tab(), "sql", "led by a panel");
});

withPage("nothing that the pointer showed stays over or under a menu", async (t) => {
  const place = await t.at("nvtx", 0.25 * MS, 1);
  const shown = () => t.page.locator(".tip:not([hidden])").count();
  await t.page.mouse.move(place.x, place.y);
  await until("what the pointer shows", shown);
  await t.page.mouse.move(2, 2);
  await t.page.mouse.click(place.x, place.y, { button: "right" }); // before it came to rest
  await until("the menu", () => t.page.locator(".menu").count());
  await t.page.mouse.move(place.x - 6, place.y); // beside the menu, on the same event
  await t.eval(() => window.warpsight.app.ask("sum", { r: 0 }));
  await t.eval(() => new Promise((done) => setTimeout(done, 300)));
  equal(await shown(), 0, "of what was under the pointer");
  await t.page.keyboard.press("Escape");
  await t.page.mouse.move(place.x + 2, place.y);
  await until("it again", shown);
});

test("tables of several reports say of which one each row is", async () => {
  const s = await serve(
    make("one-of-two.wsrep", makeReport, "4"),
    make("two-of-two.wsrep", makeReport, "2"),
  );
  const t = await open(s);
  await t.page.click("[data-tab=events]");
  const cells = (css) =>
    t.page.$$eval(css, (all) => all.map((r) => [...r.cells].map((c) => c.innerText)));
  const rows = await until("events", async () => {
    const all = await cells(".events tbody tr");
    return all.length > 20 && all;
  });
  const [head] = await cells(".events thead tr");
  equal(head, ["Start ▴", "Duration", "Name", "Row", "Report"], "columns");
  const reports = new Set(rows.map((r) => r[4]));
  equal([...reports].sort(), ["one-of-two.wsrep", "two-of-two.wsrep"], "of both");
  await t.page.click("[data-tab=compare]");
  const kinds = (css) =>
    t.page.$$eval(`${css} .actions button`, (all) =>
      all.map((b) => b.innerText.replace(/ [\d.\s]+(ns|µs|ms|s)?$/, "")),
    );
  const compared = await until("what is compared", async () => {
    const all = await kinds(".compare");
    return all.includes("Kernels") && all;
  });
  await t.page.click("[data-tab=statistics]");
  const summed = await until("sums", async () => {
    const all = await kinds(".statistics:not(.compare)");
    return all.includes("Kernels") && all;
  });
  const both = (all, others) => all.filter((kind) => others.includes(kind));
  equal(both(compared, summed), both(summed, compared), "kinds in one order");
  ok(both(compared, summed).length > 4, `kinds: ${compared} and ${summed}`);
  await t.end();
});

await runAll();
