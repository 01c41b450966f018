/**
 * canvas.mjs - the time line under the pointer: a click selects what the pointer shows, of every
 * kind of row at several zooms. See harness.mjs.
 */
import { equal, make, makeReport, ok, open, runAll, serve, test, until } from "./harness.mjs";

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

await runAll();
