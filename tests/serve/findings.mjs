/**
 * findings.mjs - what `warpsight analyze` finds as a panel: entries that lead to places and to SQL,
 * by keyboard, in links, in both languages; the critical path as a line and as tables that add up;
 * the same in an exported page. See harness.mjs.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import {
  equal,
  first,
  folder,
  get,
  make,
  makeReport,
  near,
  ok,
  open,
  runAll,
  serve,
  test,
  until,
  warpsight,
  withPage,
} from "./harness.mjs";

/** What the command says of a report. */
function analyze(file) {
  const r = spawnSync(warpsight, ["analyze", "-f", "json", file], { maxBuffer: 1 << 26 });
  if (r.status !== 0) throw new Error(String(r.stderr));
  return JSON.parse(r.stdout)[0];
}

const entries = (t) =>
  t.page.$$eval(".finding", (all) =>
    all.map((e) => ({
      id: e.dataset.id,
      level: ["critical", "warning", "note", "ok"].find((l) => e.classList.contains(l)),
      title: e.querySelector(".head bdi").textContent,
      open: e.querySelector(".opens").getAttribute("aria-expanded") === "true",
    })),
  );
const entry = (t, id) => t.page.locator(`.finding[data-id="${id}"]`);
const shownTab = (t) => t.page.locator("[role=tab][aria-selected=true]").getAttribute("data-tab");
const selection = (t) => t.eval(() => window.warpsight.app.range);

test("findings: there at first, lead to the place and to SQL, by keyboard, in links", async () => {
  const file = make("found.wsrep", makeReport),
    said = analyze(file),
    s = await serve(file),
    t = await open(s);

  /* What the command says, in its order; the first is open, and how many there are is on the tab. */
  await t.page.click("[data-tab=findings]");
  const shown = await entries(t);
  equal(
    shown.map((e) => [e.id, e.level, e.title]),
    said.findings.filter((f) => f.severity !== "ok").map((f) => [f.id, f.severity, f.title]),
    "findings",
  );
  equal(
    shown.map((e) => e.open),
    shown.map((_, i) => i === 0),
    "the first is open",
  );
  const faults = said.findings.filter((f) => ["warning", "critical"].includes(f.severity));
  equal(
    await t.text("[data-tab=findings]"),
    faults.length ? `Findings (${faults.length})` : "Findings",
    "the tab",
  );
  ok((await entry(t, shown[0].id).innerText()).includes(said.findings[0].advice), "its advice");
  ok((await entry(t, shown[0].id).innerText()).includes(said.findings[0].assumption), "assumption");

  /* By keyboard to an entry with evidence, which opens. */
  const placed = said.findings.filter((f) => f.severity !== "ok" && f.evidence[0]?.end),
    proved = placed.find((f) => f.evidence[0].query) ?? placed[0],
    [evidence] = proved.evidence;
  await t.page.locator(".finding .head .opens").first().focus();
  await until("the entry to have the focus", async () => {
    const at = await t.eval(
      () => document.activeElement.closest(".finding")?.dataset.id ?? "elsewhere",
    );
    if (at !== proved.id) await t.page.keyboard.press("ArrowDown");
    return at === proved.id;
  });
  const isOpen = async () => (await entries(t)).find((e) => e.id === proved.id).open;
  if (await isOpen()) {
    await t.page.keyboard.press("Enter");
    equal(await isOpen(), false, "Enter closes");
  }
  await t.page.keyboard.press("Enter");
  equal(await isOpen(), true, "Enter opens");

  /* To the place: the stretch is selected, and the event of its row, both in sight. */
  await entry(t, proved.id).locator(".evidence .goto").first().click();
  await until("the stretch", async () => (await selection(t)) !== null);
  equal(await selection(t), [evidence.start, evidence.end], "the stretch of the evidence");
  const event = await until("an event", () => t.selected());
  ok(event.start < evidence.end && event.end > evidence.start, "the event is there");
  const [t0, t1] = await t.view();
  ok(t0 < evidence.start && t1 > evidence.end, "it is in sight");
  equal(await shownTab(t), "findings", "the panel stays");

  /* What has no evidence of its own leads to the step of median length. */
  const general = said.findings.find((f) => f.severity !== "ok" && !f.evidence.some((e) => e.end)),
    steps = await t.eval(
      async () => (await window.warpsight.app.source.json("findings", { r: 0 })).steps,
    ),
    lengths = said.steps.durations_ns.sort((a, b) => a - b);
  equal(
    steps.typical[1] - steps.typical[0],
    lengths[Math.floor(lengths.length / 2)],
    "the median of all steps",
  );
  if (general) {
    await entry(t, general.id).locator(".goto").click();
    await until(
      "the step",
      async () => JSON.stringify(await selection(t)) === JSON.stringify(steps.typical),
    );
    equal((await until("its range", () => t.selected())).start, steps.typical[0], "its range");
  }
  await entry(t, proved.id).locator(".evidence .goto").first().click();
  await until("back", async () => (await selection(t))[0] === evidence.start);

  /* What its rule looks for. */
  await entry(t, proved.id).locator(".folded .opens").click();
  const explained = String(
    spawnSync(warpsight, ["analyze", "--explain", proved.rule]).stdout,
  ).split("\n\n")[1];
  ok(
    (await entry(t, proved.id).locator(".about").innerText()).includes(explained.trim()),
    "the explanation",
  );

  /* A link has which entries are open. */
  const state = JSON.stringify((await entries(t)).map((e) => e.open));
  const link = await t.link();
  ok(link.includes("f="), `a link: ${link}`);
  const other = await open({ url: link });
  await until(
    "the same open",
    async () => JSON.stringify((await entries(other)).map((e) => e.open)) === state,
  );
  equal(await selection(other), [evidence.start, evidence.end], "the stretch of the link");
  await other.end();

  /* The query that proves it has rows. */
  await entry(t, proved.id).locator(".proof").first().click();
  equal(await shownTab(t), "sql", "SQL");
  await until("rows", async () => (await t.page.locator(".query tbody tr").count()) > 0);
  const query = await t.page.inputValue(".query textarea");
  ok(evidence.query ? query === evidence.query : /SELECT/.test(query), `the query: ${query}`);

  /* In the other language the page's words change, and what rules say does not. */
  await t.page.click("[data-tab=findings]");
  await t.page.locator("header button", { hasText: "中文" }).click();
  await until("Chinese", async () => (await t.text("[data-tab=findings]")).startsWith("发现"));
  equal((await entries(t))[0].title, shown[0].title, "the title");
  ok(/警告|严重|提示/.test(await t.text(".finding .level >> nth=0")), "the level");
  await t.end();
});

test("findings: shown at first where one is above a note, and nothing else was asked for", async () => {
  const s = await first();
  for (const [level, hash, tab, badge] of [
    ["critical", "", "findings", "Findings (1)"],
    ["warning", "", "findings", "Findings (1)"],
    ["note", "", "statistics", "Findings"],
    ["critical", "#v=2&p=events", "events", "Findings (1)"],
  ]) {
    const t = await open(s);
    await t.page.route("**/api/findings?*", async (route) => {
      const answer = await (await route.fetch()).json(),
        findings = answer.findings.map((f, i) => ({ ...f, level: i ? "note" : level }));
      await route.fulfill({ json: { ...answer, findings } });
    });
    await t.page.goto("about:blank");
    await t.page.goto(s.url + hash);
    await t.settled();
    await until(`${tab} of ${level} ${hash}`, async () => (await shownTab(t)) === tab);
    equal(await t.text("[data-tab=findings]"), badge, "the tab");
    await t.end();
  }
});

test("findings: of large reports and recordings when someone asks; again when they have grown; cancelled", async () => {
  const s = await first();
  equal((await get(`${s.url}api/findings?again=2`)).status, 400, "a wrong flag");
  for (const what of ["large", "live"]) {
    const t = await open(s, { search: "#v=2&p=statistics" });
    let asked = [];
    let hold = null;
    await t.page.route("**/api/findings?*", async (route) => {
      const how = new URL(route.request().url()).searchParams;
      asked.push([...how.keys()].filter((key) => key !== "r").join());
      if (how.has("unasked")) return route.fulfill({ json: { state: what } });
      if (hold) await hold;
      const answer = await (await route.fetch()).json().catch(() => null);
      if (answer) await route.fulfill({ json: { ...answer, as_of: 1000 } }).catch(() => undefined);
    });
    await t.page.reload();
    await t.settled();
    equal(asked, ["unasked"], "nobody has asked yet");
    equal(await shownTab(t), "statistics", "what the link says stays");
    await t.page.click("[data-tab=findings]");
    equal((await entries(t)).length, 0, "nothing is looked for");

    /* Given up: nothing comes, and it can be asked for again. */
    let release;
    hold = new Promise((f) => (release = f));
    await t.page.click(".findings .says button");
    await t.page.locator(".findings .says button", { hasText: "Cancel" }).click();
    await until("no more asking", () => t.eval(() => !window.warpsight.panels.findings.isAsking()));
    release();
    hold = null;
    equal((await entries(t)).length, 0, "it was cancelled");
    await t.page.click(".findings .says button");
    await until("findings", async () => (await entries(t)).length > 0);
    await until("as of when", async () => /As of/.test(await t.text(".findings .says")));
    asked = [];
    await t.page.click(".findings .says button");
    await until("asked again", async () => asked.includes("again"));
    await until("an answer", () => t.eval(() => !window.warpsight.panels.findings.isAsking()));
    await t.end();
  }
});

/** How many pixels of the rows have the colour of the path. */
const pathPixels = (t) =>
  t.eval(() => {
    const { timeline, app } = window.warpsight,
      [r, g, b] = app.theme.path.match(/[0-9a-f]{2}/g).map((x) => parseInt(x, 16)),
      canvas = timeline.c.canvas,
      { data } = timeline.c.getImageData(0, 0, canvas.width, canvas.height);
    timeline.draw();
    let n = 0;
    for (let i = 0; i < data.length; i += 4)
      n += data[i] === r && data[i + 1] === g && data[i + 2] === b;
    return n;
  });
const tables = (t) =>
  t.page.$$eval(".spent", (all) =>
    all.map((e) => ({
      title: e.caption.textContent,
      lines: [...e.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent)),
      total: [...e.tFoot.rows[0].cells].map((c) => c.textContent),
    })),
  );
const percent = (text) => (text.startsWith("<") ? 0 : Number(text.replace(" %", "")));

withPage("the critical path is drawn, says what bounds it, and adds up", async (t) => {
  const ask = (params) =>
    t.eval((p) => window.warpsight.app.source.json("path", p), { r: 0, ...params });
  const whole = await ask({ times: 1 }),
    [from, to] = whole.window;

  /* Pieces touch each other and cover what was analysed; so do all tables of any stretch. */
  equal([whole.pieces[0][0], whole.pieces[whole.pieces.length - 1][1]], [from, to], "its ends");
  for (let i = 1; i < whole.pieces.length; i++)
    equal(whole.pieces[i][0], whole.pieces[i - 1][1], `piece ${i} touches the one before`);
  const add = (list) => list.reduce((n, [, ns]) => n + ns, 0);
  for (const [t0, t1] of [
    [from, to],
    [from - 1e6, from + 3e6],
    [from + 1234567, from + 2345678],
    [to - 5e5, to + 5e5],
  ]) {
    const { spent } = await ask({ t0, t1, times: 1 }),
      length = Math.min(t1, to) - Math.max(t0, from);
    equal(spent.total, length, "the stretch");
    equal(add(spent.by_cause), length, "causes add up");
    equal(
      spent.rows.reduce((n, row) => n + row.ns, spent.rest),
      length,
      "rows add up",
    );
    ok(spent.gpus.length > 0, "GPUs");
    for (const gpu of spent.gpus)
      equal(
        gpu.compute + gpu.communicate + gpu.copy + add(gpu.idle),
        length,
        `${gpu.name} adds up`,
      );
  }
  const joined = await ask({ least: Math.round((to - from) / 20) });
  ok(joined.pieces.length <= 60, `short ones are joined: ${joined.pieces.length}`);

  /* Drawn by its key, and no longer. */
  equal(await pathPixels(t), 0, "not at first");
  await t.page.keyboard.press("c");
  await until("the line", async () => (await pathPixels(t)) > 100);
  const link = await t.link();
  ok(/path=1/.test(link), `a link: ${link}`);
  const other = await open({ url: link });
  await until("the link has it", async () => (await pathPixels(other)) > 100);
  await other.end();

  /* Under the pointer: what bounds it then, where the line is. */
  const long = whole.pieces
    .filter(([, , , lane]) => lane >= 0)
    .reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
  await t.set(long[0] - 1e5, long[1] + 1e5);
  const place = await t.eval(
    ([lane, time]) => {
      const { app, timeline } = window.warpsight,
        row = app.laneRow(0, lane);
      app.revealEvent(0, { lane, level: 0, start: time, end: time + 1, event: 0 });
      const box = timeline.area.getBoundingClientRect(),
        band = timeline.bandOf(0, { lane, level: 0 });
      return row && band && { x: box.left + app.view.x(time), y: box.top + band.y + band.h / 2 };
    },
    [long[3], (long[0] + long[1]) / 2],
  );
  ok(place, "its row is in sight");
  await t.settled();
  await until("the words", async () => {
    await t.page.mouse.move(place.x, place.y);
    await t.page.mouse.move(place.x + 1, place.y);
    return /Critical path: /.test(await t.text(".tip").catch(() => ""));
  });
  await t.page.keyboard.press("c");
  await until("gone", async () => (await pathPixels(t)) === 0);

  /* Tables of what is in sight, and of a stretch that is selected. */
  await t.eval(() => window.warpsight.app.view.fit());
  await t.page.click("[data-tab=critical]");
  const shown = await until("tables", async () => {
    const all = await tables(t);
    return all.length === 2 + whole.spent.gpus.length && all;
  });
  const text = (ns) => `${(ns / 1e6).toFixed(3)} ms`;
  for (const table of shown) {
    equal(table.total.slice(0, 2), ["100 %", text(to - from)], table.title);
    near(
      table.lines.reduce((n, line) => n + percent(line[0]), 0),
      100,
      0.05 * table.lines.length,
      `${table.title}: shares`,
    );
  }
  await t.eval((range) => window.warpsight.app.setRange(range), [from + 1e6, from + 2e6]);
  await until("the stretch", async () =>
    (await tables(t)).every((table) => table.total[1] === "1.000 ms"),
  );

  /* Lines of code beyond the first are one, until someone wants them. */
  await t.eval(() => window.warpsight.app.setRange(null));
  const code = async () => (await tables(t)).at(-1).lines;
  await until("all of it", async () => (await tables(t)).at(-1).total[1] === text(to - from));
  const few = (await code()).length;
  equal((await code()).at(-1)[2], "everything else", "the rest");
  await t.page.locator(".spent").last().locator("tbody tr:last-child button").click();
  await until("more lines", async () => (await code()).length > few);
  near(
    (await code()).reduce((n, line) => n + percent(line[0]), 0),
    100,
    0.05 * (await code()).length,
    "shares of all lines",
  );

  /* A line of code leads to its longest piece. */
  await t.page.locator(".spent th button").first().click();
  await until("another stretch", async () => {
    const range = await selection(t);
    return range && range[1] - range[0] < 1e6;
  });

  /* Where there is no path the page says where there is. */
  await t.eval((range) => window.warpsight.app.setRange(range), [to + 1e6, to + 2e6]);
  await t.page.locator(".path .goto").click();
  await until("the window", async () => (await t.view())[0] === from);
});

test("findings and the critical path in an exported page", async () => {
  const file = make("carried.wsrep", makeReport),
    html = join(folder, "carried.html"),
    made = spawnSync(warpsight, ["export", "-t", "html", "-o", html, file]);
  equal(made.status, 0, String(made.stderr));
  const t = await open({ url: `file://${html}` }),
    said = analyze(file);
  await t.page.click("[data-tab=findings]");
  equal(
    (await entries(t)).map((e) => e.id),
    said.findings.filter((f) => f.severity !== "ok").map((f) => f.id),
    "findings",
  );
  equal(await t.page.locator(".proof").count(), 0, "it has no SQL");
  const proved = said.findings.find((f) => f.severity !== "ok" && f.evidence[0]?.end);
  await entry(t, proved.id).locator(".goto").first().click();
  await until("the stretch", async () => (await selection(t)) !== null);
  ok(await until("its event", () => t.selected()), "an event");
  await t.page.keyboard.press("c");
  await until("the line", async () => (await pathPixels(t)) > 100);
  await t.page.click("[data-tab=critical]");
  await until("tables of the stretch", async () => (await tables(t)).length === 2);
  await t.eval(() => (window.warpsight.app.setRange(null), window.warpsight.app.view.fit()));
  await until("tables of all", async () => (await tables(t)).length > 2);
  for (const table of await tables(t)) equal(table.total[0], "100 %", table.title);
  await t.end();
});

await runAll();
