/**
 * canvas.mjs - the time line: a click selects what the pointer shows, of every kind of row at
 * several zooms; what rows are called and what colours they have. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  equal,
  folder,
  near,
  warpsight,
  make,
  makeReport,
  ok,
  open,
  runAll,
  serve,
  test,
  until,
} from "./harness.mjs";

let many;
/** A test with a page of a report so long that a pixel holds several of its kernels. */
const withMany = (name, run) =>
  test(name, async () => {
    many ??= await serve(make("many.wsrep", makeReport, "150"));
    const t = await open(many);
    await run(t);
    await t.end();
  });

/**
 * Points of a row at which the pointer shows something, spread over the width: found by moving a
 * pointer that no browser window has, without waiting.
 */
const showing = (t, key, most) =>
  t.eval(
    ([rowKey, n]) => {
      const { app, timeline } = window.warpsight,
        row = app.rows.byKey.get(rowKey);
      app.scrollTo(row, 0);
      const box = timeline.area.getBoundingClientRect(),
        found = [],
        levels = row.lane === undefined ? 4 : Math.max(1, row.shown);
      for (let level = 0; level < levels; level++) {
        const y = box.top + timeline.top(row) + 3 + ((level + 0.5) * (row.h - 6)) / levels,
          points = [];
        if (y > box.bottom - 2) break;
        for (let x = 2.3; x < box.width - 2; x += 3.7) {
          const event = { clientX: box.left + x, clientY: y, bubbles: true };
          timeline.area.dispatchEvent(new PointerEvent("pointermove", event));
          if (app.hover && app.hover.row === row) points.push([box.left + x, y]);
        }
        for (let i = 0; i < n && points.length; i++)
          found.push(points[Math.floor(((i + 0.5) * points.length) / n)]);
      }
      return found;
    },
    [key, most],
  );

/** Point at something, wait for what the pointer shows, click it; what came out differs how? */
async function clickShown(t, [x, y]) {
  await t.eval(() => window.warpsight.app.select(0, null));
  await t.page.mouse.move(x, y);
  const shown = await t.eval(() => {
    const { hover } = window.warpsight.app;
    return (
      hover && {
        lane: hover.lane.lane,
        level: hover.level,
        counter: (hover.flags & 32) !== 0,
        group: (hover.flags & 16) !== 0,
        t0: hover.t0,
        t1: hover.t1,
        pixel: window.warpsight.app.view.scale,
      }
    );
  });
  if (!shown) return "nothing is under the pointer";
  await t.page.mouse.down();
  await t.page.mouse.up();
  await t.eval(() => window.warpsight.input.clicked);
  const selected = await t.selected();
  if (!selected) return `nothing of ${JSON.stringify(shown)}`;
  const slack = shown.pixel / 8 + 2;
  const same =
    selected.lane === shown.lane &&
    selected.level === shown.level &&
    selected.start <= shown.t1 + slack &&
    selected.end >= shown.t0 - slack;
  return same ? null : `${JSON.stringify(selected)} instead of ${JSON.stringify(shown)}`;
}

for (const [zoom, window_] of [
  ["all", null],
  ["a step", [0.2, 1.4]],
  ["some kernels", [0.36, 0.42]],
])
  withMany(
    `a click selects what the pointer shows, of every kind, zoomed to ${zoom}`,
    async (t) => {
      await t.eval(() => {
        const { app } = window.warpsight;
        for (const row of app.rows.byKey.values())
          if (["kernels", "memory"].includes(row.type)) app.setOpen(row, true);
          else if (row.children.length) app.setOpen(row, row.type !== "cores");
        app.layoutRows();
      });
      if (window_) await t.set(window_[0] * 1e6, window_[1] * 1e6);
      else await t.eval(() => window.warpsight.app.view.fit());
      await t.settled();
      const rows = await t.eval(() => {
        const kinds = new Map();
        for (const row of window.warpsight.app.rows.visible) {
          const kind = row.lane === undefined && row.open ? "" : row.type,
            keys = kinds.get(kind) ?? [];
          if (kind && keys.length < 2) kinds.set(kind, [...keys, row.key]);
        }
        return [...kinds].flatMap(([kind, keys]) => keys.map((key) => ({ kind, key })));
      });
      const wrong = [],
        tried = new Map();
      for (const { kind, key } of rows) {
        await showing(t, key, 0);
        await t.settled();
        for (const point of await showing(t, key, 2)) {
          tried.set(kind, (tried.get(kind) ?? 0) + 1);
          const difference = await clickShown(t, point);
          if (difference) wrong.push(`${kind} at ${point}: ${difference}`);
        }
      }
      const clicks = [...tried.values()].reduce((a, b) => a + b, 0);
      equal(wrong, [], `${wrong.length} of ${clicks} clicks`);
      const kinds = [
        "kernels",
        "named",
        "memory",
        "stream",
        "gpu_bytes",
        "counter",
        "sample",
        "nvtx",
      ]
        .concat(["sync", "cuda_api", "osrt", "state", "cores", "projected", "op", "gil"])
        .filter((kind) => !tried.has(kind));
      if (!window_) equal(kinds, [], "kinds of rows without any click");
      ok(clicks >= 20, `${clicks} clicks`);
    },
  );

withMany("what the pointer shows of a group is what a click selects", async (t) => {
  await t.eval(() => window.warpsight.app.view.fit());
  await t.settled();
  const key = await t.eval(
    () => window.warpsight.app.rows.visible.find((row) => row.type === "kernels").key,
  );
  const isGroup = () => t.eval(() => (window.warpsight.app.hover?.flags & 16) !== 0);
  let groups = 0;
  for (const [x, y] of await showing(t, key, 12)) {
    await t.page.mouse.move(x, y);
    if (!(await isGroup())) continue;
    const tip = await until("the longest and its length", async () => {
      const text = await t.text(".tip");
      return /longest: .*, [\d.]+/.test(text) && text;
    });
    equal(await clickShown(t, [x, y]), null, "what is clicked");
    const { name } = await t.selected();
    ok(tip.includes(`longest: ${name},`), `${name} is in ${tip}`);
    groups++;
  }
  ok(groups >= 3, `${groups} groups`);
});

/* ---- rows ---- */

function importTrace(name, events, more = {}) {
  const trace = join(folder, `${name}.json`),
    report = join(folder, `${name}.wsrep`);
  writeFileSync(trace, JSON.stringify({ schemaVersion: 1, traceEvents: events, ...more }));
  const done = spawnSync(warpsight, ["import", trace, "-o", report]);
  equal(done.status, 0, String(done.stderr));
  return report;
}

const kernel = (name, i) => ({
  ph: "X",
  cat: "kernel",
  name,
  pid: 0,
  tid: 7,
  ts: 1000 + i * 100,
  dur: 50 + i,
  args: { device: 0, context: 1, stream: 7, correlation: i + 1 },
});

test("kernels whose short names are equal are called by their full names", async () => {
  const names = ["void add<float>(int)", "void add<int>(int)", "void gemm<float>(float*)"];
  const report = importTrace(
    "full",
    Array.from({ length: 9 }, (_, i) => kernel(names[i % 3], i)),
    { deviceProperties: [{ id: 0, name: "GPU" }] },
  );
  const t = await open(await serve(report));
  const [sums, sql, one] = await t.eval(async () => {
    const { source, rows } = window.warpsight.app,
      lane = rows.visible.find((row) => row.type === "kernels").lane;
    return [
      (await source.json("sum", { r: 0, lanes: lane })).groups,
      (await source.json("sql", { r: 0, lanes: lane, sums: 1 })).sql,
      (await source.json("sql", { r: 0, lane, level: 0, event: 1 })).sql,
    ];
  });
  const figures = (list) => list.map((g) => [g.name, g.count]).sort();
  equal(
    figures(sums),
    [
      ["gemm", 3],
      [names[0], 3],
      [names[1], 3],
    ].sort(),
    "names",
  );
  const query = (text) =>
    JSON.parse(spawnSync(warpsight, ["query", "-f", "json", text, report]).stdout);
  equal(figures(query(sql)), figures(sums), "what the query finds");
  equal(query(one).length, 1, "rows for one event");
  await t.end();
});

withMany("rows: processes and threads are told apart, metrics are below their GPU", async (t) => {
  const rows = await t.eval(() => {
    const { rows: all } = window.warpsight.app;
    const above = (row) => all.byKey.get(row.parentKey);
    return {
      processes: all.visible.filter((r) => r.type === "process").map((r) => all.names.get(r.key)),
      threads: [...all.byKey.values()]
        .filter((r) => r.type === "thread")
        .map((r) => [all.names.get(r.key), r.tid, r.main]),
      metrics: [...all.byKey.values()]
        .filter((r) => r.type === "counter" && r.label === "SM active")
        .map((r) => [above(r).type, above(above(r)).type, above(above(r)).device]),
      domains: [...all.byKey.values()]
        .filter((r) => r.type === "nvtx" && r.domain && !r.label)
        .map((r) => all.names.get(r.key)),
    };
  });
  ok(rows.processes.length >= 2, "processes");
  for (const name of rows.processes) ok(/^(rank \d+ · )?Process .*\[\d+\]$/.test(name), name);
  for (const [name, tid, main] of rows.threads) {
    ok(name.startsWith(main ? "Main thread" : "Thread"), name);
    ok(name.includes(tid), name);
  }
  equal(rows.metrics, [["counter_group", "gpu", 0]], "the metric's group and what that is below");
  equal(rows.domains, ["NVTX · domain 7"], "a domain without a name");
});

withMany("rows: swatches have the colour of the bars, a share means one thing", async (t) => {
  await t.set(0.2e6, 1.4e6);
  await t.eval(() => {
    const { app } = window.warpsight;
    app.setOpen(
      app.rows.visible.find((row) => row.type === "kernels"),
      true,
    );
    app.layoutRows();
  });
  const shares = () =>
    t.eval(() => {
      const { app } = window.warpsight,
        row = app.rows.visible.find((r) => r.type === "kernels");
      return {
        all: app.busyNow.get(row.key),
        names: row.children.map((r) => app.busyNow.get(r.key)),
      };
    });
  const { all, names } = await until("shares", async () => {
    const got = await shares();
    return got.names.length >= 4 && got.names.every((share) => share >= 0) && got;
  });
  const sum = names.reduce((a, b) => a + b, 0);
  // kernels of two streams may run at once
  ok(sum >= all * 0.999 && sum < all * 1.5, `${names} are parts of ${all}`);
  await t.settled();
  const looks = await t.eval(() => {
    const { timeline, app } = window.warpsight,
      canvas = timeline.root.querySelector(".rects"),
      context = document.createElement("canvas").getContext("2d", { willReadFrequently: true }),
      looks = [];
    timeline.paintRows(timeline.inSight());
    [context.canvas.width, context.canvas.height] = [canvas.width, canvas.height];
    context.drawImage(canvas, 0, 0);
    timeline.draw();
    for (const row of app.rows.visible) {
      const label = document.querySelector(`.label[data-key="${row.key}"] .swatch`);
      if (!label?.style.background || row.type === "state") continue;
      const colors = new Set(),
        top = Math.round(timeline.top(row)),
        area = context.getImageData(0, top, canvas.width, Math.min(row.h, 21)).data;
      for (let i = 0; i < area.length; i += 4) colors.add(`${area.slice(i, i + 3)}`);
      looks.push([row.type, label.style.background, [...colors]]);
    }
    return looks;
  });
  ok(looks.length > 8, `${looks.length} swatches`);
  const away = (a, b) => Math.max(...a.map((v, i) => Math.abs(v - b[i])));
  for (const [type, swatch, colors] of looks) {
    const want = swatch.match(/\d+/g).map(Number),
      // counters are painted a little paler, moments a little darker
      nearest = Math.min(...colors.map((color) => away(want, color.split(",").map(Number))));
    near(nearest, 0, 45, `${type}: ${swatch} is not among its bars' colours`);
  }
});

await runAll();
