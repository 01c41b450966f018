/**
 * related.mjs - what belongs to an event: SQL that finds the same rows, what waits waited for,
 * functions of several reports, steps, rows that are gathered. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  equal,
  first,
  folder,
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

/* ---- SQL ---- */

withPage("copied SQL runs in query and finds the same rows", async (t) => {
  const file = join(folder, "one.wsrep");
  const query = (sql) => {
    const r = spawnSync(warpsight, ["query", "-f", "json", sql, file], { maxBuffer: 1 << 28 });
    if (r.status !== 0) throw new Error(`${r.stderr}\n${sql}`);
    return JSON.parse(r.stdout);
  };
  const api = (path, p) =>
    t.eval(([a, b]) => window.warpsight.app.source.json(a, { r: 0, ...b }), [path, p]);
  const lanes = await t.eval(() =>
    [...window.warpsight.app.rows.byLane.values()]
      .filter((r) => r.low === undefined)
      .map((r) => [r.type, r.lane]),
  );
  const kinds = [...new Set(lanes.map(([k]) => k))];
  const key = (named) => (e) =>
    [e.start, e.duration ?? e.end - e.start, named ? (e.name ?? "") : ""].join();
  const windows = [{}, { t0: 1234567, t1: 4321098 }, { t0: 227000, t1: 227001 }];
  let refused = 0,
    rows = 0;
  for (const kind of kinds)
    for (const w of windows)
      for (const q of [undefined, "_a"]) {
        const p = {
          lanes: lanes
            .filter(([k]) => k === kind)
            .map(([, l]) => l)
            .join(),
          q,
          ...w,
        };
        let sql;
        try {
          ({ sql } = await api("sql", p));
        } catch (e) {
          ok(/there is no query|in no table/.test(e.message), e.message);
          refused++;
          continue;
        }
        const want = await api("events", { ...p, limit: 1000 }),
          got = query(sql),
          named = !["state", "cpu", "sample", "python"].includes(kind);
        equal(
          [got.length, got.map(key(named)).sort().slice(0, 1000)],
          [want.count, want.events.map(key(named)).sort()],
          `${kind} by\n${sql}\n`,
        );
        rows += got.length;
        const sums = (await api("sum", { ...p, q: undefined })).groups,
          by = query((await api("sql", { ...p, q: undefined, sums: 1 })).sql);
        if (named && !q)
          equal(
            by.map((g) => [g.name ?? "", g.count, g.total_ns, g.min_ns, g.max_ns]).sort(),
            sums.map((g) => [g.name, g.count, g.total, g.min, g.max]).sort(),
            `sums of ${kind}`,
          );
        for (const e of want.events.slice(0, 3))
          equal(
            query((await api("sql", { lane: e.lane, level: e.level, event: e.event })).sql).length,
            1,
            `rows for one event of ${kind}`,
          );
      }
  ok(rows > 4000, `${rows} rows were compared`);
  equal(
    refused,
    27,
    "questions refused: of ranges on GPUs, states of threads and output; of names of samples, Python's samples, threads on cores",
  );
});

withPage("copy: as text, CSV, SQL and a link, from the buttons", async (t) => {
  await t.context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const clip = async (what, press) => {
    await t.eval(() => navigator.clipboard.writeText(""));
    await press();
    return until(what, () => t.eval(() => navigator.clipboard.readText()));
  };
  const button = (where, name) => () =>
    t.page.locator(`${where} button`, { hasText: name }).first().click();
  await t.set(0.15 * MS, 1.0 * MS);
  await t.select("nvtx", 0.25 * MS, 1);
  const text = await clip("text", button(".details", "Copy as text"));
  ok(text.startsWith("forward\n") && /\nend\t/.test(text), text);
  const sql = await clip("SQL", button(".details", "Copy as SQL"));
  const r = spawnSync(warpsight, ["query", "-f", "csv", sql, join(folder, "one.wsrep")]);
  equal(
    [r.status, String(r.stdout).trim().split("\n").length, String(r.stdout).includes("forward")],
    [0, 2, true],
    `rows of ${sql}`,
  );
  const link = await clip("a link", button(".details", "Copy link"));
  const again = await open({ url: link });
  near((await again.view())[0], 0.15 * MS, 2, "start of the linked view");
  await again.end();
  await t.page.locator("[data-tab=events]").click();
  await until("events", async () => (await t.page.locator(".events tbody tr").count()) > 10);
  const csv = await clip("CSV", button(".events", "Copy as CSV"));
  equal(csv.split("\n")[0], "start_ns,duration_ns,name,row", "head of the CSV");
  equal(
    csv.trim().split("\n").length - 1,
    await t.page.locator(".events tbody tr").count(),
    "its lines",
  );
  ok(
    (await clip("SQL", button(".events", "Copy as SQL"))).includes("UNION ALL"),
    "SQL of all rows",
  );
  await t.page.locator("[data-tab=statistics]").click();
  await until("statistics", async () => (await t.page.locator(".statistics tbody tr").count()) > 2);
  ok(
    (await clip("CSV", button(".statistics", "Copy as CSV"))).startsWith("kind,name,count"),
    "CSV of the statistics",
  );
  ok(
    (await clip("SQL", button(".statistics", "Copy as SQL"))).includes("GROUP BY name"),
    "SQL of the statistics",
  );
  await t.page.locator("[data-tab=functions]").click();
  await until("functions", async () => (await t.page.locator(".cell").count()) > 2);
  ok(
    (await clip("CSV", button(".functions", "Copy as CSV"))).startsWith(
      "self_ns,total_ns,name,module",
    ),
    "CSV of the functions",
  );
});

/* ---- what belongs together ---- */

withPage("waits lead to who held the lock, who woke the thread, who had the GIL", async (t) => {
  const links = async (name, back) => {
    const spot = await t.eval(
      async ([q]) => window.warpsight.app.source.json("step", { r: 0, q, t: 0 }),
      [name],
    );
    ok(spot.lane !== undefined, name);
    await t.eval(([s]) => window.warpsight.app.select(0, s, true), [spot]);
    const s = await until("details", async () =>
      (await t.selected())?.detail ? t.selected() : null,
    );
    return s.detail.links.filter((l) => back.includes(l.role)).map((l) => [l.role, l.name]);
  };
  equal(
    await links("pthread_mutex_lock", ["holder", "waker"]),
    [
      ["holder", "write"],
      ["waker", "write"],
    ],
    "of the lock",
  );
  ok(
    (await t.text(".details")).includes("Held by") &&
      (await t.text(".details")).includes("Woken by"),
    "they are named",
  );
  const gil = await t.eval(async () => {
    const { app } = window.warpsight;
    const row = [...app.rows.byKey.values()].filter((r) => r.type === "gil").map((r) => r.lane);
    const got = await app.source.json("events", {
      r: 0,
      lanes: row.join(),
      t0: 3200000,
      t1: 3200001,
      limit: 100,
    });
    return got.events.find((e) => e.start === 3200000);
  });
  await t.eval((s) => window.warpsight.app.select(0, s, true), gil);
  const s = await until("details", async () =>
    (await t.selected())?.detail ? t.selected() : null,
  );
  equal(
    s.detail.links.map((l) => [l.role, l.name, l.start]),
    [["holder", "Holds the GIL", 3000000]],
    "of the GIL",
  );
});

withPage("a call that waits for the GPU leads to the work it waited for", async (t) => {
  const spot = await t.eval(async () =>
    window.warpsight.app.source.json("step", { r: 0, q: "cudaStreamSynchronize", t: 0 }),
  );
  await t.eval((s) => window.warpsight.app.select(0, s, true), spot);
  const s = await until("details", async () =>
    (await t.selected())?.detail ? t.selected() : null,
  );
  const waited = s.detail.links.find((l) => l.role === "waited");
  ok(s.detail.links.some((l) => l.role === "wait") && waited, "the wait, and the work");
  const after = await t.eval(
    async ([e]) =>
      (
        await window.warpsight.app.source.json("events", {
          r: 0,
          q: "",
          t0: e.start,
          t1: e.end,
          limit: 1000,
        })
      ).events,
    [s],
  );
  equal(
    waited.end,
    Math.max(
      ...after
        .filter((e) => e.end <= s.end && ["Memset", "Copy device to host"].includes(e.name))
        .map((e) => e.end),
    ),
    "the last to end before the call did",
  );
});

withPage("a kernel leads to the library call that launched it, and back", async (t) => {
  const detailOf = async (spot) => {
    await t.eval((s) => window.warpsight.app.select(0, s, true), spot);
    await until("details", async () => {
      const now = await t.selected();
      return now?.detail && now.start === spot.start && now.name === spot.name;
    });
    return (await t.selected()).detail;
  };
  const find = (name) =>
    t.eval(async ([q]) => window.warpsight.app.source.json("step", { r: 0, q, t: 0 }), [name]);
  const kernel = await find("addmm_kernel");
  const call = (await detailOf(kernel)).links.find((l) => l.role === "library");
  equal([call.name, call.shape], ["cublasGemmEx", "transA=T m=64"], "the call and its shape");
  ok((await t.text(".details")).includes("transA=T m=64"), "the shape is shown");
  const work = (await detailOf(call)).links.filter((l) => l.role === "work");
  equal(
    work.map((l) => [l.name, l.start]),
    [["addmm_kernel", kernel.start]],
    "its work",
  );
});

withPage(
  "a kernel has the call stack of its launch; GPU time by that stack and by operators",
  async (t) => {
    const kernel = await t.eval(async () =>
      window.warpsight.app.source.json("step", { r: 0, q: "sm90_gemm", t: 0 }),
    );
    await t.eval((s) => window.warpsight.app.select(0, s, true), kernel);
    await until("the stack", async () => (await t.text(".details")).includes("train.c:25"));
    await t.page.locator("[data-tab=functions]").click();
    const names = () =>
      t.page
        .locator(".cell")
        .evaluateAll((l) => l.map((e) => e.getAttribute("aria-label") ?? e.textContent));
    await t.page.locator(".functions button", { hasText: /^On the GPU$/ }).click();
    await until("operators and ranges above kernels", async () => {
      const n = await names();
      return ["forward", "layer 0", "aten::linear", "sm90_gemm_f16"].every((x) => n.includes(x));
    });
    await t.page.locator(".functions button", { hasText: "by call stack" }).click();
    await until("stacks above kernels", async () => {
      const n = await names();
      return ["main", "train", "train.py(12): step", "aten::addmm", "[no stack]"].every((x) =>
        n.includes(x),
      );
    });
    const sums = await t.eval(async () => {
      const { app } = window.warpsight;
      const [flame, sum] = [
        await app.source.json("flame", { r: 0, kind: 4 }),
        await app.source.json("sum", { r: 0 }),
      ];
      return [
        flame.root.total,
        sum.groups
          .filter((g) => ["kernels", "memory"].includes(g.kind))
          .reduce((n, g) => n + g.total, 0),
      ];
    });
    equal(sums[0], sums[1], "all time on GPUs is in the tree");
  },
);

test("functions of several reports: apart and together", async () => {
  const s = await serve(make("a.wsrep", makeReport, "4"), make("b.wsrep", makeReport, "6"));
  const t = await open(s);
  await t.page.locator("[data-tab=functions]").click();
  await until("reports", async () =>
    (await t.page.locator(".cell").allInnerTexts()).includes("b.wsrep"),
  );
  const totals = await t.eval(async () =>
    Promise.all(
      [0, 1].map(async (r) => (await window.warpsight.app.source.json("flame", { r })).root.total),
    ),
  );
  await t.page.locator(".functions button", { hasText: "By report" }).click();
  await until(
    "one tree",
    async () => !(await t.page.locator(".cell").allInnerTexts()).includes("b.wsrep"),
  );
  equal(
    (await t.page.locator(".cell", { hasText: /^main$/ }).count()) === 1,
    true,
    "one node for what both have",
  );
  ok(
    (await t.text(".functions .actions")).includes(
      `${((totals[0] + totals[1]) / 1e6).toFixed(2)} ms`,
    ),
    `the sum of both: ${totals}`,
  );
  await t.page.locator(".functions button", { hasText: "Flat" }).click();
  await until(
    "the table",
    async () => (await t.page.locator(".functions tbody tr", { hasText: "matmul" }).count()) === 1,
  );
  await t.end();
});

withPage("kernels and memory operations open to a row for each name, with its share", async (t) => {
  const below = () =>
    t.eval(() =>
      window.warpsight.app.rows.visible.filter((r) => r.type === "named").map((r) => r.label),
    );
  await t.page.locator(".label[data-type=kernels]").first().click();
  const names = await until("rows of names", async () => (await below()).length >= 5 && below());
  equal(
    [names[0], names.length],
    ["sm90_gemm_f16", 5],
    "the first, which took most time, and how many",
  );
  await t.page.locator(".label[data-type=memory]").first().click();
  await until(
    "rows of memory operations",
    async () =>
      (await below()).includes("Copy host to device") && (await below()).includes("Memset"),
  );
  await t.settled();
  const shares = await until("shares", () =>
    t.eval(() => {
      const { app } = window.warpsight;
      const s = app.rows.visible
        .filter((r) => r.type === "named" && app.rows.byKey.get(r.parentKey).type === "kernels")
        .map((r) => app.busyNow.get(r.key));
      return s.every((x) => x > 0) && s;
    }),
  );
  /* As other rows say it: how much of the window they fill. */
  const filled = await t.eval(async () => {
    const { app } = window.warpsight;
    const row = app.rows.visible.find((r) => r.type === "kernels");
    const offset = app.offsets[0];
    const sum = await app.source.json("sum", {
      r: 0,
      lanes: row.lane,
      t0: Math.round(app.view.t0 - offset),
      t1: Math.round(app.view.t1 - offset),
    });
    return sum.groups.reduce((n, g) => n + g.total, 0) / app.spanOf(0);
  });
  near(
    shares.reduce((a, b) => a + b),
    filled,
    1e-9,
    "their sum",
  );
  ok(
    (await t.page.locator(".label[data-type=named]").first().locator(".busy").innerText()).endsWith(
      " %",
    ),
    "it is shown",
  );
  /* What is drawn on such a row are the events of that name, and a click finds them. */
  await t.set(0.15 * MS, 1.0 * MS);
  const kernel = await t.eval(async () => {
    const row = window.warpsight.app.rows.visible.find((r) => r.type === "kernels");
    return (
      await window.warpsight.app.source.json("events", {
        r: 0,
        lanes: row.lane,
        q: "layer_norm",
        limit: 1,
      })
    ).events[0];
  });
  const n = names.indexOf("layer_norm_kernel");
  const s = await t.select("named", (kernel.start + kernel.end) / 2, 0, n);
  equal([s.name, s.start], ["layer_norm_kernel", kernel.start], "what is clicked");
  await t.eval(() => window.warpsight.app.select(0, null));
  await t.page.reload();
  await t.settled();
  await until("the rows after a reload", async () => (await below()).length === 8).catch(
    async (e) => {
      throw new Error(
        `${e.message}: ${await below()}; ${await t.eval(() => JSON.stringify(window.warpsight.app.stored.open))}`,
      );
    },
  );
  await t.page
    .locator(".label[data-type=named]", { hasText: "layer_norm" })
    .first()
    .click({ button: "right" });
  await t.page.locator(".menu button", { hasText: "Show in events" }).click();
  await until(
    "its events",
    async () =>
      /^ ?\d+ events/.test(await t.text(".events .actions .quiet")) &&
      (await t.page.locator(".events tbody tr").allInnerTexts()).every((x) =>
        x.includes("layer_norm_kernel"),
      ),
  );
});

test("rows: streams beyond eight are gathered, those with most work stay", async () => {
  const events = [];
  for (let s = 0; s < 30; s++)
    for (let i = 0; i < 5; i++)
      events.push({
        ph: "X",
        cat: "kernel",
        name: `k${i}`,
        pid: 0,
        tid: s + 7,
        ts: 1000 + i * 100,
        dur: ((s * 7) % 30) + 1,
        args: { device: 0, context: 1, stream: s + 7, correlation: s * 10 + i + 1 },
      });
  const trace = join(folder, "streams.json"),
    report = join(folder, "streams.wsrep");
  writeFileSync(
    trace,
    JSON.stringify({
      schemaVersion: 1,
      deviceProperties: [{ id: 0, name: "GPU" }],
      traceEvents: events,
    }),
  );
  const r = spawnSync(warpsight, ["import", trace, "-o", report]);
  equal(r.status, 0, String(r.stderr));
  const t = await open(await serve(report));
  const shown = () =>
    t.eval(() =>
      window.warpsight.app.rows.visible
        .filter((x) => ["stream", "streams"].includes(x.type))
        .map((x) => x.stream ?? window.warpsight.app.rowName(x)),
    );
  const want = [...Array(30).keys()]
    .sort((a, b) => ((b * 7) % 30) - ((a * 7) % 30))
    .slice(0, 8)
    .map((s) => s + 7);
  equal(await shown(), [...want, "22 more streams"], "streams");
  await t.page.locator(".label[data-type=streams]").click();
  equal((await shown()).length, 31, "all of them");
  await t.end();
});

await runAll();
