/**
 * names.mjs - statistics of reports with thousands of names: nothing is left out of totals, shares
 * and copies. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  equal,
  folder,
  near,
  ok,
  open,
  runAll,
  serve,
  test,
  until,
  warpsight,
} from "./harness.mjs";

/** Three letters for a number. */
const letters = (i) =>
  [676, 26, 1].map((by) => String.fromCharCode(97 + (Math.floor(i / by) % 26))).join("");

/** A trace of operators by [name, duration in ns], one after the other. */
function makeTrace(name, operators) {
  let ts = 1000;
  const traceEvents = operators.map(([op, ns]) => {
    ts += ns / 1000 + 1;
    return { ph: "X", cat: "cpu_op", name: op, pid: 1, tid: 1, ts: ts - ns / 1000, dur: ns / 1000 };
  });
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify({ schemaVersion: 1, traceEvents }));
  return file;
}

function query(sql, file) {
  const r = spawnSync(warpsight, ["query", "-f", "json", sql, file], { maxBuffer: 1 << 28 });
  if (r.status !== 0) throw new Error(`${r.stderr}\n${sql}`);
  return JSON.parse(r.stdout);
}

const MANY = 3000;

test("statistics cover all names of a kind, and offer those that are not shown", async () => {
  const file = makeTrace(
    "many.json",
    [...Array(MANY).keys()].map((i) => [`op ${letters((i * 7919) % MANY)}`, 10000 + i * 40]),
  );
  const s = await serve(file);
  const t = await open(s, { permissions: ["clipboard-read", "clipboard-write"] });
  const sql = query(
    "SELECT s.value AS name, count(*) AS count, sum(e.end - e.start) AS total_ns, " +
      "min(e.end - e.start) AS min_ns, max(e.end - e.start) AS max_ns " +
      "FROM WARPSIGHT_OP e JOIN StringIds s ON s.id = e.nameId GROUP BY 1",
    file,
  );
  equal(sql.length, MANY, "names by SQL");
  const total = sql.reduce((n, g) => n + g.total_ns, 0);

  const ask = (p) => t.eval((q) => window.warpsight.app.source.json("sum", { r: 0, ...q }), p);
  const kind = (await ask({})).kinds.find((k) => k.kind === "op");
  equal(kind, { kind: "op", names: MANY, count: MANY, total }, "all names together");
  const parts = [];
  for (let offset = 0; offset < MANY; offset += 700)
    parts.push(...(await ask({ kind: "op", offset, limit: 700, sort: "min", down: 0 })).groups);
  equal(
    parts.map((g) => [g.name, g.count, g.total, g.min, g.max]),
    sql
      .sort((a, b) => a.min_ns - b.min_ns)
      .map((g) => [g.name, g.count, g.total_ns, g.min_ns, g.max_ns]),
    "page by page, in order",
  );

  await t.page.click("[data-tab=statistics]");
  const rows = () =>
    t.page.$$eval(".statistics tbody tr", (all) =>
      all.map((r) => [...r.cells].map((c) => c.textContent)),
    );
  await until("names", async () => (await rows()).length === 200);
  const rest = async () => (await t.text(".statistics .rest span")).replace(/\s/g, " ");
  equal(await rest(), "200 of 3 000 names", "what is shown");
  const most = Math.max(...sql.map((g) => g.total_ns));
  near(parseFloat((await rows())[0][0]), (most / total) * 100, 0.006, "share of the first");
  await t.page.click(".statistics th:nth-child(5) button");
  const least = sql.reduce((a, b) => (a.min_ns < b.min_ns ? a : b));
  await until("the least of all first", async () => (await rows())[0]?.at(-1) === least.name);
  await t.page.click(".statistics .rest button");
  await until("a thousand more", async () => (await rows()).length === 1200);
  await until("how many", async () => (await rest()) === "1 200 of 3 000 names");

  await t.eval(() => navigator.clipboard.writeText(""));
  await t.page.locator(".statistics button", { hasText: "Copy as CSV" }).click();
  const csv = await until("a copy", () => t.eval(() => navigator.clipboard.readText()));
  const lines = csv.trim().split("\n").slice(1);
  equal(lines.length, MANY, "lines of the copy");
  equal(
    lines.reduce((n, l) => n + Number(l.split(",")[3]), 0),
    total,
    "their total",
  );
  for (const q of ["sort=x", "kind=x", "limit=-1", "offset=-1", "down=2"])
    ok((await fetch(`${s.url}api/sum?${q}`)).status === 400, q);
  await t.end();
});

test("names that differ only in numbers are one, and exact names one click below", async () => {
  const file = makeTrace("numbers.json", [
    ...[...Array(150).keys()].map((i) => [`aten::to, op_id = ${i * 7}`, 10000 + i]),
    ...[...Array(40).keys()].map((i) => [`conv2d_${i % 20}`, 5000]),
  ]);
  const s = await serve(file);
  const t = await open(s);
  const ask = (path, p) =>
    t.eval(([a, q]) => window.warpsight.app.source.json(a, { r: 0, ...q }), [path, p]);
  const folded = await ask("sum", { fold: 1 });
  equal([folded.folds, folded.groups.length, folded.kinds[0].names], [1, 21, 21], "with a form");
  const form = folded.groups[0];
  equal(
    [form.name, form.names, form.count, form.total],
    ["aten::to, op_id = #", 150, 150, 150 * 10000 + (150 * 149) / 2],
    "the form",
  );
  const exact = (await ask("sum", { form: form.form, limit: 1000 })).groups;
  equal(
    exact.map((g) => g.name).sort(),
    [...Array(150).keys()].map((i) => `aten::to, op_id = ${i * 7}`).sort(),
    "its names",
  );
  equal((await ask("sum", {})).groups.length, 170, "without");
  equal((await ask("events", { form: form.form })).count, 150, "its events");

  /* The table: the form, its names below, its events; and the switch, which lasts. */
  await t.page.click("[data-tab=statistics]");
  const rows = () => t.page.$$eval(".statistics tbody tr", (all) => all.length);
  const first = t.page.locator(".statistics tbody tr bdi").first();
  await until("forms", async () => (await rows()) === 21);
  equal(await first.innerText(), "aten::to, op_id = #", "the first");
  await t.page.locator(".statistics button.open").click();
  await until("its names", async () => (await rows()) === 171);
  await t.page.locator(".statistics button.open").click();
  await until("the form alone", async () => (await rows()) === 21);
  await first.click(); // the name: the row's figures have buttons among them
  await until("its events", async () =>
    (await t.text(".events .actions")).trim().startsWith("150 events"),
  );
  await t.page.click("[data-tab=statistics]");
  await t.page.click(".statistics .folding");
  await until("each name", async () => (await rows()) === 170);
  await t.page.reload();
  await t.settled();
  await t.page.click("[data-tab=statistics]");
  await until("each name still", async () => (await rows()) === 170);
  await t.page.click(".statistics .folding");
  await until("forms again", async () => (await rows()) === 21);

  /* One colour, whatever the number. */
  const colors = await t.eval(async () => {
    const { app } = window.warpsight,
      row = [...app.rows.byLane.values()].find((r) => r.type === "op"),
      bytes = await app.source.tiles({ r: 0, k: 9, i: 0, n: 1, lanes: `${row.lane}.1` }),
      u8 = new Uint8Array(bytes),
      u32 = new Uint32Array(bytes),
      head = 5 + u32[4] + 4 + u32[5 + u32[4] + 3],
      out = [];
    for (let i = 0; i < u32[head - 1]; i++) out.push(u8[(head + i * 6) * 4 + 20]);
    return out;
  });
  ok(colors.length > 20 && new Set(colors).size === 1, `colours ${colors}`);
  await t.end();

  /* A file without a server has the same. */
  const alone = join(folder, "numbers.html");
  const made = spawnSync(warpsight, ["export", "-t", "html", "--output", alone, file]);
  equal(made.status, 0, String(made.stderr));
  const carried = await open({ url: `file://${alone}` });
  await carried.page.click("[data-tab=statistics]");
  await until(
    "forms in the exported page",
    async () => (await carried.page.locator(".statistics tbody tr").count()) === 21,
  );
  await carried.end();
});

await runAll();
