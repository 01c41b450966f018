/**
 * page.mjs - the page of one report: what is drawn, every move, details, statistics, hostile names.
 * See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import {
  equal,
  first,
  folder,
  MS,
  near,
  ok,
  open,
  Page,
  runAll,
  sleep,
  until,
  warpsight,
  withPage,
} from "./harness.mjs";

/* ---- what is drawn ---- */

withPage("rows: processes, threads, GPUs, cores, counters, tracks", async (t) => {
  const types = await t.eval(() =>
    [...new Set([...window.warpsight.app.rows.byKey.values()].map((r) => r.type))].sort(),
  );
  for (const want of [
    "process",
    "thread",
    "nvtx",
    "cuda_api",
    "osrt",
    "state",
    "sample",
    "gil",
    "gpu",
    "kernels",
    "memory",
    "stream",
    "sync",
    "gpu_bytes",
    "cores",
    "cpu",
    "counter_group",
    "counter",
    "tracks",
    "track",
    "output",
    "diagnostic",
  ])
    ok(types.includes(want), `a row of type ${want}, among ${types}`);
  const labels = await t.page.locator(".label .name").allInnerTexts();
  ok(labels.includes("rank 0 · Process python3 [100]"), `the rank's name, among ${labels}`);
  const place = "rank 0 of 2, local rank 0, on node-1, GPUs 0,1";
  equal(await t.page.locator(`.label [title*="${place}"], .label[title*="${place}"]`).count(), 1);
  const all = await t.eval(() => [...window.warpsight.app.rows.names.values()]);
  ok(all.includes("NVTX · NCCL"), "the domain's name");
  ok(all.includes("Memory in use · Device"), "the kind of memory, as each has a row");
  for (const want of ["cuBLAS", "cuDNN", "Spans"])
    ok(all.includes(want), `calls of libraries have rows of their own: ${want}`);
});

withPage("drawn is true: painted pixels are where events are", async (t) => {
  for (const [type, t0, t1] of [
    ["kernels", 0, 8 * MS],
    ["kernels", 0.2 * MS, 0.5 * MS],
    ["nvtx", 0, 3 * MS],
    ["cuda_api", 0.9 * MS, 1.0 * MS],
    ["osrt", 0, 8 * MS],
  ]) {
    await t.set(t0, t1);
    await t.at(type, t0);
    await t.settled();
    const away = await t.eval(async (ty) => {
      const { app, timeline } = window.warpsight;
      const row = app.rows.visible.find((r) => r.type === ty);
      app.scrollTo(row, 0);
      timeline.paintRows(timeline.inSight());
      const canvas = timeline.root.querySelector(".rects"),
        copy = document.createElement("canvas");
      copy.width = canvas.width;
      copy.height = 1;
      const c = copy.getContext("2d");
      /* The lowest line of the level: what is busy is painted from below. */
      const y = Math.round(timeline.top(row) + 3 + row.height - 2.5);
      c.drawImage(canvas, 0, y, canvas.width, 1, 0, 0, canvas.width, 1);
      const px = c.getImageData(0, 0, canvas.width, 1).data;
      const back = [255, 255, 255];
      const got = await app.source.json("at", {
        r: 0,
        lane: row.lane,
        level: 0,
        t0: Math.floor(app.view.t0),
        t1: Math.ceil(app.view.t1),
        limit: 1000,
      });
      const wrong = [];
      for (let x = 2; x < canvas.width - 2; x++) {
        const painted = back.some((v, i) => Math.abs(px[x * 4 + i] - v) > 12);
        const a = app.view.t(x - 1.2),
          b = app.view.t(x + 2.2),
          inner0 = app.view.t(x + 0.4),
          inner1 = app.view.t(x + 0.6);
        const mayBe = got.events.some((e) => e.start < b && (e.end > a || e.end === e.start));
        const mustBe = got.events.some(
          (e) =>
            e.start <= inner0 &&
            e.end >= inner1 &&
            (e.end - e.start) / app.view.scale < 1e9 &&
            app.view.x(e.end) - x > 2,
        );
        if ((painted && !mayBe) || (!painted && mustBe)) wrong.push([x, painted]);
      }
      return { wrong: wrong.slice(0, 5), n: got.count };
    }, type);
    ok(away.n > 0, `${type} has events`);
    equal(away.wrong, [], `pixels of ${type} that are painted and should not be, or the reverse`);
  }
});

withPage("zoom: wheel and ctrl+wheel keep the time under the pointer", async (t) => {
  const p = await t.at("nvtx", 3 * MS);
  await t.page.mouse.move(p.x, p.y);
  for (const key of [null, "Control"]) {
    const [a0, a1] = await t.view();
    const before = await t.eval(() => window.warpsight.app.pointer);
    if (key) await t.page.keyboard.down(key);
    await t.page.mouse.wheel(0, -300);
    await until(
      "the zoom",
      async () => (await t.view())[1] - (await t.view())[0] < (a1 - a0) * 0.9,
    );
    if (key) await t.page.keyboard.up(key);
    const at = await t.eval(
      (x) =>
        window.warpsight.app.view.t(
          x - window.warpsight.timeline.area.getBoundingClientRect().left,
        ),
      p.x,
    );
    near(at, before, 20000, "time under the pointer");
  }
});

withPage("pan: shift+drag, middle drag, shift+wheel, A and D", async (t) => {
  await t.set(2 * MS, 4 * MS);
  const scale = await t.eval(() => window.warpsight.app.view.scale);
  const from = await t.at("nvtx", 3 * MS),
    to = { x: from.x - 200, y: from.y };
  await t.drag(from, to, { key: "Shift" });
  near((await t.view())[0], 2 * MS + 200 * scale, 3 * scale, "after shift+drag");
  await t.drag(from, { x: from.x + 200, y: from.y }, { button: "middle" });
  near((await t.view())[0], 2 * MS, 5 * scale, "after middle drag back");
  await t.page.keyboard.down("Shift");
  await t.page.mouse.wheel(0, 100);
  await t.page.keyboard.up("Shift");
  await until("shift+wheel to move", async () => (await t.view())[0] > 2 * MS + 50 * scale);
  for (const [key, more] of [
    ["d", true],
    ["a", false],
  ]) {
    const before = (await t.view())[0];
    await t.page.keyboard.down(key);
    await until(
      `${key} to move`,
      async () => (await t.view())[0] > before === more && (await t.view())[0] !== before,
    );
    await t.page.keyboard.up(key);
  }
});

withPage("double click zooms to an event; the map and the axis move and select", async (t) => {
  await t.set(0.1 * MS, 4 * MS);
  const p = await t.at("nvtx", 1.1 * MS);
  await t.page.mouse.dblclick(p.x, p.y);
  await until("the zoom", async () => (await t.view())[1] - (await t.view())[0] < 1.3 * MS);
  const s = await t.selected();
  const [a, b] = await t.view();
  ok(a < s.start && b > s.end, "the event is in the window");
  const axis = await t.page.locator(".axis").boundingBox();
  await t.page.mouse.click(axis.x + axis.width * 0.75, axis.y + 5);
  const all = await t.eval(() => [window.warpsight.app.view.first, window.warpsight.app.view.last]);
  near(
    (await t.view()).reduce((x, y) => x + y) / 2,
    all[0] + (all[1] - all[0]) * 0.75,
    0.05 * MS,
    "the middle of the window after a click on the map",
  );
  await t.drag({ x: axis.x + 100, y: axis.y + 35 }, { x: axis.x + 300, y: axis.y + 35 });
  const range = await until("a selection by the axis", () =>
    t.eval(() => window.warpsight.app.range),
  );
  near(
    (range[1] - range[0]) / (await t.eval(() => window.warpsight.app.view.scale)),
    200,
    2,
    "its pixels",
  );
});

withPage("rows scroll by the wheel over names, Alt+wheel, a button, Page Down", async (t) => {
  const scroll = () => t.eval(() => window.warpsight.timeline.scroll);
  const names = await t.page.locator(".labelpane").boundingBox(),
    area = await t.page.locator(".area").boundingBox();
  await t.page.mouse.move(names.x + 50, names.y + 50);
  await t.page.mouse.wheel(0, 100);
  await until("the names to scroll", async () => (await scroll()) === 100);
  await t.page.mouse.move(area.x + 50, area.y + 50);
  const view = await t.view();
  await t.page.keyboard.down("Alt");
  await t.page.mouse.wheel(0, 60);
  await t.page.keyboard.up("Alt");
  await until("Alt+wheel to scroll", async () => (await scroll()) === 160);
  const toggle = t.page.locator('header button[title^="Wheel"]');
  await toggle.click();
  equal(await toggle.getAttribute("aria-pressed"), "true", "what the button says");
  await t.page.mouse.move(area.x + 50, area.y + 50);
  await t.page.mouse.wheel(0, -60);
  await until("the wheel to scroll", async () => (await scroll()) === 100);
  equal(await t.view(), view, "nothing was zoomed");
  await t.page.locator(".area").focus();
  await t.page.keyboard.press("PageDown");
  ok((await scroll()) > 300, "after Page Down");
  await t.page.keyboard.press("PageUp");
  equal(await scroll(), 100, "after Page Up");
});

withPage("zoom by W and S, all by 0, undo and redo", async (t) => {
  await t.page.locator(".area").focus();
  const span = async () => (await t.view())[1] - (await t.view())[0];
  const all = await span();
  await t.page.keyboard.down("w");
  await until("w to zoom in", async () => (await span()) < all * 0.8);
  await t.page.keyboard.up("w");
  await t.page.keyboard.down("s");
  const before = await span();
  await until("s to zoom out", async () => (await span()) > before * 1.05);
  await t.page.keyboard.up("s");
  await t.page.keyboard.press("0");
  near(await span(), all, all * 0.05, "span after 0");
  await t.set(1 * MS, 2 * MS);
  await t.page.keyboard.press("Backspace");
  near(await span(), all, all * 0.05, "span after undo");
  await t.page.keyboard.press("Shift+Backspace");
  near(await span(), 1 * MS, 10, "span after redo");
  await t.page.keyboard.press("Control+z");
  near(await span(), all, all * 0.05, "span after ctrl+z");
});

withPage("drag selects a stretch and shows its statistics; shift+Z zooms to it", async (t) => {
  await t.drag(await t.at("process", 2 * MS), await t.at("process", 4 * MS));
  const range = await until("a selection", () => t.eval(() => window.warpsight.app.range));
  const scale = await t.eval(() => window.warpsight.app.view.scale);
  near(range[0], 2 * MS, 3 * scale, "start of the selection");
  near(range[1], 4 * MS, 3 * scale, "end of the selection");
  await until(
    "statistics of the selection",
    async () =>
      (await t.text(".statistics .actions")).startsWith("Selection") &&
      (await t.page.locator(".statistics tbody tr").count()) > 2,
  );
  const truth = await t.eval(async ([a, b]) => {
    const got = await window.warpsight.app.source.json("sum", {
      r: 0,
      t0: Math.floor(a),
      t1: Math.ceil(b),
    });
    return got.groups.filter((g) => g.kind === "kernels").sort((x, y) => y.total - x.total)[0];
  }, range);
  ok(
    (await t.text(".statistics tbody tr:first-child")).includes(truth.name),
    "the first is the kernel with most time",
  );
  await t.page.locator(".area").focus();
  await t.page.keyboard.press("Shift+Z");
  const [a, b] = await t.view();
  near(a, range[0], 1, "start of the window");
  near(b, range[1], 1, "end of the window");
  await t.page.keyboard.press("Escape");
  equal(await t.eval(() => window.warpsight.app.range), null, "selection after Esc");
});

withPage("statistics are those of the rows in the window", async (t) => {
  await t.page.locator("[data-tab=statistics]").click();
  await until("statistics", async () => (await t.page.locator(".statistics tbody tr").count()) > 2);
  await t.page.locator(".statistics .actions button", { hasText: /^Memory/ }).click();
  const row = t.page.locator(".statistics tbody tr", { hasText: "Copy host to device" });
  const cells = await row.locator("td").allInnerTexts();
  equal(cells[2], "24", "copies to the GPU: 12 steps on 2 GPUs");
  await row.locator("button.link[title='Show on the time line']").click();
  const s = await until("the longest to be selected", () => t.selected());
  equal(s.name, "Copy host to device", "its name");
});

withPage("selection snaps to edges and says its length", async (t) => {
  await t.set(0.15 * MS, 1.0 * MS);
  const s = await t.eval(
    async () => await window.warpsight.app.source.json("step", { r: 0, q: "forward", t: 0 }),
  );
  const from = await t.at("nvtx", s.start, 1),
    to = await t.at("nvtx", s.end, 1);
  await t.drag({ x: from.x + 3, y: from.y }, { x: to.x - 3, y: to.y });
  const range = await until("a selection", () => t.eval(() => window.warpsight.app.range));
  near(range[0], s.start, 2, "start");
  near(range[1], s.end, 2, "end");
});

withPage("click: details of a kernel, its launch and the ranges around that", async (t) => {
  await t.set(0.15 * MS, 1.0 * MS);
  const kernel = await t.eval(async () => {
    const row = window.warpsight.app.rows.visible.find((r) => r.type === "kernels");
    return window.warpsight.app.source.json("step", {
      r: 0,
      q: "sm90_gemm",
      t: 0,
      lanes: row.lane,
    });
  });
  const s = await t.select("kernels", (kernel.start + kernel.end) / 2, kernel.level);
  equal(s.name, "sm90_gemm_f16", "name");
  equal(
    s.detail.links.map((l) => l.role),
    ["call", "range", "range", "range"],
    "links",
  );
  equal(s.detail.links[0].name, "cudaLaunchKernel_v7000", "the launch");
  equal(
    s.detail.links.slice(1).map((l) => l.name.replace(/\d+/, "")),
    ["layer ", "forward", "step "],
    "ranges, from the inside",
  );
  const text = await t.text(".details");
  for (const want of [
    "sm90_gemm_f16",
    "528 × 1 × 1",
    "256 × 1 × 1",
    "75.0 % (limited by registers)",
    "Launched by",
  ])
    ok(text.includes(want), `details say ${want}: ${text}`);
  await t.page.locator(".links button", { hasText: "cudaLaunchKernel" }).click();
  const call = await until("the call", async () => {
    const c = await t.selected();
    return c?.name.startsWith("cudaLaunch") && c.detail ? c : null;
  });
  equal(
    call.detail.links.filter((l) => l.role === "work").map((l) => l.name),
    ["sm90_gemm_f16"],
    "work of the call",
  );
  const cols = t.page.locator(".details details");
  await cols.locator("summary").click();
  ok((await cols.innerText()).includes("correlation"), "all columns");
});

withPage("range to its kernels, wait to what it waited for", async (t) => {
  await t.set(0.1 * MS, 1.2 * MS);
  const s = await t.select("nvtx", 0.25 * MS, 1);
  equal(s.name, "forward", "range");
  ok(s.detail.links.filter((l) => l.role === "work").length >= 4, "kernels of the range");
  const wait = await t.eval(async () => {
    const row = window.warpsight.app.rows.visible.find((r) => r.type === "sync");
    return window.warpsight.app.source.json("step", { r: 0, t: 0, lanes: row.lane });
  });
  const w = await t.select("sync", (wait.start + wait.end) / 2);
  const waited = w.detail.links.find((l) => l.role === "waited");
  ok(
    waited && waited.end <= w.end && waited.end > w.start,
    "it waited for work that ended during the wait",
  );
});

withPage("ranges on the GPU are those of the statistics", async (t) => {
  const r = spawnSync(warpsight, [
    "stats",
    "-q",
    "-r",
    "nvtx_gpu_proj_sum",
    "-f",
    "csv",
    join(folder, "one.wsrep"),
  ]);
  equal(r.status, 0, String(r.stderr));
  const lines = String(r.stdout)
    .trim()
    .split("\n")
    .map((l) => l.split(","));
  const head = lines.shift();
  const column = (n) => head.findIndex((h) => h.startsWith(n));
  const want = lines
    .map((l) => [
      l[column("Range")].replace(/^:?(NCCL:)?/, ""),
      Number(l[column("Total Proj")]),
      Number(l[column("Range Instances")]),
    ])
    .sort();
  const got = await t.eval(async () =>
    (await window.warpsight.app.source.json("sum", { r: 0 })).groups
      .filter((g) => g.kind === "projected")
      .map((g) => [g.name, g.total, g.count])
      .sort(),
  );
  equal(got, want, "projected ranges");
  /* Steps overlap on the GPU: what is in a step is below it all the same. */
  const all = await t.eval(async () => {
    const { app } = window.warpsight;
    const row = app.rows.visible.find((r) => r.type === "projected");
    return (await app.source.json("events", { r: 0, lanes: row.lane, limit: 1000 })).events;
  });
  const within = (a, b) => a.start >= b.start && a.end <= b.end;
  for (const [inner, outer] of [
    [/^(forward|backward)/, /^step/],
    [/^layer/, /^forward/],
  ])
    for (const e of all.filter((x) => inner.test(x.name)))
      ok(
        all.some((x) => outer.test(x.name) && within(e, x) && x.level < e.level),
        `${e.name} at ${e.start} is below what it is in`,
      );
  equal(
    await t.eval(() =>
      window.warpsight.app.rowName(
        window.warpsight.app.rows.visible.find((r) => r.type === "projected"),
      ),
    ),
    "NVTX on GPU · Main thread",
    "the row's name",
  );
  await t.set(0.1 * MS, 1.2 * MS);
  const s = await t.select("projected", 0.4 * MS, 0);
  ok(
    s.name.startsWith("step") &&
      s.detail.links.some((l) => l.role === "range" && l.name === s.name),
    "tied to the range itself",
  );
});

withPage(
  "a range leads to its time on the GPU and back; outlines are only where the linked events are",
  async (t) => {
    const step = await t.eval(async () =>
      window.warpsight.app.source.json("step", { r: 0, q: "step 3", t: 0 }),
    );
    const select = (s) => t.eval((x) => window.warpsight.app.select(0, x), s);
    const detail = () => until("its details", async () => (await t.selected())?.detail);
    await select(step);
    const there = (await detail()).links.find((l) => l.role === "on_gpu");
    equal(there.name, "step 3", "itself on the GPU");
    ok(
      (await detail()).more_work === 1 &&
        (await t.text(".details")).includes("the first and the last pieces"),
      "not all of its work is listed, and that is said",
    );
    await select(there);
    ok(
      (await detail()).links.some(
        (l) => l.role === "range" && l.start === step.start && l.end === step.end,
      ),
      "and back",
    );

    /* A kernel: its launch and the ranges around that are left of the window. */
    const kernel = await t.eval(
      async (s) =>
        window.warpsight.app.source.json("step", { r: 0, q: "sm90_gemm", t: s.end - 200000 }),
      step,
    );
    await select(kernel);
    const links = (await detail()).links;
    const boxes = () =>
      t.eval(() => {
        const { timeline } = window.warpsight,
          out = { boxes: [], curves: [] },
          proto = CanvasRenderingContext2D.prototype,
          [rect, curve] = [proto.strokeRect, proto.bezierCurveTo];
        proto.strokeRect = function (x, y, w, h) {
          if (this.lineWidth < 2) out.boxes.push([x, w]); // thicker: the selected event itself
          rect.call(this, x, y, w, h);
        };
        proto.bezierCurveTo = function (...p) {
          out.curves.push(p);
          curve.apply(this, p);
        };
        timeline.draw();
        [proto.strokeRect, proto.bezierCurveTo] = [rect, curve];
        return out;
      });
    const left = Math.min(...links.map((l) => l.start)),
      right = Math.max(...links.map((l) => l.end));
    await t.set(left - 20000, kernel.end + 20000);
    const all = await boxes();
    equal(all.boxes.length, links.length, "each is outlined while all are in sight");
    equal(all.curves.length, 1, "the arrow from its launch");
    await t.set(right + 1000, right + 2000000);
    equal(await boxes(), { boxes: [], curves: [] }, "none is where none is");
  },
);

withPage("arrow keys step along the row, out and in; Z zooms to the event", async (t) => {
  const first = await t.select("nvtx", 1.1 * MS, 0);
  await t.page.keyboard.press("ArrowRight");
  const second = await until("the next", async () =>
    (await t.selected())?.event === first.event + 1 ? t.selected() : null,
  );
  ok(second.start >= first.end, "the next comes after");
  await t.page.keyboard.press("ArrowLeft");
  await until("the one before", async () => (await t.selected())?.event === first.event);
  await t.page.keyboard.press("ArrowDown");
  const inner = await until("the inner", async () =>
    (await t.selected())?.level === 1 ? t.selected() : null,
  );
  ok(inner.start >= first.start && inner.end <= first.end, "the first inside");
  await t.page.keyboard.press("ArrowUp");
  await until("the outer", async () => (await t.selected())?.level === 0);
  await t.page.keyboard.press("z");
  const [a, b] = await t.view();
  ok(
    a < first.start && b > first.end && b - a < (first.end - first.start) * 1.6,
    "the window fits the event",
  );
});

withPage("search: counts, stepping, names, regular expressions", async (t) => {
  await t.page.keyboard.press("Control+f");
  equal(
    await t.eval(() => document.activeElement.className),
    "searchbox",
    "ctrl+F goes to the search",
  );
  await t.page.keyboard.type("ALLREDUCE");
  await until("counts", async () => (await t.text(".found")).startsWith("48 matches, 2 names"));
  ok((await t.page.locator(".foundlist button").count()) === 2, "names are listed");
  ok((await t.eval(() => window.warpsight.app.found.length)) > 0, "matches are marked on the axis");
  await t.page.keyboard.press("Enter");
  const a = await until("the first match", () => t.selected());
  await t.page.locator(".searchbox").focus();
  await t.page.keyboard.press("Enter");
  const place = (s) => [s.start, s.lane, s.level]; // of one moment, other rows come next
  const b = await until("the next", async () => {
    const s = await t.selected();
    return s && String(place(s)) !== String(place(a)) ? s : null;
  });
  ok(b.start >= a.start, "it is no earlier");
  await t.page.locator(".searchbox").focus();
  await t.page.keyboard.press("Shift+Enter");
  await until("back", async () => String(place((await t.selected()) ?? b)) === String(place(a)));
  await t.page.locator(".searchbox").fill("^step (3|5)$");
  await until("no matches as plain text", async () => (await t.text(".found")) === "No matches");
  await t.page.locator(".toggle input").first().check();
  await until("matches as an expression", async () =>
    (await t.text(".found")).startsWith("4 matches"),
  );
  await t.page.locator(".searchbox").fill("(");
  await until("a sentence about the expression", async () =>
    (await t.text("#app > .error")).includes("regular expression"),
  );
  await t.eval(() => window.warpsight.app.ask("sum", { r: 0 }));
  ok((await t.text("#app > .error")).includes("regular expression"), "other answers leave it");
  await t.page.locator(".searchbox").fill("^step 3$");
  await until("no complaint", async () => !(await t.page.locator("#app > .error:visible").count()));
});

withPage("markers with notes are kept", async (t) => {
  const p = await t.at("process", 5 * MS);
  await t.page.mouse.move(p.x, p.y + 1);
  await until("the pointer to be known", () => t.eval(() => window.warpsight.app.pointer));
  await t.page.keyboard.press("Control+m");
  await t.page.keyboard.type("slow <b>here</b>");
  await t.page.keyboard.press("Enter");
  const m = await until("the marker", () =>
    t.eval(() => window.warpsight.app.markers[0]?.note && window.warpsight.app.markers),
  );
  equal(m[0].note, "slow <b>here</b>", "note");
  near(m[0].time, 5 * MS, 30000, "time");
  await sleep(500);
  await t.page.reload();
  await t.settled();
  equal(await t.eval(() => window.warpsight.app.markers.length), 1, "markers after a reload");
  const menu = async (item) => {
    const box = await t.page.locator(".axis").boundingBox();
    await t.page.mouse.click(
      box.x +
        (await t.eval(() => window.warpsight.app.view.x(window.warpsight.app.markers[0].time))),
      box.y + 35,
      { button: "right" },
    );
    await t.page.locator(".menu button", { hasText: item }).click();
  };
  await menu("Note of this marker");
  await t.page.keyboard.type("slower");
  await t.page.keyboard.press("Enter");
  await until("the other note", () =>
    t.eval(() => window.warpsight.app.markers[0].note === "slower"),
  );
  await menu("Remove marker");
  equal(await t.eval(() => window.warpsight.app.markers), [], "markers after one was removed");
});

withPage("help by ?, closed by its button", async (t) => {
  await t.page.keyboard.press("?");
  await t.page.locator("dialog.help").waitFor();
  ok((await t.text("dialog.help")).includes("Shift+Z"), "keys are listed");
  await t.page.locator("dialog.help button").click();
  await until("the dialog to be gone", async () => (await t.page.locator("dialog").count()) === 0);
});

withPage("rows: fold, hide, show, pin, reorder, filter, height, and all kept", async (t) => {
  const shown = () => t.eval(() => window.warpsight.app.rows.visible.map((r) => r.key));
  const before = await shown();
  await t.page.locator(".label[data-type=process]").first().click();
  ok((await shown()).length < before.length, "folding hides what is below");
  await t.page.locator(".label[data-type=process]").first().click();
  equal(await shown(), before, "rows after unfolding");
  const menu = async (type, item) => {
    await t.at(type, 0); /* brings the row into sight */
    await t.page.locator(`.label[data-type=${type}]`).first().click({ button: "right" });
    await t.page.locator(".menu button", { hasText: item }).first().click();
  };
  await menu("osrt", "Hide row");
  equal((await shown()).length, before.length - 1, "rows after hiding one");
  equal(await t.text(".restore"), "1 hidden: show", "what says so");
  await menu("nvtx", "Pin row");
  equal(
    await t.eval(() => window.warpsight.app.rows.pinned.map((r) => r.type)),
    ["nvtx"],
    "pinned rows",
  );
  const order = () => t.eval(() => window.warpsight.app.rows.roots.map((r) => r.key));
  const was = await order();
  await menu("process", "Move down");
  equal(await order(), [was[1], was[0], ...was.slice(2)], "order after moving down");
  await menu("cuda_api", "Taller");
  const tall = await t.eval(
    () => window.warpsight.app.rows.visible.find((r) => r.type === "cuda_api").height,
  );
  equal(tall, 27, "height");
  await t.page.locator(".rowfilter").fill("dataloader");
  await until("the filter", async () => {
    const types = await t.eval(() => window.warpsight.app.rows.visible.map((r) => r.type));
    return types.length > 2 && !types.includes("gpu") && types.includes("thread");
  });
  await t.page.locator(".rowfilter").fill("");
  await sleep(500);
  await t.page.reload();
  await t.settled();
  equal(
    await t.eval(() => window.warpsight.app.rows.pinned.map((r) => r.type)),
    ["nvtx"],
    "pinned rows after a reload",
  );
  equal(await t.text(".restore"), "1 hidden: show", "hidden rows after a reload");
  await t.page.locator(".restore").click();
  equal((await shown()).length, before.length - 1, "rows when all are shown, without the pinned");
});

withPage(
  "rows: show only one, expand and collapse all below, drag to another place, drag an edge, resize panels",
  async (t) => {
    const shown = () => t.eval(() => window.warpsight.app.rows.visible.map((r) => r.type));
    const menu = async (type, item) => {
      await t.at(type, 0);
      await t.page.locator(`.label[data-type=${type}]`).first().click({ button: "right" });
      await t.page.locator(".menu button", { hasText: item }).first().click();
    };
    const before = await shown();
    await menu("memory", "Show only this");
    equal(await shown(), ["process", "gpu", "memory"], "rows when only one is wanted");
    await menu("memory", "Show all rows");
    equal(await shown(), before, "all rows again");
    await menu("process", "Collapse all below");
    await menu("process", "Expand all below");
    ok((await shown()).length >= before.length, "all below are open");
    const order = () =>
      t.eval(() =>
        window.warpsight.app.rows.visible
          .filter(
            (r) => r.parent === window.warpsight.app.rows.visible.find((x) => x.type === "gpu").id,
          )
          .map((r) => r.type),
      );
    const was = await order();
    await t.page.reload();
    await t.settled();
    /*
     * Rows of names come when their shares are known, and push others down; a label is made anew
     * when its row changes.
     */
    await until("rows of names", () =>
      t.eval(() =>
        window.warpsight.app.rows.visible
          .filter((r) => ["kernels", "memory", "stream"].includes(r.type) && r.open)
          .every((r) => r.children.length > 0),
      ),
    );
    const label = async (type) => {
      await t.at(type, 0);
      await t.settled();
      return until(`the label of ${type}`, () =>
        t.page.locator(`.label[data-type=${type}]`).first().boundingBox(),
      );
    };
    const [from, to] = [await label("kernels"), await label("projected")];
    await t.drag({ x: from.x + 150, y: from.y + 10 }, { x: to.x + 150, y: to.y + 10 });
    await until(
      "the other order",
      async () => (await order()).indexOf("kernels") < was.indexOf("kernels"),
    );
    const height = () =>
      t.eval(() => window.warpsight.app.rows.visible.find((r) => r.type === "gpu_bytes").height);
    const [h, edge] = [await height(), await label("gpu_bytes")];
    await t.drag(
      { x: edge.x + 100, y: edge.y + edge.height - 2 },
      { x: edge.x + 100, y: edge.y + edge.height + 28 },
    );
    near(await height(), h + 30, 2, "height after dragging the edge");
    const splitter = await t.page.locator(".splitter.horizontal").boundingBox();
    const panel = () =>
      t.eval(() => document.querySelector(".bottom").getBoundingClientRect().height);
    const tall = await panel();
    await t.drag({ x: 500, y: splitter.y + 2 }, { x: 500, y: splitter.y + 102 });
    near(await panel(), tall - 100, 4, "height of the panels");
  },
);

withPage("arrows of imported traces lead both ways", async (t) => {
  const s = await t.select("track", 0.45 * MS);
  const links = () =>
    t.eval(() => window.warpsight.app.selected.detail?.links.map((l) => [l.role, l.name, l.start]));
  equal(await until("links", links), [["flow_to", "batch", 1.2 * MS]], `where ${s.name} leads`);
  await t.select("track", 1.25 * MS);
  equal(
    await until("links", links),
    [["flow_from", "batch", 0.4 * MS]],
    "where the other comes from",
  );
  await t.select("track", 0.85 * MS);
  equal(await until("links", links), [], "one that no arrow touches");
});

withPage("idle threads are gathered, and what leads into them opens their row", async (t) => {
  const rows = () =>
    t.eval(() =>
      window.warpsight.app.rows.visible
        .filter((r) => r.pid === 100 || r.parent === "p1" || r.parent.startsWith("q"))
        .map((r) => `${r.type} ${r.label ?? ""}`.trim()),
    );
  equal(
    await rows(),
    ["process python3", "gpu NVIDIA H200", "thread", "thread DataLoader", "threads"],
    "GPUs first, then threads that work, then the others",
  );
  equal(
    await t.eval(() =>
      window.warpsight.app.rowName(
        window.warpsight.app.rows.visible.find((r) => r.type === "threads"),
      ),
    ),
    "3 more threads",
    "its name",
  );
  await t.eval(async () => {
    const { app } = window.warpsight;
    app.select(0, await app.source.json("step", { r: 0, q: "sem_wait", t: 0 }), true);
  });
  ok((await rows()).includes("thread pool"), "an idle thread is shown");
});

withPage("rows by keyboard", async (t) => {
  await t.page.locator(".label").first().focus();
  await t.page.keyboard.press("ArrowDown");
  await until("focus to move down", () =>
    t.eval(() => document.activeElement.dataset.type === "gpu"),
  );
  await t.page.keyboard.press("ArrowLeft");
  await until("the row to close", () =>
    t.eval(() => window.warpsight.app.rows.visible[1].open === false),
  );
  await t.page.keyboard.press("ArrowRight");
  await until("the row to open", () =>
    t.eval(() => window.warpsight.app.rows.visible[1].open === true),
  );
});

withPage("events table: sorted, filtered, linked both ways", async (t) => {
  await t.at("kernels", 0);
  await t.page.locator(".label[data-type=kernels]").first().click({ button: "right" });
  await t.page.locator(".menu button", { hasText: "Show in events" }).click();
  await until("events", async () => (await t.page.locator(".events tbody tr").count()) >= 200);
  await t.page.locator(".events th button", { hasText: "Duration" }).click();
  await until("the longest first", async () =>
    (await t.text(".events tbody tr:first-child")).includes("ncclDevKernel"),
  );
  await t.page.locator(".events input:not(.where, [type=checkbox])").fill("softmax");
  await until("the filter", async () => (await t.text(".events .actions")).includes("108 events"));
  await t.page.locator(".events tbody tr").first().click();
  const s = await until("the event on the time line", () => t.selected());
  equal(s.name, "softmax_warp_forward", "its name");
  const [a, b] = await t.view();
  ok(s.start >= a && s.end <= b, "it is in sight");
  await t.page.locator(".events tbody tr").nth(2).dblclick();
  const third = await until("another event", async () => {
    const now = await t.selected();
    return now.start !== s.start && now;
  });
  await until(
    "it to fill the window",
    async () =>
      Math.abs((await t.view())[1] - (await t.view())[0] - 1.3 * (third.end - third.start)) < 10,
  );
  ok((await t.page.locator(".events tr.on").count()) === 1, "its row is marked");
});

withPage(
  "context menu of an event: highlight, search, copy a link that opens the same view",
  async (t) => {
    await t.set(1 * MS, 2 * MS);
    await t.click("nvtx", 1.5 * MS, 0, 0, { button: "right" });
    await t.page.locator(".menu button", { hasText: "Highlight" }).click();
    equal(await t.eval(() => window.warpsight.app.highlight), "step 1", "what is highlighted");
    await t.page.keyboard.press("Escape");
    equal(await t.eval(() => window.warpsight.app.highlight), null, "after Esc");
    await t.click("nvtx", 1.5 * MS, 0, 0, { button: "right" });
    await t.page.locator(".menu button", { hasText: "Search" }).click();
    ok(
      (await t.eval(() => document.querySelector(".searchbox").value)).startsWith("step"),
      "the name is searched",
    );
    const hash = await t.eval(() => window.warpsight.app.makeHash());
    const again = await open({ url: (await first()).url + hash });
    near((await again.view())[0], 1 * MS, 2, "start of the linked view");
    await again.end();
  },
);

withPage("functions: flame graph top down, bottom up, flat", async (t) => {
  await t.page.locator("[data-tab=functions]").click();
  await until("the flame graph", async () => (await t.page.locator(".cell").count()) >= 8);
  const names = await t.page.locator(".cell").allInnerTexts();
  for (const want of ["main", "train", "forward", "matmul", "backward", "[python3]"])
    ok(names.includes(want), `${want} among ${names}`);
  await t.page.locator(".cell", { hasText: "forward" }).first().click();
  ok((await t.page.locator(".cell.above").count()) === 3, "what is above stays in sight");
  await t.page.locator("button", { hasText: "Bottom up" }).click();
  await until(
    "bottom up",
    async () => (await t.page.locator(".cell").nth(1).innerText()) === "matmul",
  );
  await t.page.locator("button", { hasText: "Flat" }).click();
  await until("the table", async () =>
    (await t.text(".functions tbody tr:first-child")).includes("matmul"),
  );
  await t.page.locator(".functions button", { hasText: /^On the GPU$/ }).click();
  await until("kernels", async () =>
    (await t.text(".functions tbody tr:first-child")).includes("sm90_gemm_f16"),
  );
  await t.page.locator("button", { hasText: "Top down" }).click();
  await until("ranges above them", async () =>
    (await t.page.locator(".cell").allInnerTexts()).includes("backward"),
  );
  await t.page.locator(".functions button", { hasText: "Waiting" }).click();
  await until("waits", async () =>
    (await t.page.locator(".cell").allInnerTexts()).some((n) => n.includes("pthread_cond_wait")),
  );
});

withPage("a sample's stack with source lines", async (t) => {
  const spot = await t.eval(async () => {
    const row = window.warpsight.app.rows.visible.find((r) => r.type === "sample");
    return window.warpsight.app.source.json("events", {
      r: 0,
      lanes: row.lane,
      q: "matmul",
      limit: 1,
    });
  });
  await t.eval((s) => window.warpsight.app.select(0, s, true), spot.events[0]);
  await until("the stack", async () => (await t.page.locator(".stack li").count()) === 4);
  const text = await t.text(".stack");
  for (const want of ["matmul train.c:35", "train train.c:15", "main train.c:5"])
    ok(text.includes(want), `${want} in ${text}`);
});

withPage("diagnostics and session", async (t) => {
  equal(
    await t.text("[data-tab=diagnostics]"),
    "Diagnostics (4)",
    "two warnings and two losses are not overlooked",
  );
  await t.page.locator("[data-tab=diagnostics]").click();
  const d = await t.text(".diagnostics");
  ok(
    d.includes("CUDA_LAUNCH_BLOCKING is set") && d.includes("12 × nvtx: memory budget"),
    `diagnostics and losses: ${d}`,
  );
  await t.page.locator("[data-tab=session]").click();
  const s = await t.text(".session");
  ok(
    s.includes("python train.py --batch 64") &&
      s.includes("epoch 1 loss 0.734") &&
      s.includes("warning: <i>slow</i> disk"),
    `facts and output: ${s}`,
  );
});

withPage("hostile names are text everywhere", async (t) => {
  await t.eval(async () => {
    for (const r of window.warpsight.app.rows.byKey.values()) r.open = true;
    window.warpsight.app.layoutRows();
    // rows of names come now, not when one is about to click below them
    await window.warpsight.app.nameShares();
  });
  const row = await t.eval(
    () =>
      window.warpsight.app.rows.visible.find(
        (r) => r.type === "nvtx" && r.parent === "t5" && !r.label,
      ).key,
  );
  for (let i = 0; i < 9; i++) {
    const s = await t.select("nvtx", i * 0.9 * MS + 0.3 * MS, 0, row);
    const text = await t.text(".details h3");
    ok(
      !/[\u202a-\u202e\u2066-\u2069\u0000-\u0008]/.test(text),
      `no controls in ${JSON.stringify(text)}`,
    );
    if (i === 0) ok(text.includes("<img src=x onerror=alert(1)>"), "markup as text");
    if (i === 1) ok(text.includes("U+202E"), "the override is made visible");
    if (i === 8)
      ok(
        s.detail.columns.some((c) => c.text?.length === 10000),
        "10 kB arrive",
      );
  }
  /*
   * Every panel, the menus, the tooltip: no text has what reorders or hides others, and no name has
   * become an element.
   */
  const disturbed = () =>
    t.eval(() => {
      const wrong = [];
      const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      for (let n = walk.nextNode(); n; n = walk.nextNode())
        if (
          /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/.test(
            n.data,
          )
        )
          wrong.push(n.data.slice(0, 60));
      for (const e of document.querySelectorAll("[title], [aria-label]"))
        if (/[\u202a-\u202e\u2066-\u2069]/.test(e.title + e.getAttribute("aria-label")))
          wrong.push(e.outerHTML.slice(0, 100));
      const made = document.querySelectorAll(
        "body img, body script:not([src]), #app b b, #app i, #app a",
      ).length;
      return [wrong, made];
    });
  const seen = {
    events: "img src=x",
    statistics: "img src=x",
    functions: "img src=x",
    diagnostics: "img src=x",
    session: "img src=x",
    details: "XXXX",
  };
  for (const tab of Object.keys(seen)) {
    await t.page.locator(`[data-tab=${tab}]`).click();
    if (tab === "functions") await t.page.locator("button", { hasText: "Flat" }).click();
    if (tab === "statistics")
      await t.page.locator(".statistics .actions button", { hasText: /^NVTX \d/ }).click();
    if (tab === "events")
      await t.page.locator(".events input:not(.where, [type=checkbox])").fill("onerror");
    await until(`${tab} to name it`, async () => (await t.text(".panel")).includes(seen[tab]));
    equal(await disturbed(), [[], 0], `what disturbs in ${tab}`);
  }
  await t.page.locator("[data-tab=functions]").click();
  await t.page.locator("button", { hasText: "Top down" }).click();
  await until(
    "the flame graph",
    async () => (await t.page.locator(".cell", { hasText: "img src=x" }).count()) > 0,
  );
  equal(await disturbed(), [[], 0], "what disturbs in the flame graph");
  for (const type of ["counter", "track", "counter_group"]) {
    const n = await t.eval(
      (ty) => window.warpsight.app.rows.visible.filter((r) => r.type === ty).length,
      type,
    );
    await t.at(type, 1 * MS, 0, n - 1);
    await t.settled();
    equal(await disturbed(), [[], 0], `what disturbs among rows of type ${type}`);
  }
  await t.click("nvtx", 0.3 * MS, 0, row, { button: "right" });
  await t.page.locator(".menu").waitFor();
  equal(await disturbed(), [[], 0], "what disturbs with the menu");
  await t.page.keyboard.press("Escape");
  await t.page.locator(".searchbox").fill("<img src=x onerror=alert(1)>");
  await until("found as it is", async () => (await t.text(".found")) === "11 matches, 4 names");
  equal(await disturbed(), [[], 0], "what disturbs in what is found");
});

withPage(
  "dark and light",
  async (t) => {
    const back = () => t.eval(() => getComputedStyle(document.body).backgroundColor);
    equal(await back(), "rgb(18, 24, 31)", "dark as the desktop wants it");
    await t.page.locator("header button", { hasText: "◐" }).click();
    equal(await back(), "rgb(255, 255, 255)", "light on demand");
    await t.page.reload();
    await t.settled();
    equal(await back(), "rgb(255, 255, 255)", "and after a reload");
  },
  { colorScheme: "dark" },
);

withPage(
  "Chinese",
  async (t) => {
    equal(await t.text("[data-tab=statistics]"), "统计", "tab");
    ok((await t.page.locator(".label .name").allInnerTexts()).includes("CPU 采样"), "rows");
    await t.page.keyboard.press("?");
    ok((await t.text("dialog.help")).includes("缩放到选区"), "help");
  },
  { locale: "zh-CN" },
);

for (const painter of ["webgl2", "canvas"])
  withPage(
    `by ${painter}: ranges, counters, groups are painted`,
    async (t) => {
      equal(await t.eval(() => window.warpsight.timeline.painter.kind), painter, "painter");
      const shot = async (type, time, up) => {
        await t.at(type, time);
        await t.settled();
        const p = await t.at(type, time);
        return t.pixel(p.x, p.y + up);
      };
      await t.set(0.1 * MS, 1.2 * MS);
      const [r, g, b] = await shot("kernels", 0.88 * MS, 0);
      ok(b > 150 && b > r + 50 && b > g, `a kernel is blue: ${[r, g, b]}`);
      const forward = await t.eval(async () =>
        window.warpsight.app.source.json("step", { r: 0, q: "forward", t: 0 }),
      );
      await t.set(forward.start - 50000, forward.end + 50000);
      await t.at("nvtx", forward.start, 1);
      await t.settled();
      const at = await t.at("nvtx", (forward.start + forward.end) / 2 + 3000, 1);
      equal(await t.pixel(at.x, at.y), [0x4c, 0x72, 0xb0], "the colour that the program chose");
    },
    { search: `?painter=${painter}` },
  );

withPage("controls have accessible names", async (t) => {
  for (const tab of [
    "details",
    "events",
    "statistics",
    "functions",
    "compare",
    "diagnostics",
    "session",
  ]) {
    await t.page.locator(`[data-tab=${tab}]`).click();
    await sleep(250);
    const nameless = await t.eval(() =>
      [...document.querySelectorAll("button, input, [role=treeitem], [role=tab]")]
        .filter(
          (e) =>
            !e.hidden &&
            e.offsetParent &&
            !(
              e.getAttribute("aria-label") ||
              e.textContent.trim() ||
              e.title ||
              e.closest("label")?.textContent.trim()
            ),
        )
        .map((e) => e.outerHTML.slice(0, 120)),
    );
    equal(nameless, [], "controls without a name");
  }
});

await runAll();
