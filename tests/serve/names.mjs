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
  await until("the least of all first", async () => (await rows())[0]?.[6] === least.name);
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

await runAll();
