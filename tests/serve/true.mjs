/**
 * true.mjs - is what the time line draws what the report has? For each kind of row, random windows
 * and zooms: the events under given pixels, how busy they are, and which pixels tiles paint,
 * against a plain look at every row of the tables, which `warpsight query` prints. `true.mjs
 * WARPSIGHT MAKE_REPORT`; TAP. No browser.
 *
 * What a lane is made of is said here a second time, in SQL; times by arithmetic that is as plain
 * as it can be.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [warpsight, makeReport] = process.argv.slice(2, 4).map((p) => resolve(p));
const folder = mkdtempSync(join(tmpdir(), "warpsight-true-")),
  file = join(folder, "true.wsrep");
if (spawnSync(makeReport, [file, "20"]).status !== 0) throw new Error("no report");

let seed = 88172645;
const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff;

function query(sql) {
  const r = spawnSync(warpsight, ["query", "-f", "json", sql, file], { maxBuffer: 1 << 28 });
  if (r.status !== 0) throw new Error(`${r.stderr}\n${sql}`);
  return JSON.parse(r.stdout);
}

/* ---- what there is ---- */

const thread = (t) => `globalTid = ${t}`;
/**
 * By type of row: its rows as SQL (start, stop, name; stop null: never ended), given what the tree
 * says of it.
 */
const GPU_TABLES = [
  ["CUPTI_ACTIVITY_KIND_KERNEL", "(SELECT value FROM StringIds WHERE id = shortName)"],
  ["CUPTI_ACTIVITY_KIND_MEMCPY", "copyKind"],
  ["CUPTI_ACTIVITY_KIND_MEMSET", "'Memset'"],
];
const select = (table, name, where, stop = '"end"') =>
  `SELECT start, ${stop} AS stop, ${name} AS name FROM ${table} WHERE ${where}`;
const named = "(SELECT value FROM StringIds WHERE id = nameId)";
const TRUTH = {
  nvtx: (r) =>
    select(
      "NVTX_EVENTS",
      "text",
      `${thread(r.thread)} AND eventType IN (59, 34) AND domainId = ${r.domain}`,
      `CASE WHEN eventType = 34 THEN start ELSE "end" END`,
    ),
  osrt: (r) => select("OSRT_API", named, thread(r.thread)),
  cuda_api: (r) => select("CUPTI_ACTIVITY_KIND_RUNTIME", named, thread(r.thread)),
  op: (r) =>
    select("WARPSIGHT_OP", named, `${thread(r.thread)} AND kind ${r.python ? "=" : "<>"} 3`),
  slice: (r) =>
    select(
      "WARPSIGHT_SLICE",
      named,
      `${thread(r.thread)} AND trackId = 0 AND ${r.label ? `(SELECT value FROM StringIds WHERE id = categoryId) = '${r.label}'` : "ifnull((SELECT value FROM StringIds WHERE id = categoryId), '') NOT LIKE '%EVENTS'"}`,
    ),
  gil: (r) => select("WARPSIGHT_GIL", "state", thread(r.thread)),
  sample: (r) => select("COMPOSITE_EVENTS", "''", thread(r.thread), "start"),
  python: (r) => select("WARPSIGHT_PYTHON_SAMPLE", "''", thread(r.thread), "start"),
  kernels: (r) => select(...GPU_TABLES[0], `globalPid = ${r.process} AND deviceId = ${r.device}`),
  memory: (r) =>
    GPU_TABLES.slice(1)
      .map(([t, n]) => select(t, n, `globalPid = ${r.process} AND deviceId = ${r.device}`))
      .join(" UNION ALL "),
  stream: (r) =>
    GPU_TABLES.map(([t, n]) =>
      select(
        t,
        n,
        `globalPid = ${r.process} AND deviceId = ${r.device} AND contextId = ${r.context} AND streamId = ${r.stream}`,
      ),
    ).join(" UNION ALL "),
  sync: (r) =>
    select(
      "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
      "syncType",
      `globalPid = ${r.process} AND deviceId = ${r.device}`,
    ),
  um: (r) =>
    select(
      "CUDA_UM_GPU_PAGE_FAULT_EVENTS",
      "faultAccessType",
      `globalPid = ${r.process} AND deviceId = ${r.device}`,
    ),
  collective: (r) =>
    select(
      "WARPSIGHT_COLLECTIVE",
      "(SELECT value FROM StringIds WHERE id = labelId)",
      `globalPid = ${r.process} AND deviceId = ${r.device}`,
    ),
  cpu: (r) => select("WARPSIGHT_SCHED", "''", `cpu = ${r.label}`),
  ftrace: (r) => select("FTRACE_EVENTS", named, `cpu = ${r.label}`, "start"),
  track: (r) =>
    select(
      "WARPSIGHT_SLICE",
      named,
      `trackId = (SELECT id FROM WARPSIGHT_TRACK WHERE nameId = (SELECT min(id) FROM StringIds WHERE value = '${r.label.replace(/'/g, "''")}'))`,
    ),
  diagnostic: () =>
    `SELECT timestamp AS start, timestamp AS stop, text AS name FROM DIAGNOSTIC_EVENT`,
  cuda_other: (r) =>
    `${select("CUPTI_ACTIVITY_KIND_OVERHEAD", named, thread(r.thread))} UNION ALL ${select("WARPSIGHT_CUDA_JIT", "operationType", thread(r.thread))} UNION ALL ${select("WARPSIGHT_CUDA_MODULE", "operationType", thread(r.thread), "start")}`,
};

/**
 * Ranges as GPUs saw them: of each range the work launched by calls inside of it, by running
 * through all of both.
 */
function projected(r) {
  const ranges = query(
    `SELECT start, "end" AS stop, text AS name FROM NVTX_EVENTS WHERE ${thread(r.thread)} AND eventType = 59 AND domainId = ${r.domain} AND "end" IS NOT NULL`,
  );
  const calls = query(
    `SELECT start, "end" AS stop, correlationId AS id FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE ${thread(r.thread)}`,
  );
  const work = GPU_TABLES.flatMap(([t]) =>
    query(
      `SELECT start, "end" AS stop, correlationId AS id FROM ${t} WHERE globalPid = ${r.process} AND deviceId = ${r.device}`,
    ),
  );
  const caused = new Map(calls.map((c) => [c.id, work.filter((w) => w.id === c.id)]));
  return ranges.flatMap((x) => {
    const mine = calls
      .filter((c) => c.start >= x.start && c.stop <= x.stop)
      .flatMap((c) => caused.get(c.id));
    return mine.length
      ? [
          {
            start: Math.min(...mine.map((w) => w.start)),
            stop: Math.max(...mine.map((w) => w.stop)),
            name: x.name,
          },
        ]
      : [];
  });
}

/**
 * What a thread did, by running through all of its spans and calls: on a core, ready for one,
 * waiting and in which call. Where nothing of its spans is known, the outermost calls that wait.
 */
function states(r, last) {
  const all = (sql) => query(sql).map((e) => ({ ...e, stop: e.stop ?? Infinity }));
  const spans = all(
      `SELECT start, "end" AS stop, wokenTime AS woken, endState AS after FROM WARPSIGHT_SCHED WHERE ${thread(r.thread)} ORDER BY start`,
    ),
    gil = all(
      `SELECT start, "end" AS stop, 'Waits for the GIL' AS name FROM WARPSIGHT_GIL WHERE ${thread(r.thread)} AND state = 3`,
    ),
    cuda = all(select("CUPTI_ACTIVITY_KIND_RUNTIME", named, thread(r.thread))),
    osrt = all(select("OSRT_API", named, thread(r.thread))),
    found = all(select("WARPSIGHT_BLOCKED", named, thread(r.thread))),
    polls = cuda.filter((c) => /Synchronize/.test(c.name)).sort((a, b) => a.start - b.start),
    out = [];
  const emit = (start, stop, name, kind) => stop > start && out.push({ start, stop, name, kind });
  const inner = (calls, t) =>
    calls
      .filter((c) => c.start <= t && c.stop > t)
      .sort((a, b) => b.start - a.start || a.stop - b.stop)[0];
  if (!spans.length) {
    let done = -Infinity;
    const calls = [...gil, ...polls, ...osrt].sort((a, b) => a.start - b.start || b.stop - a.stop);
    for (const c of calls) {
      emit(Math.max(c.start, done), Math.min(c.stop, last), c.name, "waits");
      done = Math.max(done, c.stop);
    }
    return out;
  }
  const waits = (start, stop, woken, after) => {
    const ready =
        after === 1 ? start : woken === null || woken > stop || woken < start ? stop : woken,
      mid = start + Math.floor((ready - start) / 2),
      call =
        inner(gil, mid) ??
        inner(cuda, mid) ??
        inner(osrt, mid) ??
        found
          .filter((f) => f.start >= start && f.stop <= ready)
          .sort((a, b) => a.start - b.start)[0];
    emit(start, ready, call?.name ?? (after === 3 ? "In the kernel" : "Waits"), "waits");
    emit(ready, stop, after === 1 ? "Preempted" : "Ready to run", "ready");
  };
  const runs = (start, stop) => {
    for (let at = start; at < stop; ) {
      const call = polls.find((c) => c.stop > at),
        to = Math.min(stop, !call ? stop : call.start > at ? call.start : call.stop);
      emit(at, to, call && call.start <= at ? call.name : "On a core", "runs");
      at = to;
    }
  };
  let off = 0;
  spans.forEach((s, i) => {
    const next = spans[i + 1]?.start ?? last,
      from = Math.max(s.start, off),
      till = Math.max(from, Math.min(s.stop, next));
    if (i && off < from) waits(off, from, s.woken, spans[i - 1].after);
    runs(from, till);
    off = till;
    if (i + 1 === spans.length && off < last && s.stop !== Infinity && s.after !== 5)
      waits(off, last, null, s.after);
  });
  return out;
}

/** enum ws_state_class by what the state is, and by the calls that the report has. */
const WAIT_COLORS = {
  pthread_mutex_lock: 3,
  sem_wait: 3,
  futex: 3,
  pthread_cond_wait: 4,
  read: 5,
  write: 5,
  "Waits for the GIL": 7,
  "In the kernel": 9,
  Waits: 10,
};
function stateColor(e) {
  if (e.kind !== "waits") return e.kind === "ready" ? 2 : e.name === "On a core" ? 0 : 1;
  return WAIT_COLORS[e.name] ?? (/^cuda/.test(e.name) ? 6 : NaN);
}

/**
 * Each state has its colour; of several at once the height is the share on a core, and the colour
 * that of one that was not.
 */
async function checkStates(row, truth, last) {
  const { events } = await json("at", {
    lane: row.lane,
    level: 0,
    t0: -1,
    t1: last + 1,
    limit: 1000,
  });
  const says = (e) => `${e.start} ${e.stop ?? e.end} ${e.name}`;
  if (events.map(says).join() !== truth.map(says).join())
    throw new Error(`states ${events.map(says).find((x, i) => x !== says(truth[i]))}`);
  for (const [i, e] of events.entries()) {
    const d = await json("event", { lane: row.lane, level: 0, event: e.event }),
      c = Object.fromEntries(d.columns.map((x) => [x.name, x]));
    const kind = { "on a core": "runs", "ready to run": "ready", waits: "waits" }[c.state.text];
    if (kind !== truth[i].kind || (c.function.text ?? e.name) !== e.name)
      throw new Error(`details of ${says(e)}: ${c.state.text} in ${c.function.text}`);
  }
  for (let k = 0; k < 18; k++) {
    const px = 2 ** k,
      i = Math.floor((random() * last) / px / 1024),
      t0 = i * 1024 * px;
    for (const x of (await tile(row.lane, 1, k, i))[0] ?? []) {
      const under = truth.filter((e) => touches(e, t0 + x.x0 * px, t0 + x.x1 * px)),
        ran = under.filter((e) => e.kind === "runs").reduce((n, e) => n + e.stop - e.start, 0);
      const colors = new Set(
        (x.flags & 16
          ? under.filter((e) => e.kind !== "runs" || under.every((o) => o.kind === "runs"))
          : under
        ).map(stateColor),
      );
      if (under.length !== x.count || !colors.has(x.color))
        throw new Error(
          `${x.count} states of colour ${x.color} at ${x.x0} of tile ${i} of scale ${k}, want ${under.length} of ${[...colors]}`,
        );
      if (x.flags & 16 && x.busy !== Math.min(255, Math.floor((ran * 255) / px)))
        throw new Error(
          `${x.busy} on a core at ${x.x0} of tile ${i} of scale ${k}, want ${(ran * 255) / px}`,
        );
    }
  }
}

/* ---- what is drawn ---- */

const server = spawn(warpsight, ["view", "--no-open", file]);
const url = await new Promise((done) =>
  server.stdout.once("data", (d) => done(String(d).split("\n")[0])),
);
const ask = async (path, p = {}) => fetch(`${url}api/${path}?${new URLSearchParams(p)}`);
const json = async (path, p) => (await ask(path, p)).json();

/** Rectangles of one tile of a lane, by level. */
async function tile(lane, levels, k, i, names = []) {
  const bytes = await (
      await ask("tiles", { lanes: `${lane}.${levels}${names.map((n) => `~${n}`).join("")}`, k, i })
    ).arrayBuffer(),
    u = new Uint32Array(bytes, 0, bytes.byteLength >> 2),
    f = new Float32Array(bytes, 0, bytes.byteLength >> 2);
  let at = 5 + u[4];
  if (u[at + 2]) throw new Error("a tile is pending");
  const n = [...u.slice(at + 4, at + 4 + u[at + 3])];
  at += 4 + n.length;
  return n.map((m) =>
    Array.from({ length: m }, () => ({
      x0: f[at],
      x1: f[at + 1],
      high: f[at + 2],
      low: f[at + 3],
      last: f[at + 4],
      count: u[at + 3],
      flags: (u[at + 5] >> 16) & 255,
      color: u[at + 5] & 255,
      busy: (u[at + 5] >> 8) & 255,
      next: (at += 6),
    })),
  );
}

const touches = (e, a, b) => e.start < b && (e.stop > a || (e.stop === e.start && e.start >= a));
const key = (e) => `${e.start} ${e.stop ?? e.end}`;
function same(got, want, what) {
  const a = got.map(key).sort(),
    b = want.map(key).sort();
  if (a.join() !== b.join())
    throw new Error(
      `${what}: ${a.length} events, want ${b.length}; ${a.find((x, i) => x !== b[i])} instead of ${b.find((x, i) => x !== a[i])}`,
    );
}

async function checkEvents(row, truth, last) {
  for (let turn = 0; turn < 25; turn++) {
    const span = 10 ** (1 + random() * 6),
      a = Math.floor(random() * last * 1.1 - last * 0.05),
      b = a + Math.ceil(span);
    const got = [];
    for (let level = 0; level < row.levels; level++) {
      const r = await json("at", { lane: row.lane, level, t0: a, t1: b, limit: 1000 });
      if (r.count !== r.events.length && r.count <= 1000) throw new Error("not all events came");
      got.push(...r.events);
    }
    same(
      got,
      truth.filter((e) => touches(e, a, b)),
      `under ${a}..${b}`,
    );
  }
}

/** Which pixels all levels together paint, and how many events they say there are. */
async function checkTiles(row, truth, last, names = []) {
  for (let turn = 0; turn < 20; turn++) {
    const k = Math.floor(random() * 15),
      px = 2 ** k,
      i = Math.floor((random() * last) / px / 1024),
      t0 = i * 1024 * px;
    const painted = new Set(),
      want = new Set();
    let said = 0;
    for (const level of await tile(row.lane, row.levels, k, i, names))
      for (const r of level) {
        said += r.count;
        const to = r.x1 === Math.floor(r.x1) && r.x1 > r.x0 ? r.x1 - 1 : Math.floor(r.x1);
        for (let p = Math.max(0, Math.floor(r.x0)); p <= to && p < 1024; p++) painted.add(p);
      }
    const there = truth.filter((e) => touches(e, t0, t0 + 1024 * px));
    for (const e of there) {
      const to =
        e.stop > e.start ? Math.ceil((e.stop - t0) / px) - 1 : Math.floor((e.start - t0) / px);
      for (let p = Math.max(0, Math.floor((e.start - t0) / px)); p <= to && p < 1024; p++)
        want.add(p);
    }
    if (said !== there.length)
      throw new Error(`tile ${i} of scale ${k}: it says ${said} events, there are ${there.length}`);
    const wrong = [...painted]
      .filter((p) => !want.has(p))
      .concat([...want].filter((p) => !painted.has(p)));
    if (wrong.length)
      throw new Error(
        `tile ${i} of scale ${k}: pixel ${wrong[0]} is ${painted.has(wrong[0]) ? "painted, and nothing is there" : "empty, and something is there"}`,
      );
  }
}

async function checkBusy(row, truth, last) {
  for (let turn = 0; turn < 10; turn++) {
    const a = Math.floor(random() * last),
      b = a + 1 + Math.floor(random() * (last - a));
    let want = 0,
      end = a;
    for (const e of [...truth].sort((x, y) => x.start - y.start)) {
      const from = Math.max(end, e.start),
        to = Math.min(b, e.stop);
      if (to > from) want += to - from;
      end = Math.max(end, Math.min(b, e.stop));
    }
    const got = (await json("sum", { lanes: row.lane, t0: a, t1: b, names: 0 })).lanes[0][1];
    if (got !== want) throw new Error(`busy in ${a}..${b}: ${got}, want ${want}`);
  }
}

/** A counter's pixels have the highest and the lowest of its values in them, and the last. */
async function checkCounter(row, values, last) {
  if (
    row.low !== Math.min(...values.map((v) => v.value)) ||
    row.high !== Math.max(...values.map((v) => v.value))
  )
    throw new Error("the row's extremes");
  for (let turn = 0; turn < 30; turn++) {
    const k = Math.floor(random() * 15),
      px = 2 ** k,
      i = Math.floor((random() * last) / px / 1024),
      t0 = i * 1024 * px;
    const drawn = [];
    for (const r of (await tile(row.lane, 1, k, i))[0] ?? [])
      for (let p = Math.max(0, Math.floor(r.x0)); p < Math.min(1024, r.x1); p++) drawn[p] = r;
    for (let p = 0; p < 1024; p += 1 + Math.floor(random() * 40)) {
      const inside = values.filter((v) => v.start >= t0 + p * px && v.start < t0 + (p + 1) * px),
        before = values.filter((v) => v.start < t0 + p * px).at(-1),
        got = drawn[p];
      if ((!inside.length && !before) || t0 + p * px > last) continue;
      if (!got) throw new Error(`tile ${i} of scale ${k}: no value at pixel ${p}`);
      const v = inside.length ? inside : [before];
      const want = [
        Math.max(...v.map((x) => x.value)),
        Math.min(...v.map((x) => x.value)),
        v.at(-1).value,
      ].map(Math.fround);
      /* Values of the pixel's own beginning may be drawn from within it on. */
      if (inside.length && Math.floor(got.x0) !== p) continue;
      if ([got.high, got.low, got.last].some((x, n) => x !== want[n]))
        throw new Error(
          `tile ${i} of scale ${k}, pixel ${p}: ${[got.high, got.low, got.last]}, want ${want}`,
        );
    }
  }
}

/* ---- running ---- */

while (!(await json("progress")).all) await new Promise((f) => setTimeout(f, 20));
const { rows } = await json("tree"),
  byId = new Map(rows.map((r) => [r.id, r])),
  last = (await json("session")).reports[0].last;
const pids = Object.fromEntries(
  query("SELECT DISTINCT pid, globalPid FROM PROCESSES").map((r) => [r.pid, r.globalPid]),
);
const domains = query(
  "SELECT DISTINCT globalTid, domainId, text FROM NVTX_EVENTS WHERE eventType = 75",
);
const up = (r, type) => (!r || r.type === type ? r : up(byId.get(r.parent), type));
const kinds = new Map();
for (const r of rows.filter((x) => x.lane !== undefined && x.type !== "output")) {
  const process = up(r, "process") ?? up(r, "gpu"),
    tid = up(r, "thread")?.tid ?? r.tid;
  r.process = pids[process?.pid];
  r.thread = tid === undefined ? undefined : r.process + tid;
  r.device = up(r, "gpu")?.device;
  r.domain ??=
    ["nvtx", "projected"].includes(r.type) && r.label
      ? (domains.find(
          (d) =>
            d.text === r.label &&
            Math.floor(d.globalTid / 2 ** 24) === Math.floor(r.process / 2 ** 24),
        )?.domainId ?? 0)
      : 0;
  if (!kinds.has(r.type)) kinds.set(r.type, []);
  kinds.get(r.type).push(r);
}
console.log(`1..${kinds.size + 1}`);
let number = 0,
  failed = 0;
async function tap(name, f) {
  number++;
  try {
    console.log(`ok ${number} - ${name}${(await f()) ?? ""}`);
  } catch (e) {
    failed++;
    console.log(`not ok ${number} - ${name}\n${String(e.stack).replace(/^/gm, "# ")}`);
  }
}
for (const [type, list] of kinds)
  await tap(`${type}: events, pixels and how busy are those of the tables`, async () => {
    let n = 0;
    for (const row of list) {
      if (type === "counter" || type === "gpu_bytes") {
        const group = byId.get(row.parent)?.label;
        const values =
          type === "counter"
            ? query(
                `SELECT start, value FROM WARPSIGHT_COUNTER_VALUE WHERE counterId = (SELECT c.id FROM WARPSIGHT_COUNTER c WHERE (SELECT value FROM StringIds WHERE id = c.nameId) = '${row.label.replace(/'/g, "''")}' AND (SELECT value FROM StringIds WHERE id = c.groupId) = '${group.replace(/'/g, "''")}')`,
              )
            : query(
                `SELECT start, bytesInUse AS value FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE globalPid = ${row.process} AND deviceId = ${row.device}`,
              );
        if (!values.length) throw new Error(`no values of ${row.label}`);
        values.sort((a, b) => a.start - b.start);
        await checkCounter(row, values, last);
        n += values.length;
        continue;
      }
      const truth = (
        type === "projected"
          ? projected(row)
          : type === "state"
            ? states(row, last)
            : query(TRUTH[type](row))
      ).map((e) => ({ ...e, stop: e.stop === null ? Math.max(e.start, last) : e.stop }));
      if (truth.length !== row.count || !truth.length)
        throw new Error(`row ${row.id} of ${row.count} events, ${truth.length} in the tables`);
      await checkEvents(row, truth, last);
      await checkTiles(row, truth, last);
      await checkBusy(row, type === "state" ? truth.filter((e) => e.kind === "runs") : truth, last);
      if (type === "state") await checkStates(row, truth, last);
      if (type === "kernels")
        for (const name of new Set(truth.map((e) => e.name))) {
          const { ids } = await json("names", { q: name });
          await checkTiles(
            row,
            truth.filter((e) => e.name === name),
            last,
            ids,
          );
        }
      n += truth.length;
    }
    return ` (${list.length} rows, ${n} events)`;
  });
await tap("every kind of row is there", async () => {
  const want = [...Object.keys(TRUTH), "state", "projected", "counter", "gpu_bytes"].filter(
    (k) => !kinds.has(k),
  );
  if (want.length) throw new Error(`no rows of kind ${want}`);
});
server.kill("SIGTERM");
rmSync(folder, { recursive: true, force: true });
process.exitCode = failed ? 1 : 0;
