/**
 * server.mjs - the server without a page: who it answers, what it says when it cannot begin, and
 * that no client keeps others waiting. See harness.mjs.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import {
  cudaBench,
  equal,
  folder,
  get,
  make,
  makeReport,
  ok,
  runAll,
  serve,
  test,
  until,
  warpsight,
} from "./harness.mjs";

/** A connection that sends `text`; what comes back is in `got`. */
function raw(port, text) {
  const c = net.connect(port, "127.0.0.1"),
    state = { got: "", closed: false, socket: c };
  c.on("data", (d) => (state.got += d));
  c.on("close", () => (state.closed = true));
  c.on("error", () => undefined);
  c.write(text);
  return state;
}

test("nothing listens beyond the loopback interface", async () => {
  const s = await serve(make("loop.wsrep", makeReport, "1"));
  const port = Number(new URL(s.url).port).toString(16).toUpperCase().padStart(4, "0");
  const mine = (file) =>
    spawnSync("cat", [file])
      .stdout.toString()
      .split("\n")
      .map((l) => l.trim().split(/\s+/))
      .filter((f) => f[3] === "0A" && f[1]?.endsWith(`:${port}`))
      .map((f) => f[1]);
  equal(
    [...mine("/proc/net/tcp"), ...mine("/proc/net/tcp6")],
    [`0100007F:${port}`],
    "sockets that listen",
  );
});

test("slow clients and long answers keep nobody waiting", async () => {
  const s = await serve(make("slow.wsrep", cudaBench, "same", "200000"));
  const u = new URL(s.url),
    head = `GET ${u.pathname}api/session HTTP/1.1\r\nHost: localhost\r\n`;
  // the empty line never comes
  const slow = Array.from({ length: 60 }, () => raw(Number(u.port), head));
  const posts = Array.from({ length: 6 }, () =>
    raw(
      Number(u.port),
      `POST ${u.pathname}api/add?name=x HTTP/1.1\r\nHost: ${u.host}\r\nOrigin: ${u.origin}\r\nContent-Length: 1000\r\n\r\nabc`,
    ),
  );
  await until(
    "all to be connected",
    () => slow.every((c) => !c.socket.connecting) && posts.every((c) => !c.socket.connecting),
  );
  for (let i = 0; i < 5; i++) equal((await get(s.url)).status, 200, "an answer meanwhile");
  ok(
    slow.every((c) => c.got === ""),
    "half a question has no answer",
  );
  const sums = Promise.all(Array.from({ length: 8 }, () => get(`${s.url}api/sum?r=0`)));
  equal((await get(`${s.url}api/state`)).status, 200, "a short answer beside long ones");
  ok(
    (await sums).every((a) => a.status === 200),
    "the long ones",
  );
  for (const c of [...slow, ...posts]) c.socket.destroy();
  const code = new Promise((f) => {
    s.process.removeAllListeners("exit");
    s.process.on("exit", f);
  });
  s.process.kill("SIGINT");
  equal(await code, 0, "it ends with clients connected");
});

test("what is no HTTP, or too much of it, is refused and harms nobody", async () => {
  const s = await serve(make("odd.wsrep", makeReport, "1"));
  const u = new URL(s.url);
  const odd = [
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\x00".repeat(200),
    `GET ${u.pathname} HTTP/1.1\r\n\r\n`, // no host
    `GET ${u.pathname} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nX: ${"y".repeat(200000)}\r\n\r\n`,
    `GET http://evil.example${u.pathname} HTTP/1.1\r\nHost: evil.example\r\n\r\n`,
    `GET ${u.pathname}${"a/".repeat(40000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`,
    `POST ${u.pathname}api/add?name=x HTTP/1.1\r\nHost: ${u.host}\r\nOrigin: ${u.origin}\r\nContent-Length: -1\r\n\r\n`,
    `POST ${u.pathname}api/add?name=x HTTP/1.1\r\nHost: ${u.host}\r\nOrigin: ${u.origin}\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\nabc`,
  ];
  for (const text of odd) {
    const c = raw(Number(u.port), text);
    await until(
      "an end or a refusal",
      () => c.closed || /^HTTP\/1\.1 (400|403|404|413|414|431)/.test(c.got),
    );
    ok(!c.got.includes(" 200 "), `not answered: ${text.slice(0, 60)}`);
    c.socket.destroy();
  }
  const other = await get(s.url, { Origin: "http://evil.example" });
  ok(
    !Object.keys(other.headers).some((h) => h.startsWith("access-control-")),
    "no other page may read what it says",
  );
  equal((await get(s.url)).status, 200, "it is still there");
});

test("more files at once than are taken, and numbers that are none", async () => {
  const s = await serve(make("many.wsrep", makeReport, "1"));
  for (const q of [
    "tiles?k=99&lanes=0.1",
    "tiles?k=1&i=99999999999&lanes=0.1",
    "tiles?k=1&lanes=0.1,x",
    "tiles?lanes=4000000000.1",
    `tiles?k=1&n=64&lanes=${"0.1,".repeat(5000)}0.1`,
    "at?lane=-1",
    "diff?a=1",
    "session?trees=2",
    "sum?r=5",
  ])
    equal((await get(`${s.url}api/${q}`)).status, 400, q.slice(0, 60));
  const u = new URL(s.url);
  const open = Array.from({ length: 9 }, (_, i) =>
    raw(
      Number(u.port),
      `POST ${u.pathname}api/add?name=f${i} HTTP/1.1\r\nHost: ${u.host}\r\nOrigin: ${u.origin}\r\nContent-Length: 1000\r\n\r\nabc`,
    ),
  );
  await until(
    "one of nine to be refused",
    () => open.filter((c) => c.got.includes("are on their way already")).length === 1,
  );
  for (const c of open) c.socket.destroy();
});

test("what it says when it cannot begin", async () => {
  const file = make("begin.wsrep", makeReport, "1");
  const s = await serve(file);
  const port = new URL(s.url).port;
  const taken = spawnSync(warpsight, ["view", "--no-open", "--port", port, file]);
  equal(taken.status, 1, "status where the port is taken");
  ok(
    String(taken.stderr).includes(`port ${port}`) &&
      String(taken.stderr).includes("in use") &&
      String(taken.stderr).includes("--port"),
    String(taken.stderr),
  );
  const other = await serve(file);
  ok(new URL(other.url).port !== port, "without --port it takes another");

  const dir = join(folder, "no-library");
  mkdirSync(dir);
  writeFileSync(join(dir, "libmicrohttpd.so.12"), "");
  const lacks = spawnSync(warpsight, ["view", "--no-open", file], {
    env: { ...process.env, LD_LIBRARY_PATH: dir },
  });
  equal(lacks.status, 1, "status without the library");
  ok(/'view' needs the library libmicrohttpd/.test(String(lacks.stderr)), String(lacks.stderr));
  equal(
    spawnSync(warpsight, ["version"], { env: { ...process.env, LD_LIBRARY_PATH: dir } }).status,
    0,
    "other commands do without",
  );

  /* A browser that is not there: the address is printed all the same. */
  const alone = spawn(warpsight, ["view", file], {
    env: { ...process.env, DISPLAY: ":999", PATH: dir },
  });
  const address = await new Promise((f) =>
    alone.stdout.once("data", (d) => f(String(d).split("\n")[0])),
  );
  equal((await get(address)).status, 200, "without a browser");
  alone.kill("SIGTERM");
});

await runAll();
