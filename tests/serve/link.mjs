/**
 * link.mjs - how often the page waits for the server: what a link with a long way back and forth
 * costs. See harness.mjs.
 *
 * Between page and server stands a proxy that lets nothing through until no more requests come,
 * then all at once: each time is a round trip, whatever the machine's speed. Nothing here measures
 * time.
 */
import http from "node:http";
import {
  browser,
  cudaBench,
  equal,
  make,
  makeReport,
  ok,
  Page,
  runAll,
  serve,
  sleep,
  test,
  until,
} from "./harness.mjs";

/** Rounds are counted while it is open; `hold` keeps all back until `release`. */
async function link(server) {
  const to = new URL(server.url);
  const state = { rounds: 0, asked: [], waiting: [], hold: false, last: 0 };
  const proxy = http.createServer((q, a) => {
    state.last = performance.now();
    state.waiting.push(() => {
      state.asked.push(q.url.replace(to.pathname, ""));
      const r = http.request(
        { host: to.hostname, port: to.port, path: q.url, method: q.method, headers: q.headers },
        (b) => {
          const parts = [];
          b.on("data", (d) => parts.push(d));
          b.on("end", () => {
            a.writeHead(b.statusCode, b.headers);
            a.end(Buffer.concat(parts));
          });
        },
      );
      r.on("error", () => a.destroy());
      q.pipe(r);
    });
  });
  await new Promise((f) => proxy.listen(0, "127.0.0.1", f));
  /* Once nothing new has come for a while, what the page does without answers is done. */
  const timer = setInterval(() => {
    if (state.hold || !state.waiting.length || performance.now() - state.last < 150) return;
    const now = state.waiting;
    state.waiting = [];
    /* Questions whether there is news are no part of what is counted. */
    state.rounds++;
    for (const go of now) go();
  }, 10);
  return {
    url: `http://127.0.0.1:${proxy.address().port}${to.pathname}`,
    state,
    end: () => (clearInterval(timer), proxy.closeAllConnections(), proxy.close()),
  };
}

async function openOver(l) {
  const context = await browser.newContext({
    viewport: { width: 1400, height: 900 },
    locale: "en-GB",
  });
  const page = await context.newPage();
  await page.goto(l.url);
  return new Page(page, context, []);
}

/** Every row in sight has its tiles at the scale of the view. */
const sharp = (t) =>
  t.eval(() => {
    const { app, timeline } = window.warpsight ?? {};
    if (!app?.rows?.visible.length) return false;
    const k = timeline.scaleOf(),
      span = 1024 * 2 ** k,
      rows = timeline.inSight().filter((r) => r.lane !== undefined);
    return (
      rows.length > 0 &&
      rows.every((r) => {
        for (let i = Math.floor(app.view.t0 / span); i * span < app.view.t1; i++)
          if (!app.cache.getTile(r.report, r.lane, k, i)) return false;
        return true;
      })
    );
  });

/**
 * The fewest round trips of three tries. A machine that is late can part what the page asks for at
 * once, and can let it ask ahead before it is seen to be sharp: both make more of them. Nothing
 * makes fewer than the page needs, for what depends on an answer is asked after it.
 */
async function fewest(most, what, measure) {
  const seen = [];
  for (let i = 0; i < 3 && !seen.some((n) => n <= most); i++) seen.push(await measure());
  ok(Math.min(...seen) <= most, `${what}: ${seen.join(", ")} round trips`);
}

/** Round trips, those counted `before` left out, until every row in sight is sharp. */
async function roundsUntilSharp(l, t, what, before) {
  let rounds = 0;
  l.state.hold = false;
  await until(what, async () => {
    rounds = l.state.rounds - before; // before looking: rounds that begin meanwhile do not count
    return sharp(t);
  });
  return rounds;
}

test("first view: the page, its files, the session with its rows, the tiles: four round trips", async () => {
  const s = await serve(make("over.wsrep", makeReport));
  await fewest(4, "first view", async () => {
    const l = await link(s);
    const t = await openOver(l);
    const rounds = await roundsUntilSharp(l, t, "the first view", 0);
    console.log(
      `# first view after ${rounds} round trips: ${l.state.asked.map((x) => x.slice(0, 30)).join(" ")}`,
    );
    await t.context.close();
    l.end();
    return rounds;
  });
});

test("each pan and zoom: a picture at once, and the sharp one after one round trip", async () => {
  const s = await serve(make("over10.wsrep", cudaBench, "same", "300000"));
  const moves = {
    "zoom in": [0.4, 0.6],
    "zoom far in": [0.5, 0.500001],
    "far away": [0.1, 0.1001],
    pan: [0.10005, 0.10015],
    "all of it": [0, 1],
  };
  const least = new Map();
  await fewest(1, "the worst of all moves", async () => {
    const l = await link(s);
    const t = await openOver(l);
    await t.settled();
    for (const [what, [a, b]] of Object.entries(moves)) {
      l.state.hold = true;
      await sleep(200); // what was on its way has arrived
      const seen = await t.eval(
        ([x, y]) => {
          const { app, timeline } = window.warpsight,
            w = app.view.last - app.view.first;
          app.view.set(app.view.first + w * x, app.view.first + w * y);
          return new Promise((f) =>
            requestAnimationFrame(() =>
              requestAnimationFrame(() => {
                const rows = timeline.inSight().filter((r) => r.lane !== undefined && r.ready);
                const drawn = (r) => {
                  const offset = app.offsets[r.report],
                    [from, to] = [app.view.t0 - offset, app.view.t1 - offset];
                  let any = false;
                  timeline.eachTile(r.report, r.lane, 0, from, to, { see: () => (any = true) });
                  return any;
                };
                f({ rows: rows.length, drawn: rows.filter(drawn).length });
              }),
            ),
          );
        },
        [a, b],
      );
      ok(seen.rows > 2, `rows in sight: ${seen.rows}`);
      equal(seen.drawn, seen.rows, `${what}: rows with a picture before any answer`);
      const rounds = await roundsUntilSharp(l, t, `${what} to be sharp`, l.state.rounds);
      least.set(what, Math.min(rounds, least.get(what) ?? Infinity));
    }
    await t.context.close();
    l.end();
    console.log(`# ${[...least].map(([what, n]) => `${what}: ${n}`).join(", ")}`);
    return Math.max(...least.values());
  });
});

await runAll();
