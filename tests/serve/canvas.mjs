/**
 * canvas.mjs - the time line: a click selects what the pointer shows, of every kind of row at
 * several zooms; what rows are called and what colours they have; the strip over the axis, notes
 * about stretches, pictures; phones and screen readers. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
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
  root,
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
 * Points of each level of a row at which the pointer shows something, spread over the width (one
 * alone is at the share `where` of them): found by moving a pointer that no browser window has,
 * without waiting.
 */
const showing = (t, key, most, where = 0.5) =>
  t.eval(
    ([rowKey, n, share]) => {
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
        for (let x = 2.3; x < box.width - 2; x += 7.7) {
          const event = { clientX: box.left + x, clientY: y, bubbles: true };
          timeline.area.dispatchEvent(new PointerEvent("pointermove", event));
          if (app.hover && app.hover.row === row) points.push([box.left + x, y]);
        }
        for (let i = 0; i < n && points.length; i++)
          found.push(points[Math.floor(((i + share) * points.length) / n)]);
      }
      return found;
    },
    [key, most, where],
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
        // one row of each kind is clicked more to the left, another more to the right
        return [...kinds].flatMap(([kind, keys]) =>
          keys.map((key, i) => ({ kind, key, where: i ? 0.75 : 0.25 })),
        );
      });
      const wrong = [],
        tried = new Map();
      for (const { kind, key, where } of rows) {
        await t.eval(
          (k) => window.warpsight.app.scrollTo(window.warpsight.app.rows.byKey.get(k), 0),
          key,
        );
        await t.settled();
        for (const point of await showing(t, key, 1, where)) {
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

/* ---- the strip over the axis, notes, pictures ---- */

withMany("the strip shows how busy GPUs and cores were over the whole report", async (t) => {
  for (const band of ["gpu", "cpu"])
    await until(`the strip of ${band}`, () =>
      t.eval((b) => window.warpsight.timeline.overview.hasTiles(b), band),
    );
  const sums = await t.eval(async () => {
    const { app, timeline } = window.warpsight,
      lanes = [...app.rows.byLane.values()],
      shown = { gpu: 0, cpu: 0 },
      from = app.view.first,
      step = (app.view.last - from) / 400;
    for (let i = 0; i < 400; i++)
      for (const band of ["gpu", "cpu"])
        shown[band] +=
          timeline.overview.shareOf(band, from + i * step, from + (i + 1) * step) * step;
    const cores = lanes.filter((r) => r.type === "cpu"),
      busy = new Map((await app.source.json("sum", { r: 0, names: 0 })).lanes),
      gpus = new Map();
    for (const row of lanes.filter((r) => ["kernels", "memory"].includes(r.type)))
      gpus.set(row.parentKey, (gpus.get(row.parentKey) ?? 0) + busy.get(row.lane));
    return {
      shown,
      gpu: [...gpus.values()].reduce((a, b) => a + b, 0) / gpus.size,
      cpu: cores.reduce((n, r) => n + busy.get(r.lane), 0) / cores.length,
    };
  });
  ok(sums.gpu > 0 && sums.cpu > 0, "work");
  near(sums.shown.cpu / sums.cpu, 1, 0.1, "time of cores");
  near(sums.shown.gpu / sums.gpu, 1, 0.15, "time of GPUs");
  // a click on it goes there
  const box = await t.page.locator(".axis").boundingBox();
  await t.set(1e6, 3e6);
  await t.page.mouse.click(box.x + box.width * 0.75, box.y + 20);
  const [t0, t1] = await t.view();
  const { first, last } = await t.eval(() => window.warpsight.app.view);
  near((t0 + t1) / 2, first + (last - first) * 0.75, (last - first) / 100, "the window's middle");
});

withMany("notes about stretches: dragged, shown, kept, edited, removed", async (t) => {
  await t.set(0, 4e6);
  const from = await t.at("kernels", 1e6),
    to = await t.at("kernels", 2e6);
  const answer = async (text) => {
    await t.page.locator("dialog input").fill(text);
    await t.page.keyboard.press("Enter");
  };
  const kept = () => t.eval(() => window.warpsight.app.markers);
  await t.drag({ x: from.x, y: from.y + 300 }, { x: to.x, y: to.y + 300 }, { key: "Control" });
  await answer("slow <part>");
  const [note] = await until(
    "a note",
    async () => (await kept())[0]?.note === "slow <part>" && kept(),
  );
  near(note.time, 1e6, 3e4, "its start");
  near(note.end, 2e6, 3e4, "its end");
  await t.eval(() => window.dispatchEvent(new Event("pagehide")));
  await t.page.reload();
  await t.settled();
  equal(await kept(), [note], "after a reload");
  await t.set(0, 4e6);
  const axis = await t.page.locator(".axis").boundingBox();
  await t.page.mouse.dblclick(axis.x + axis.width * 0.375, axis.y + axis.height - 8);
  await answer("better");
  await until("another text", async () => (await kept())[0].note === "better");
  await t.page.mouse.click(axis.x + axis.width * 0.375, axis.y + axis.height - 8, {
    button: "right",
  });
  await t.page.locator(".menu button", { hasText: "Remove" }).click();
  equal(await kept(), [], "after it was removed");
});

withMany("the view is saved as SVG with texts, and as PNG", async (t) => {
  await t.set(0.2e6, 1.4e6);
  const save = async (word) => {
    const coming = t.page.waitForEvent("download");
    await t.page.locator("header button[title='Save a picture']").click();
    await t.page.locator(".menu button", { hasText: word }).click();
    const file = await coming,
      path = join(folder, file.suggestedFilename());
    await file.saveAs(path);
    return readFileSync(path);
  };
  const svg = String(await save("SVG"));
  for (const text of ["Kernels", "forward", "Process python3"])
    ok(
      new RegExp(`<text[^>]*>[^<]*${text.replace(/[[\]]/g, "\\$&")}`).test(svg),
      `${text} is a text`,
    );
  const seen = await t.eval((text) => {
    const doc = new DOMParser().parseFromString(text, "image/svg+xml"),
      row = window.warpsight.app.rows.visible.find((r) => r.type === "kernels");
    return {
      errors: doc.querySelectorAll("parsererror").length,
      rects: doc.querySelectorAll("rect").length,
      kernel: doc.querySelectorAll(
        `rect[fill="${window.warpsight.timeline.barColor(row).replace(/ /g, "")}"]`,
      ).length,
    };
  }, svg);
  equal(seen.errors, 0, "errors of its XML");
  ok(seen.rects > 100 && seen.kernel > 1, `${JSON.stringify(seen)} rectangles`);
  /* Notes stand above the axis, whole, also of what began before. */
  const places = async () => {
    const texts = String(await save("SVG")).matchAll(
      /<text x="([\d.-]+)" y="([\d.]+)"[^>]*>([^<]*)/g,
    );
    return [...texts].map(([, x, y, text]) => ({ x: Number(x), y: Number(y), text }));
  };
  await t.eval(() => {
    const { app } = window.warpsight;
    app.markers = [
      { time: 0.1e6, end: 0.5e6, note: "began before" },
      { time: 0.8e6, note: "a marker" },
      { time: 5e6, note: "out of sight" },
    ];
  });
  const texts = await places(),
    find = (text) => texts.find((place) => place.text === text),
    axis = texts.filter((place) => /^[\d.]+ ms$/.test(place.text));
  for (const note of ["began before", "a marker"]) {
    const place = find(note);
    ok(place && place.y >= 11, `${note} is whole: ${JSON.stringify(place)}`);
    ok(
      axis.length > 2 && axis.every((tick) => tick.y >= place.y + 12),
      `${note} is above the axis: ${axis.map((tick) => tick.y)}`,
    );
  }
  ok(find("began before").x >= Math.min(...axis.map((tick) => tick.x)) - 120, "it is in sight");
  equal(find("out of sight"), undefined, "what is not in sight");
  await t.eval(() => (window.warpsight.app.markers = []));
  const png = await save("PNG");
  equal(png.subarray(1, 4).toString(), "PNG", "its first bytes");
  const size = /<svg[^>]* width="(\d+)" height="(\d+)"/.exec(svg).slice(1).map(Number);
  equal([png.readUInt32BE(16), png.readUInt32BE(20)], size, "its size");
});

/* ---- phones and screen readers ---- */

test("a phone's width: everything is in reach, fingers move, zoom and select", async () => {
  many ??= await serve(make("many.wsrep", makeReport, "150"));
  const t = await open(many, { viewport: { width: 390, height: 844 }, hasTouch: true });
  const layout = await t.eval(() => ({
    wide: document.documentElement.scrollWidth,
    buttons: [...document.querySelectorAll("header button, header input")]
      .filter((e) => e.offsetParent)
      .map((e) => e.getBoundingClientRect())
      .filter((r) => r.left < 0 || r.right > 390).length,
    area: window.warpsight.timeline.area.getBoundingClientRect().width,
  }));
  equal([layout.wide, layout.buttons], [390, 0], "width, and controls beyond it");
  ok(layout.area > 230, `${layout.area} pixels for the time line`);
  await t.page.click("[data-tab=events]");
  await t.page.locator(".chooser summary").click();
  await until("columns", async () => (await t.page.locator(".chooser label").count()) > 9);
  const boxes = await t.page.$$eval(".chooser > div, .chooser label", (all) =>
    all.map((e) => e.getBoundingClientRect()).map(({ left, right }) => [left, right]),
  );
  ok(boxes.length > 10, `columns to choose: ${boxes.length}`);
  equal(
    boxes.filter(([left, right]) => left < 0 || right > 390),
    [],
    "columns to choose beyond the screen",
  );
  await t.page.locator(".chooser summary").click();
  await t.set(0.2e6, 1.4e6);
  const kernel = await t.eval(async () => {
    const { app } = window.warpsight,
      { lane } = app.rows.visible.find((r) => r.type === "kernels"),
      { events } = await app.source.json("at", { r: 0, lane, level: 0, t0: 6e5, t1: 7e5 });
    return events.sort((a, b) => b.end - b.start - (a.end - a.start))[0];
  });
  const place = await t.at("kernels", (kernel.start + kernel.end) / 2);
  await t.page.touchscreen.tap(place.x, place.y);
  equal((await until("a selection", () => t.selected())).event, kernel.event, "what is tapped");
  const before = await t.view();
  const touch = await t.context.newCDPSession(t.page);
  const send = (type, ...points) =>
    touch.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: points.map(([x, y], id) => ({ x, y, id })),
    });
  await send("touchStart", [300, 300]);
  for (const x of [280, 260, 240]) await send("touchMove", [x, 300]);
  await send("touchEnd");
  const moved = await until("a move", async () => {
    const view = await t.view();
    return view[0] > before[0] && view;
  });
  near(moved[1] - moved[0], before[1] - before[0], 1, "the scale");
  await send("touchStart", [220, 300], [300, 300]);
  for (const x of [310, 330, 360]) await send("touchMove", [220, 300], [x, 300]);
  await send("touchEnd");
  await until("a zoom", async () => {
    const view = await t.view();
    return view[1] - view[0] < 0.8 * (moved[1] - moved[0]);
  });
  await t.end();
});

const axe = join(root, "viewer", "node_modules", "axe-core", "axe.min.js");
for (const [name, options] of [
  ["light", {}],
  ["dark", { colorScheme: "dark" }],
  ["on a phone", { viewport: { width: 390, height: 844 } }],
  ["of two reports", { reports: 2 }],
])
  if (existsSync(axe))
    test(`screen readers: axe finds nothing to complain about, ${name}`, async () => {
      many ??= await serve(make("many.wsrep", makeReport, "150"));
      const two = ["axe-a.wsrep", "axe-b.wsrep"],
        server = options.reports ? await serve(...two.map((r) => make(r, makeReport))) : many,
        t = await open(server, options);
      await t.eval(readFileSync(axe, "utf8"));
      const check = (what) =>
        t
          .eval(async () =>
            (
              await window.axe.run(document, { resultTypes: ["violations"], preload: false })
            ).violations.map((v) => [v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))]),
          )
          .then((violations) => equal(violations, [], what));
      await t.page.locator("[data-tab=findings]").click();
      await until("findings", async () => (await t.page.locator(".bottom .finding").count()) > 1);
      const closed = t.page.locator(".findings .opens[aria-expanded=false]");
      while (await closed.count()) await closed.first().click();
      await check("findings");
      await t.page.locator("[data-tab=statistics]").click();
      await until("statistics", async () => (await t.page.locator(".bottom tbody tr").count()) > 2);
      await check("statistics");
      await t.page.locator("[data-tab=critical]").click();
      await until("tables", async () => (await t.page.locator(".spent tbody tr").count()) > 2);
      await check("critical path");
      for (const tab of ["details", "events", "functions", "compare", "sql", "session"]) {
        await t.page.locator(`[data-tab=${tab}]`).click();
        await t.settled();
        await check(tab);
      }
      await t.page.locator("[data-tab=events]").click();
      await t.page.locator(".events .spread").click();
      await until("the figures", async () => /Median/.test(await t.text(".histogram")));
      await check("durations");
      await t.page.locator(".chooser summary").click();
      await check("columns");
      await t.end();
    });

await runAll();
