/**
 * query.mjs - SQL on the page: what it finds, how it is limited and stopped, and how its rows lead
 * to events. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import http from "node:http";
import { readFileSync } from "node:fs";
import {
  equal,
  first,
  get,
  make,
  makeReport,
  ok,
  open,
  runAll,
  serve,
  sleep,
  test,
  until,
  warpsight,
} from "./harness.mjs";

const ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";

const cells = (t) =>
  t.page.$$eval(".query tbody tr", (all) => all.map((r) => [...r.cells].map((c) => c.textContent)));
const says = (t) => t.text(".query .says");

async function ask(t, sql) {
  await t.page.fill(".query textarea", sql);
  await t.page.press(".query textarea", "Control+Enter");
  return until("an answer", async () => {
    const said = await says(t); // the answer may come between the two reads
    return said !== "Reading…" && (await t.page.locator(".query .ask").count()) && said;
  });
}

test("what is typed finds what the command finds, with types, and is copied whole", async () => {
  const file = make("query.wsrep", makeReport, "20");
  const t = await open(await serve(file), { permissions: ["clipboard-read", "clipboard-write"] });
  await t.page.click("[data-tab=sql]");
  const sql = `SELECT s.value AS kernel, count(*) AS n, avg(k.end - k.start) AS mean, NULL AS none,
    1.0 AS one, 9007199254740993 AS large, ',"' || char(10) || '=1+1' AS odd
    FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName
    GROUP BY 1 ORDER BY 2 DESC, 1`;
  await ask(t, sql);
  const command = spawnSync(warpsight, ["query", "-f", "json", sql, file]);
  const found = JSON.parse(String(command.stdout)).map((r) => Object.values(r));
  const shown = await cells(t);
  ok(found.length > 3, `several kernels: ${command.stderr}`);
  equal(shown.length, found.length, "rows");
  shown.forEach((row, i) => {
    equal([row[0], Number(row[1])], [found[i][0], Number(found[i][1])], "kernel and number");
    ok(Math.abs(Number(row[2]) - Number(found[i][2])) < 1, `mean ${row[2]}: ${found[i][2]}`);
    equal(row.slice(3, 6), ["NULL", "1.0", "9007199254740993"], "nothing, a real, a large one");
  });
  equal(
    await t.page.$$eval(".query .type", (all) => all.map((e) => e.textContent)),
    ["text", "integer", "real", "null", "real", "integer", "text"],
    "types",
  );
  await t.page.locator(".query button", { hasText: "Copy as CSV" }).click();
  const csv = await until("a copy", () => t.eval(() => navigator.clipboard.readText()));
  ok(csv.startsWith("kernel,n,mean,none,one,large,odd\n"), csv.slice(0, 60));
  equal(csv.trim().split("\n").length, found.length + 1, "lines");
  ok(csv.split("\n")[1].startsWith(`${found[0][0]},${found[0][1]},`), csv.split("\n")[1]);

  /* Each statement has its table; what is wrong is said, and the page goes on. */
  await ask(t, "SELECT 1 AS a; SELECT 2 AS b, 3 AS c");
  equal(await cells(t), [["1"], ["2", "3"]], "two statements");
  for (const [wrong, sentence] of [
    ["SELECT missing FROM StringIds", "no such column: missing"],
    ["SELEC 1", 'near "SELEC": syntax error'],
    ["DELETE FROM StringIds", "may not be modified"],
    ["ATTACH '/tmp/x' AS x", "a report can only be read"],
    ["SELECT load_extension('x')", "not authorized"],
  ]) {
    const said = await ask(t, wrong);
    ok(said.includes(sentence), `${wrong}: ${said}`);
    equal((await cells(t)).length, 0, "nothing of the answer before");
  }
  equal(await t.page.locator("[role=alert]:visible").count(), 0, "nothing on top");
  ok((await ask(t, "-- nothing")).includes("no result"), "a comment");

  /* What was typed is there the next time; every example can be asked. */
  await ask(t, "SELECT 42 AS answer");
  await t.page.reload();
  await t.settled();
  await t.page.click("[data-tab=sql]");
  equal(await t.page.inputValue(".query textarea"), "SELECT 42 AS answer", "kept");
  const examples = await t.page.$$eval(".query .examples option", (all) => all.map((o) => o.value));
  ok(examples.length > 40, `examples and tables: ${examples.length}`);
  for (const value of examples.slice(1, 8)) {
    await t.page.selectOption(".query .examples", value);
    await t.page.press(".query textarea", "Control+Enter");
    await until("rows", async () => /\d row/.test(await says(t)) && (await cells(t)).length > 0);
    await t.page.fill(".query textarea", "");
    await ask(t, "-- nothing");
  }
  await t.end();
});

test("queries have limits of rows and time, and end when they are stopped or nobody waits", async () => {
  const s = await serve(make("limits.wsrep", makeReport));
  const t = await open(s);
  await t.page.click("[data-tab=sql]");
  const full = await ask(t, `${ENDLESS} SELECT i FROM n`);
  ok(/^The first 10\s000 rows; there are more/.test(full), full);
  equal((await cells(t)).length, 500, "not all at once");
  await t.page.locator(".query button", { hasText: "More" }).click();
  equal((await cells(t)).length, 2500, "more of them");

  await t.page.fill(".query textarea", `${ENDLESS} SELECT count(*) FROM n`);
  await t.page.press(".query textarea", "Control+Enter");
  await t.page.locator(".query .stop").click();
  await until("that it stopped", async () => (await says(t)) === "Stopped.");
  ok((await ask(t, "SELECT 7")).startsWith("1 row"), "the next one");

  const limited = async (q) => JSON.parse((await get(`${s.url}api/query?${q}`)).body);
  const endless = `sql=${encodeURIComponent(`${ENDLESS} SELECT count(*) FROM n`)}`;
  equal(
    await limited(`timeout=1&${endless}`),
    { error: "SQL: stopped, because the query took longer than 1 s" },
    "time",
  );
  const two = await limited("limit=2&sql=SELECT+id+FROM+StringIds");
  equal([two.results[0].rows.length, two.full], [2, 1], "rows");
  const exactly = await limited("limit=2&sql=VALUES(1),(2)");
  equal([exactly.results[0].rows.length, exactly.full], [2, 0], "as many as there are");
  const large = await limited("sql=SELECT+zeroblob(30000000)");
  equal([large.results[0].rows.length, large.full], [0, 1], "bytes");
  for (const q of ["", "sql=SELECT+1&limit=0", "sql=SELECT+1&timeout=x", "sql=SELECT+1&r=1"])
    equal((await get(`${s.url}api/query?${q}`)).status, 400, q);

  /* Processor time of the server stands still once those who asked have gone. */
  const used = () => {
    const fields = readFileSync(`/proc/${s.process.pid}/stat`, "utf8").split(") ")[1].split(" ");
    return Number(fields[11]) + Number(fields[12]);
  };
  const before = used();
  const asked = http.get(`${s.url}api/query?timeout=600&${endless}`);
  asked.on("error", () => undefined);
  await until("work", () => used() > before + 5);
  asked.destroy();
  await t.end();
  await until("an end", async () => {
    const then = used();
    await sleep(300);
    return used() <= then + 1;
  });
});

test("a start in a result leads to its event", async () => {
  const t = await open(await first());
  await t.page.click("[data-tab=sql]");
  await ask(
    t,
    "SELECT k.start, k.end, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s " +
      "ON s.id = k.shortName ORDER BY k.start LIMIT 20",
  );
  const row = (await cells(t))[12];
  await t.page.locator(".query tbody tr").nth(12).locator("button").click();
  const chosen = await until("an event", () => t.selected());
  equal([chosen.start, chosen.end, chosen.name], [Number(row[0]), Number(row[1]), row[2]], "it");
  ok((await cells(t)).length === 20, "the table stays");
  const [t0, t1] = await t.view();
  ok(t0 <= chosen.start && chosen.end <= t1, "in sight");

  /* Where no event begins the stretch is selected. */
  await ask(t, "SELECT 1234567 AS start, 2345678 AS end");
  await t.page.locator(".query tbody button").click();
  await until("a stretch", () =>
    t.eval(() => String(window.warpsight.app.range) === "1234567,2345678"),
  );
  await t.end();
});

await runAll();
