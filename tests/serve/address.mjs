/**
 * address.mjs - what an address of the page holds, how two reports lie on one axis, and what is
 * said when the server or a file is gone. See harness.mjs.
 */
import { copyFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  equal,
  folder,
  make,
  makeReport,
  MS,
  ok,
  open,
  runAll,
  serve,
  test,
  until,
} from "./harness.mjs";

/** A trace whose first event begins at a time in ns. */
function makeTrace(name, start, events) {
  const file = join(folder, name);
  const traceEvents = [...Array(events).keys()].map((i) => ({
    ph: "X",
    cat: "cpu_op",
    name: i === 3 ? "mark" : `op ${name}`,
    pid: 1,
    tid: 1,
    ts: start / 1000 + i * 10,
    dur: 5,
  }));
  writeFileSync(file, JSON.stringify({ schemaVersion: 1, traceEvents }));
  return file;
}

test("an address holds the window, the selected range and event, the rows and the panel", async () => {
  const s = await serve(make("link.wsrep", makeReport));
  const t = await open(s);
  await t.set(0.15 * MS, 1.0 * MS);
  await t.select("nvtx", 0.25 * MS, 1);
  await t.eval(() => {
    const { app } = window.warpsight,
      rows = [...app.rows.byKey.values()],
      row = rows.find((r) => r.type === "osrt");
    app.setRange([200000, 700000]);
    app.setHidden(row, true);
    app.setPinned(
      rows.find((r) => r.type === "kernels"),
      true,
    );
    app.layoutRows();
  });
  await t.page.click("[data-tab=events]");
  const state = (p) =>
    p.eval(() => {
      const { app } = window.warpsight;
      return {
        window: [app.view.t0, app.view.t1].map(Math.round),
        range: app.range,
        event: app.selected && app.selected.spot.name,
        hidden: app.rows.hiddenRows().map((r) => r.key),
        pinned: app.rows.pinned.map((r) => r.key),
        panel: document.querySelector("[role=tab].on")?.dataset.tab,
      };
    });
  const before = await state(t);
  ok(before.event && before.hidden.length && before.pinned.length, JSON.stringify(before));
  const address = await until("the address", async () => {
    const url = t.page.url();
    return /e=.*p=events.*rows=/.test(url) && url;
  });
  equal(
    await t.eval(() => window.warpsight.app.makeLink()),
    address,
    "Copy link gives the address",
  );
  const other = await open({ url: address }); // a browser that knows nothing of it
  await until(
    "the same",
    async () => JSON.stringify(await state(other)) === JSON.stringify(before),
  );
  await other.end();
  await t.end();
});

test("two reports are aligned at their first event, or by choice; both are in sight", async () => {
  const s = await serve(makeTrace("early.json", 1e9, 50), makeTrace("late.json", 900e9, 80));
  const t = await open(s);
  const firsts = () =>
    t.eval(() =>
      window.warpsight.app.reports.map((r, i) => r.first + window.warpsight.app.offsets[i]),
    );
  const [a, b] = await firsts();
  equal(a, b, "first events");
  const whole = await t.view();
  ok(whole[1] - whole[0] < 2 * MS, `all of both is in sight: ${whole}`);
  ok(
    await t.eval(() => {
      const { timeline, app } = window.warpsight;
      return new Set(timeline.inSight().map((r) => r.report)).size === app.reports.length;
    }),
    "rows of both are in sight",
  );
  await t.page.locator("select.align").selectOption("start");
  equal(await t.eval(() => window.warpsight.app.offsets), [0, 0], "each from its start");
  await t.page.locator("select.align").selectOption("first");
  equal(await firsts(), [a, b], "by the first event again");
  await t.eval(() => window.warpsight.app.setOffset(1, 12345));
  equal(await t.page.locator("select.align").inputValue(), "own", "by hand");
  await t.eval(() => window.warpsight.app.alignByName(0, "mark"));
  const marks = await t.eval(async () => {
    const { app } = window.warpsight;
    return Promise.all(
      [0, 1].map(
        async (r) =>
          (await app.source.json("step", { r, q: "mark", exact: 1, t: 0 })).start + app.offsets[r],
      ),
    );
  });
  equal(marks[0], marks[1], "a mark that both have");
  await t.end();
});

test("of two reports with GPUs and many threads, both are in sight", async () => {
  const s = await serve(make("one.wsrep", makeReport, "4"), make("two.wsrep", makeReport, "6"));
  const t = await open(s);
  equal(
    await t.eval(() => [...new Set(window.warpsight.timeline.inSight().map((r) => r.report))]),
    [0, 1],
    "reports in sight",
  );
  await t.end();
});

test("Show all is the first view", async () => {
  const s = await serve(make("fit.wsrep", makeReport));
  const t = await open(s);
  const whole = await t.view();
  await t.set(0.2 * MS, 0.4 * MS);
  await t.page.click("button[aria-label='Show all']");
  equal(await t.view(), whole, "the window");
  await t.end();
});

test("a server that ended is said, and nothing else", async () => {
  const s = await serve(make("gone.wsrep", makeReport));
  const t = await open(s);
  await t.page.click("[data-tab=statistics]");
  await until("figures", async () => (await t.page.locator(".statistics tbody tr").count()) > 2);
  s.process.kill("SIGTERM");
  await until("it to be said", async () =>
    (await t.text(".error")).includes("The server does not answer"),
  );
  await t.set(0.2 * MS, 0.4 * MS).catch(() => undefined);
  equal(await t.page.locator(".panel").isVisible(), false, "no panel that would be untrue");
  ok(!(await t.page.locator("body").innerText()).includes("No events"), "nothing untrue");
  await t.context.close(); // what the browser says of requests that failed is no error here
});

test("a file that was replaced or written to is said", async () => {
  const file = make("one-of-two.wsrep", makeReport),
    other = make("two.wsrep", makeReport, "3");
  const s = await serve(file);
  const t = await open(s);
  copyFileSync(other, join(folder, "new.wsrep"));
  renameSync(join(folder, "new.wsrep"), file);
  await until("the other file to be said", async () =>
    (await t.text(".error")).includes("another file is in its place"),
  );
  ok(await t.page.locator(".panel").isVisible(), "what was read is still true");
  await t.end();
  const again = await serve(other);
  const u = await open(again);
  writeFileSync(other, "something else");
  await until("the change to be said", async () => (await u.text(".error")).includes("written to"));
  equal(await u.page.locator(".panel").isVisible(), false, "no panel");
  await u.context.close();
});

await runAll();
