/**
 * address.mjs - what an address of the page holds, how two reports lie on one axis, and what is
 * said when the server or a file is gone. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";
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
  warpsight,
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
  const address = await t.link();
  ok(/#v=2&.*e=.*p=events.*rows=/.test(address), address);
  const other = await open({ url: address }); // a browser that knows nothing of it
  await until(
    "the same",
    async () => JSON.stringify(await state(other)) === JSON.stringify(before),
  );
  await other.end();
  await t.end();
});

/** What panels say, as text. */
const panelState = (p) =>
  p.eval(() => {
    const text = (css) => [...document.querySelectorAll(css)].map((e) => e.innerText).join("|");
    return {
      panel: document.querySelector("[role=tab].on")?.dataset.tab,
      head: text(".panel th"),
      rows: text(".panel tbody tr"),
      only: text(".panel .only bdi"),
      pressed: text(".panel [aria-pressed=true]"),
      bar: document.querySelector(".panel .bars .on")?.ariaLabel,
      inputs: [...document.querySelectorAll(".panel input[type=search], .panel textarea")].map(
        (e) => e.value,
      ),
      says: text(".panel .says").replace(/ · .*/, ""), // how long it took
    };
  });

/** The address once the page has noted what it shows. */
const settledAddress = (t) =>
  until("the address", () =>
    t.eval(() => {
      const { app } = window.warpsight,
        hash = app.makeHash();
      return location.hash === hash && !app.cache.busy() && location.href;
    }),
  );

/** Open the page's link in a browser that knows nothing of it: it shows the same. */
async function sameElsewhere(t, what, options) {
  const before = await panelState(t),
    address = await settledAddress(t),
    other = await open({ url: address }, options);
  try {
    await until(
      what,
      async () => JSON.stringify(await panelState(other)) === JSON.stringify(before),
    );
  } catch (e) {
    equal(await panelState(other), before, what);
    throw e;
  }
  await other.end();
  return { address, before };
}

test("a link holds the table of events, statistics and SQL as they are", async () => {
  const s = await serve(make("panels-link.wsrep", makeReport));
  const t = await open(s);
  await t.page.click("[data-tab=statistics]");
  await t.page.locator(".statistics .actions button", { hasText: /^Kernels \d/ }).click();
  await t.page.locator(".statistics th button", { hasText: "Average" }).click();
  await until("sorted", async () => /Average ▾/.test(await t.text(".statistics thead")));
  await sameElsewhere(t, "statistics");

  /* Kernels of a name, with columns, sorted by one, of a bar and a condition. */
  const gemm = t.page.locator(".statistics tbody tr", { hasText: "sm90_gemm_f16" }).first();
  await gemm.locator("button.spread").click();
  await until("the figures", async () => /Median/.test(await t.text(".histogram")));
  await t.page.locator(".chooser summary").click();
  for (const name of ["grid_x", "grid_id"])
    await t.page.locator(`.chooser [data-column="${name}"]`).check();
  await t.page.locator(".chooser summary").click();
  await t.page.locator(".events th button", { hasText: /^grid_id/ }).click();
  await t.page.locator(".events th button", { hasText: /^grid_id/ }).click();
  await t.page.fill(".events .where", "grid_x > 0 and stream != 99");
  await until("filtered", () => /ew=/.test(t.page.url()));
  await t.settled();
  await t.page.locator(".histogram .bars button:enabled").last().click();
  await until("a bar", async () => (await panelState(t)).bar);
  await until("sorted down", async () => /grid_id ▾/.test(await t.text(".events thead")));
  await t.settled();
  const { address, before } = await sameElsewhere(t, "the table of events");
  ok(before.rows && / to /.test(before.only), JSON.stringify(before));
  ok(address.length < 400, `the link is short: ${address.length} ${address}`);

  /* In a tab that shows something else of the same report the link is followed, too. */
  const other = await open(s);
  await other.page.goto(address);
  await until("followed", async () => {
    const now = await panelState(other).catch(() => null); // it is being loaded again
    return JSON.stringify(now) === JSON.stringify(before);
  });
  await other.end();

  /* A part of a name that was typed, and rows. */
  await t.page.locator(".events .only button").click();
  await t.page.locator(".events input:not(.where, [type=checkbox])").fill("layer");
  await t.page.fill(".events .where", "");
  await t.page.click(".events .spread");
  await until("typed", async () => !/sm90/.test((await panelState(t)).rows));
  await sameElsewhere(t, "a part of a name");

  await t.page.click("[data-tab=sql]");
  await t.page.fill(".query textarea", "SELECT 'a+b & c%', 7 AS n\n-- (it's = #1)");
  await t.page.keyboard.press("Control+Enter");
  await until("the answer", async () => /a\+b & c%/.test((await panelState(t)).rows));
  const sql = await sameElsewhere(t, "SQL");
  ok(/\brun=1/.test(sql.address), sql.address);
  await t.page.fill(".query textarea", "SELECT 8");
  const typed = await settledAddress(t);
  ok(/sql=SELECT\+8(&|$)/.test(typed) && !/run=1/.test(typed), `typed, not asked: ${typed}`);
  await t.end();
});

test("a link holds whether names that differ in numbers are one", async () => {
  const file = join(folder, "fold.json");
  const traceEvents = [...Array(300).keys()].map((i) => ({
    ph: "X",
    cat: "cpu_op",
    name: `iteration ${i}`,
    pid: 1,
    tid: 1,
    ts: 1000 + i * 10,
    dur: 5,
  }));
  writeFileSync(file, JSON.stringify({ schemaVersion: 1, traceEvents }));
  const t = await open(await serve(file));
  await t.page.click("[data-tab=statistics]");
  await until("one", async () => /iteration #/.test(await t.text(".statistics tbody")));
  await t.page.locator(".statistics .folding").click();
  await until("each", async () => /iteration 17/.test(await t.text(".statistics tbody")));
  const { address } = await sameElsewhere(t, "each in the other");
  ok(/fold=0/.test(address), address);
  await t.page.locator(".statistics .folding").click();
  await until("one again", async () => /iteration #/.test(await t.text(".statistics tbody")));
  /* The events of such a form, too. */
  const all = t.page.locator(".statistics tbody tr", { hasText: "iteration #" }).first();
  await all.locator("button.spread").click();
  await until("its events", async () => /300 events/.test(await t.text(".events .actions")));
  await until("the figures", async () => /Median/.test(await t.text(".histogram")));
  const ofForm = await sameElsewhere(t, "events of a form");
  ok(/iteration 17/.test(ofForm.before.rows), "its names");
  await t.page.click("[data-tab=statistics]");
  /* Who has them apart by habit sees what the sender saw, and keeps the habit. */
  const folded = await settledAddress(t),
    other = await open({ url: new URL(folded).href.replace(/#.*/, "") });
  await other.page.click("[data-tab=statistics]");
  await other.page.locator(".statistics .folding").click();
  await until("apart", async () => /iteration 17/.test(await other.text(".statistics tbody")));
  await other.page.goto(folded);
  await until("as sent", async () =>
    /iteration #/.test(await other.text(".statistics tbody").catch(() => "")),
  );
  await other.page.locator("header button[title*='dark']").click();
  equal(
    await other.eval(() => JSON.parse(localStorage.getItem("warpsight")).fold),
    false,
    "the setting stays",
  );
  await other.end();
  await t.end();
});

test("old, newer and damaged links open what they can", async () => {
  const s = await serve(make("old-link.wsrep", makeReport));
  const rows = encodeURIComponent(
    JSON.stringify({ hidden: { 3: true }, pinned: "no", open: null }),
  );
  for (const [what, hash, panel, range] of [
    ["version 1", "#t=100000,900000&s=200000,300000&p=events", "events", [200000, 300000]],
    ["with rows", `#t=100000,900000&p=session&rows=${rows}`, "session", null],
    ["newer", "#v=9&t=100000,900000&p=events&new=thing&eo=.none&ec=grid_x", "events", null],
    ["no such event", "#v=2&t=100000,900000&e=0,9999,0,0&p=events", "events", null],
    ["cut", "#v=2&t=100000,900000&p=events&rows=%7B%22hid", "events", null],
    [
      "nonsense",
      "#v=x&t=100000,900000&e=a,b&p=events&el=9:1-99999999;x&ed=,&%=%E0%A4",
      "events",
      null,
    ],
    ["reversed", "#t=100000,900000&s=300000,200000&p=events", "events", [200000, 300000]],
  ]) {
    const t = await open({ url: `${s.url}${hash}` });
    equal((await t.view()).map(Math.round), [100000, 900000], `${what}: window`);
    await until(`${what}: panel`, async () => (await panelState(t)).panel === panel);
    equal(await t.eval(() => window.warpsight.app.range), range, `${what}: range`);
    if (panel === "events")
      await until(`${what}: events`, async () => (await panelState(t)).rows !== "");
    equal(await t.page.locator(".error:not([hidden])").count(), 0, `${what}: no complaint`);
    await until(`${what}: the address is of today`, () => /#v=2&/.test(t.page.url()));
    await t.end();
  }
});

test("an exported page begins where its events do, as the page of a server does", async () => {
  const file = make("late.wsrep", makeReport),
    alone = join(folder, "late.html");
  const made = spawnSync(warpsight, ["export", "-t", "html", "--output", alone, file]);
  equal(made.status, 0, String(made.stderr));
  /* A report whose first event comes late in the recording. */
  const text = readFileSync(alone, "utf8"),
    at = /"first":-?\d+/.exec(text);
  writeFileSync(alone, text.replace(at[0], `"first":${5 * MS}`));
  for (const [what, action] of [
    ["at first", () => undefined],
    ["show all", (t) => t.eval(() => (window.warpsight.app.view.set(0, 1e6), 0))],
  ]) {
    const t = await open({ url: `file://${alone}` });
    await action(t);
    if (what === "show all") await t.page.keyboard.press("0");
    await t.settled();
    const [from, to] = await t.view();
    ok(from > 4.9 * MS && from < 5 * MS, `${what}: from ${from}`);
    ok(to > 8 * MS && to < 9 * MS, `${what}: to ${to}`);
    await t.end();
  }
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
