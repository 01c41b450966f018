/**
 * durations.mjs - what panels say of ranges and of the durations of a name, against SQL: time of
 * their own, spread. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import {
  equal,
  folder,
  make,
  makeReport,
  ok,
  open,
  runAll,
  serve,
  test,
  until,
  warpsight,
} from "./harness.mjs";

function query(sql, file) {
  const r = spawnSync(warpsight, ["query", "-f", "json", sql, file], { maxBuffer: 1 << 28 });
  if (r.status !== 0) throw new Error(`${r.stderr}\n${sql}`);
  return JSON.parse(r.stdout);
}

const clip = (e, [t0, t1]) => Math.max(0, Math.min(e.end, t1) - Math.max(e.start, t0));

/** Own time by name of events that nest, each row (`key`) by itself, as a stack of open ones has it. */
function ownTimes(events, window) {
  const own = new Map(),
    open = new Map();
  for (const e of [...events].sort((a, b) => a.start - b.start || b.end - a.end)) {
    const stack = open.get(e.key) ?? [];
    open.set(e.key, stack);
    while (stack.length && stack[stack.length - 1].end < e.end) stack.pop();
    e.self = clip(e, window);
    if (stack.length) stack[stack.length - 1].self -= e.self;
    stack.push(e);
  }
  for (const e of events)
    if (e.start < window[1] && (e.end > window[0] || (e.start === e.end && e.start >= window[0])))
      own.set(e.name, (own.get(e.name) ?? 0) + e.self);
  return own;
}

/**
 * [name, own time] in order of names; without names that JSON writes in another way, and without
 * the range that never ended, which is shown to the end of the collection.
 */
const inOrder = (pairs) =>
  pairs.filter(([name]) => /^[\w ]{1,200}$/.test(name) && name !== "left open").sort();

/** Push/pop ranges and marks of a report. */
const ranges = (file) =>
  query(
    "SELECT start, coalesce(end, start) AS end, globalTid || ' ' || domainId AS key, " +
      "coalesce(text, (SELECT value FROM StringIds WHERE id = textId), '') AS name " +
      "FROM NVTX_EVENTS WHERE eventType IN (34, 59)",
    file,
  );

test("ranges have time of their own, in statistics and details", async () => {
  const file = make("self.wsrep", makeReport);
  const t = await open(await serve(file));
  const ask = (path, p) =>
    t.eval(([a, q]) => window.warpsight.app.source.json(a, { r: 0, ...q }), [path, p]);
  const lanes = await t.eval(() =>
    [...window.warpsight.app.rows.byLane.values()]
      .filter((r) => r.type === "nvtx" && !r.loose)
      .map((r) => r.lane)
      .join(","),
  );
  const all = ranges(file);
  for (const window of [
    [-1e9, 1e12],
    [1200000, 2345678],
  ]) {
    const [t0, t1] = window,
      truth = ownTimes(all, window),
      said = (await ask("sum", { lanes, t0, t1 })).groups;
    ok(truth.size > 5, `names: ${truth.size}`);
    equal(
      inOrder(said.map((g) => [g.name, g.self])),
      inOrder([...truth]),
      `own times in ${window}`,
    );
    ok(
      said.some((g) => g.self < g.total * 0.5),
      "some have little",
    );
  }
  const sorted = (await ask("sum", { kind: "nvtx", sort: "self", limit: 1000 })).groups;
  equal(
    sorted.map((g) => g.self),
    sorted.map((g) => g.self).sort((a, b) => b - a),
    "sorted",
  );
  equal((await ask("sum", { kind: "kernels" })).groups[0].self, undefined, "kernels do not nest");

  /* The column, sorted by; and one range's details. */
  await t.page.click("[data-tab=statistics]");
  await t.page.locator(".statistics .actions button", { hasText: /^NVTX \d/ }).click();
  await t.page.locator(".statistics th button", { hasText: "Self" }).click();
  const top = sorted[0];
  await until("the largest first", async () =>
    (await t.page.locator(".statistics tbody tr").first().innerText()).includes(top.name),
  );
  const parent = all.find((e) => e.name === "forward");
  ownTimes(all, [-1e9, 1e12]);
  const chosen = (await ask("events", { q: "forward", exact: 1, limit: 1000 })).events.find(
    (e) => e.start === parent.start,
  );
  const detail = await ask("event", {
    lane: chosen.lane,
    level: chosen.level,
    event: chosen.event,
  });
  equal(detail.self, parent.self, "of one");
  await t.eval((e) => window.warpsight.app.select(0, e, true), chosen);
  await t.page.click("[data-tab=details]");
  await until("in the details", async () =>
    (await t.text(".details dl")).replace(/[^\w\n.(]/g, "").includes(`(${parent.self}ns`),
  );
  await t.end();

  /* A file without a server says the same. */
  const alone = join(folder, "self.html");
  const made = spawnSync(warpsight, ["export", "-t", "html", "--output", alone, file]);
  equal(made.status, 0, String(made.stderr));
  const carried = await open({ url: `file://${alone}` });
  const said = await carried.eval(
    (l) => window.warpsight.app.source.json("sum", { r: 0, lanes: l, limit: 1000 }),
    lanes,
  );
  equal(
    inOrder(said.groups.map((g) => [g.name, g.self])),
    inOrder([...ownTimes(all, [-1e9, 1e12])]),
    "in an exported page",
  );
  await carried.end();
});

/** Count, least, median, p90, p99, most of durations, and how many are in each bucket. */
function spreadOf(all, buckets) {
  const sorted = [...all].sort((a, b) => a - b),
    n = sorted.length,
    nearest = (percent) => sorted[Math.ceil((n * percent) / 100) - 1];
  return {
    count: n,
    total: sorted.reduce((sum, d) => sum + d, 0),
    min: sorted[0],
    max: sorted[n - 1],
    median: (sorted[(n - 1) >> 1] + sorted[n >> 1]) / 2,
    p90: nearest(90),
    p99: nearest(99),
    counts: buckets.map(([from, to]) => sorted.filter((d) => d >= from && d < to).length),
  };
}

test("how the durations of a name are spread", async () => {
  const file = make("spread.wsrep", makeReport);
  const t = await open(await serve(file));
  const ask = (path, p) =>
    t.eval(([a, q]) => window.warpsight.app.source.json(a, { r: 0, ...q }), [path, p]);
  const rows = query(
    "SELECT s.value AS name, end - start AS ns FROM CUPTI_ACTIVITY_KIND_RUNTIME r " +
      "JOIN StringIds s ON s.id = r.nameId WHERE end IS NOT NULL",
    file,
  );
  const names = [...new Set(rows.map((r) => r.name))];
  ok(names.length > 2, `names of calls: ${names}`);
  const lanes = await t.eval(() =>
    [...window.warpsight.app.rows.byLane.values()]
      .filter((r) => r.type === "cuda_api")
      .map((r) => r.lane)
      .join(","),
  );
  let wide = 0;
  for (const name of names) {
    const d = await ask("durations", { lanes, q: name, exact: 1 }),
      { buckets, without, ...figures } = d;
    equal(
      { ...figures, counts: buckets.map(([, , n]) => n) },
      spreadOf(
        rows.filter((r) => r.name === name).map((r) => r.ns),
        buckets,
      ),
      name,
    );
    equal(without, 0, "without");
    ok(
      buckets.every(([, to], i) => i + 1 === buckets.length || buckets[i + 1][0] === to),
      "buckets adjoin",
    );
    wide = Math.max(wide, buckets.filter(([, , n]) => n).length);
  }
  ok(wide > 1, `bars: ${wide}`);
  const marks = await ask("durations", { q: "a mark", exact: 1 });
  equal([marks.count, marks.buckets], [0, []], "moments have none");
  ok(marks.without > 0, "but are counted");
  equal(
    (await ask("durations", { q: "left open", exact: 1 })).count,
    0,
    "nor has what never ended",
  );

  /* From statistics; a click on a bar shows its events alone, another all again. */
  await t.page.click("[data-tab=statistics]");
  await t.page.locator(".statistics .actions button", { hasText: /^CUDA API \d/ }).click();
  await t.page.locator(".statistics tbody tr button.spread").first().click();
  await until("the figures", async () => /Median/.test(await t.text(".histogram")));
  const bar = t.page.locator(".histogram .bars button:enabled").last(),
    says = await bar.getAttribute("aria-label"),
    many = Number(/: (\d+) event/.exec(says)[1]);
  await bar.click();
  await until("the events of the bar", async () =>
    (await t.text(".events .actions")).includes(`${many} event`),
  );
  equal(await t.page.locator(".events tbody tr").count(), many, "rows");
  equal(await bar.getAttribute("aria-pressed"), "true", "pressed");
  await t.page.locator(".histogram .bars button.on").click();
  await until("all events", async () => (await t.page.locator(".events tbody tr").count()) > many);
  /* And from the details of one. */
  await t.page.locator(".events tbody tr").first().click();
  await t.page.click(".events .spread");
  equal(await t.page.locator(".histogram").isHidden(), true, "put away");
  await t.page.click("[data-tab=details]");
  await t.page.locator(".details button", { hasText: "Durations" }).click();
  await until("the figures again", async () => /Median/.test(await t.text(".histogram")));
  if (process.env.WS_SHOTS)
    await t.page.screenshot({ path: join(process.env.WS_SHOTS, "durations.png") });
  await t.end();
});

async function openExported(file, name) {
  const alone = join(folder, name),
    made = spawnSync(warpsight, ["export", "-t", "html", "--output", alone, file]);
  equal(made.status, 0, String(made.stderr));
  return open({ url: `file://${alone}` });
}

/** An answer, or the sentence that there is instead. Columns are in no order. */
async function answerOf(page, path, question) {
  const answer = await page.eval(
    ([what, params]) =>
      window.warpsight.app.source.json(what, { r: 0, ...params }).catch((e) => ({ no: e.message })),
    [path, question],
  );
  delete answer.unread;
  answer.columns?.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const event of answer.events ?? []) event.name = event.name.slice(0, 100);
  return answer;
}

test("columns of tables in the table of events: shown, sorted by, filtered by", async () => {
  const file = make("columns.wsrep", makeReport);
  const t = await open(await serve(file));
  const ask = (path, p) =>
    t.eval(([a, q]) => window.warpsight.app.source.json(a, { r: 0, ...q }), [path, p]);
  const rows = query(
    "SELECT k.start, k.end - k.start AS ns, gridX AS grid, k.streamId AS stream, s.value AS name, " +
      "CAST(gridId AS TEXT) AS grid_id, globalPid >> 24 & 0xffffff AS pid " +
      "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName",
    file,
  );
  const lanes = await t.eval(() =>
    [...window.warpsight.app.rows.byLane.values()]
      .filter((r) => r.type === "kernels")
      .map((r) => r.lane)
      .join(","),
  );
  const values = (answer) => answer.events.map((e) => Number(e.values[0].value));
  for (const down of [0, 1]) {
    const got = await ask("events", {
      lanes,
      column: "grid_x",
      columns: "grid_x",
      down,
      limit: 1000,
    });
    equal(got.count, rows.length, "all");
    equal(
      values(got),
      rows.map((r) => r.grid).sort((a, b) => (down ? b - a : a - b)),
      `sorted, down ${down}`,
    );
  }
  ok(new Set(rows.map((r) => r.grid)).size > 1, "grids differ");
  const byText = await ask("events", { lanes, column: "name", columns: "name", limit: 1000 }),
    texts = byText.events.map((e) => e.values[0].text);
  equal(texts, [...texts].sort(), "sorted by a text");
  /* Numbers of 61 bits, of which doubles are the same. */
  const exact = rows.map((r) => BigInt(r.grid_id)).sort((a, b) => (a < b ? -1 : Number(a > b))),
    far = exact[exact.length >> 1];
  ok(new Set(exact.map(Number)).size * 4 < new Set(exact).size, "doubles are equal");
  for (const down of [0, 1]) {
    const question = { lanes, column: "grid_id", columns: "grid_id", down, limit: 1000 },
      got = (await ask("events", question)).events.map((e) => e.values[0].value);
    equal(got, (down ? [...exact].reverse() : exact).map(String), `exactly, down ${down}`);
  }
  const middle = rows.map((r) => r.grid).sort((a, b) => a - b)[rows.length >> 2],
    some = rows.find((r) => r.name.length > 3).name.slice(0, 4),
    byStart = (all) =>
      all.map((r) => [r.start, r.duration ?? r.ns]).sort(([a, b], [c, d]) => a - c || b - d);
  for (const [where, holds] of [
    [`grid_x > ${middle}`, (r) => r.grid > middle],
    [`grid_x<=${middle} and stream = 7`, (r) => r.grid <= middle && r.stream === 7],
    ["stream != 7", (r) => r.stream !== 7],
    ["duration >= 0.03 ms", (r) => r.ns >= 30000],
    ["duration < 30us and duration > 8 us", (r) => r.ns < 30000 && r.ns > 8000],
    [`name ~ '${some}'`, (r) => r.name.includes(some)],
    [`grid_id > ${far}`, (r) => BigInt(r.grid_id) > far],
    ["process ~ python and grid_x > 1", (r) => r.pid !== 300 && r.grid > 1],
    ["process = 200", (r) => r.pid === 200],
    ["process >= 'python3'", (r) => r.pid !== 300],
  ]) {
    const got = await ask("events", { lanes, where, columns: "grid_x", limit: 1000 }),
      right = rows.filter(holds);
    equal(got.count, right.length, where);
    equal(
      values(got).sort((a, b) => a - b),
      right.map((r) => r.grid).sort((a, b) => a - b),
      where,
    );
    equal((await ask("durations", { lanes, where })).count, right.length, `durations: ${where}`);
    equal(byStart(query((await ask("sql", { lanes, where })).sql, file)), byStart(right), where);
  }
  const bar = (await ask("durations", { lanes })).buckets.find(([, , n]) => n > 1 && n < 50),
    chosen = { lanes, at_least: bar[0], below: bar[1] };
  equal(query((await ask("sql", chosen)).sql, file).length, bar[2], "the SQL of a bar");
  const marks = { at_least: 0, below: 1, q: "a mark", exact: 1 };
  equal(query((await ask("sql", marks)).sql, file), [], "moments have no duration in SQL either");
  for (const [wrong, says] of [
    ["grid_x >", "a filter is"],
    ["no_such > 3", "no events have a column no_such"],
    ["grid_x > 3 or stream = 7", "quoted"],
    ["grid_x > 3 and", "a filter is"],
    ["grid_x = 'open", "a filter is"],
    ["grid_x = 'seven'", "the column grid_x has numbers, and 'seven' is none"],
    ["grid_x = seven", "the column grid_x has numbers, and 'seven' is none"],
    ["grid_x > nan", "'nan' is none"],
    ["grid_x > 0x", "'0x' is none"],
    ["duration < long", "the column duration has numbers"],
    ["grid_x ~ 5", "~ looks for a part of a text"],
  ]) {
    const answer = await ask("events", { lanes, where: wrong }).then(
      (a) => `${a.count}`,
      (e) => e.message,
    );
    ok(answer.includes(says), `${wrong}: ${answer}`);
  }

  /* In the page. */
  await t.eval(
    (list) =>
      window.warpsight.panels.showEvents(
        list.split(",").map((l) => ({ report: 0, lane: Number(l) })),
      ),
    lanes,
  );
  await t.page.locator(".chooser summary").click();
  await t.page.locator('.chooser [data-column="grid_x"]').check();
  await t.page.locator(".chooser summary").click();
  await t.page.locator(".events th button", { hasText: /^grid_x/ }).click();
  const least = Math.min(...rows.map((r) => r.grid));
  await until(
    "sorted by the column",
    async () =>
      (await t.page.locator(".events tbody tr").first().locator("td").nth(3).innerText()) ===
      String(least),
  );
  await t.page.fill(".events .where", `grid_x > ${middle}`);
  const many = rows.filter((r) => r.grid > middle).length;
  await until("filtered", async () => (await t.text(".events .actions")).includes(`${many} event`));
  if (process.env.WS_SHOTS)
    await t.page.screenshot({ path: join(process.env.WS_SHOTS, "columns.png") });

  /* A file without a server says the same. */
  const carried = await openExported(file, "columns.html"),
    same = async (what, path, question) => {
      const [there, here] = [
        await answerOf(carried, path, question),
        await answerOf(t, path, question),
      ];
      for (const [i, event] of (here.events ?? []).entries())
        equal(there.events[i], event, `${what}, event ${i}`);
      for (const [i, column] of (here.columns ?? []).entries())
        equal(there.columns[i], column, `${what}, column ${i}`);
      equal(there, here, what);
    };
  for (const [what, question] of Object.entries({
    "sorted exactly": { column: "grid_id", columns: "grid_id", down: 1 },
    "sorted by a text": { column: "name", columns: "name,stream" },
    "a column of some tables only": { column: "bytes", columns: "bytes,kind,grid_x", lanes: null },
    "a filter": { where: `grid_id > ${far} and process ~ python`, columns: "process,start" },
    "a size": { where: "bytes >= 100 KB", columns: "bytes", lanes: null },
    "a bar": { at_least: bar[0], below: bar[1], sort: "duration" },
    everything: { lanes: null, columns: "thread,correlation,end" },
    "a text that is no number": { where: "grid_x = seven" },
    "a part of a number": { where: "grid_x ~ 7" },
    "no such column": { columns: "no_such" },
    "no condition": { where: "grid_x > 3 and" },
  })) {
    const asked = { lanes, limit: 1000, ...question };
    if (asked.lanes === null) delete asked.lanes;
    await same(what, "events", asked);
    if (!question.columns) await same(what, "durations", asked);
  }
  await same("all durations", "durations", {});
  await carried.page.click("[data-tab=statistics]");
  await carried.page.locator(".statistics tbody tr button.spread").first().click();
  await until("the figures", async () => /Median/.test(await carried.text(".histogram")));
  await carried.page.locator(".chooser summary").click();
  await carried.page.locator('.chooser [data-column="grid_x"]').check();
  await carried.page.fill(".events .where", `grid_x > ${middle}`);
  await until("filtered there", async () =>
    (await carried.text(".events .actions")).includes("events"),
  );
  equal(await carried.page.locator(".events .sql").count(), 0, "no SQL without a server");
  if (process.env.WS_SHOTS)
    await carried.page.screenshot({ path: join(process.env.WS_SHOTS, "columns-html.png") });
  await carried.end();
  await t.end();
});

await runAll();
