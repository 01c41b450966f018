/**
 * look.mjs - how the page looks, and what it says: pictures against references, text that does not
 * overlap, sizes of screens, tooltips, colours that the user chose, accessible names, words in both
 * languages. See harness.mjs.
 *
 * Pictures. Rows are painted without text on a canvas of their own, so that this one is compared
 * closely, in blocks of 4 pixels. The whole page has text, whose shapes and widths follow the fonts
 * of the machine: it is compared in blocks of 8 pixels, and once more in blocks of 32, which tell
 * whether there is text whatever it looks like. Tests see to it that another font passes (it comes
 * to a third of what is allowed) and that a missing row, another colour and an empty panel do not.
 * References are the blocks' mean colours as small PNGs in shots/; WS_SHOTS_UPDATE=1 writes them
 * anew.
 */
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import {
  browser,
  equal,
  first,
  make,
  makeReport,
  MS,
  near,
  ok,
  open,
  root,
  runAll,
  serve,
  test,
  until,
  warpsight,
  withPage,
} from "./harness.mjs";

/* ---- pictures ---- */

const shots = join(dirname(fileURLToPath(import.meta.url)), "shots");

/**
 * A page of its own for looking at pictures: means of blocks of a PNG, and how a PNG of means
 * differs from them.
 */
let bench;
async function lookAt(png, block, reference) {
  bench ??= await (await browser.newContext()).newPage();
  return bench.evaluate(
    async ([src, b, ref]) => {
      const load = async (url) => {
        const i = new Image();
        i.src = url;
        await i.decode();
        const c = document.createElement("canvas");
        [c.width, c.height] = [i.width, i.height];
        const x = c.getContext("2d", { willReadFrequently: true, colorSpace: "srgb" });
        x.drawImage(i, 0, 0);
        return x.getImageData(0, 0, i.width, i.height);
      };
      const p = await load(src),
        w = Math.floor(p.width / b),
        h = Math.floor(p.height / b);
      const c = document.createElement("canvas");
      [c.width, c.height] = [w, h];
      const x = c.getContext("2d"),
        out = x.createImageData(w, h);
      for (let j = 0; j < h; j++)
        for (let i = 0; i < w; i++) {
          const sum = [0, 0, 0];
          for (let y = 0; y < b; y++)
            for (let k = 0; k < b; k++)
              for (let n = 0; n < 3; n++)
                sum[n] += p.data[((j * b + y) * p.width + i * b + k) * 4 + n];
          for (let n = 0; n < 3; n++) out.data[(j * w + i) * 4 + n] = Math.round(sum[n] / b / b);
          out.data[(j * w + i) * 4 + 3] = 255;
        }
      x.putImageData(out, 0, 0);
      const means = c.toDataURL("image/png");
      if (!ref) return { means };
      const r = await load(ref);
      if (r.width !== w || r.height !== h) return { means, size: [w, h, r.width, r.height] };
      const away = [];
      for (let i = 0; i < w * h; i++)
        away.push(
          Math.max(...[0, 1, 2].map((n) => Math.abs(out.data[i * 4 + n] - r.data[i * 4 + n]))),
        );
      /*
       * The same once more in blocks four times as large: where there is text, whatever its font.
       */
      const coarse = [];
      for (let j = 0; j + 4 <= h; j += 4)
        for (let i = 0; i + 4 <= w; i += 4) {
          const sum = [0, 0, 0];
          for (let y = 0; y < 4; y++)
            for (let k = 0; k < 4; k++)
              for (let n = 0; n < 3; n++)
                sum[n] +=
                  out.data[((j + y) * w + i + k) * 4 + n] - r.data[((j + y) * w + i + k) * 4 + n];
          coarse.push(Math.max(...sum.map((v) => Math.abs(v) / 16)));
        }
      return { means, away, coarse };
    },
    [
      `data:image/png;base64,${png.toString("base64")}`,
      block,
      reference && `data:image/png;base64,${readFileSync(reference).toString("base64")}`,
    ],
  );
}

/**
 * Share of blocks that are more than `by` (of 255) away from the reference in some colour; and of
 * larger blocks, more than `byLarge`.
 */
async function apart(name, png, block, by, byLarge) {
  const file = join(shots, `${name}.png`);
  if (process.env.WS_SHOTS_UPDATE) {
    mkdirSync(shots, { recursive: true });
    writeFileSync(file, Buffer.from((await lookAt(png, block)).means.split(",")[1], "base64"));
    return [0, 0];
  }
  const { away, coarse, size } = await lookAt(png, block, file);
  equal(size, undefined, `sizes of ${name} and its reference`);
  if (process.env.WS_SHOTS)
    console.log(
      `# ${name}: ${[6, 8, 10, 12, 16].map((x) => ((coarse.filter((d) => d > x).length / coarse.length) * 100).toFixed(2)).join(" ")}`,
    );
  return [
    away.filter((d) => d > by).length / away.length,
    coarse.filter((d) => d > byLarge).length / coarse.length,
  ];
}

const rowsPicture = async (t) =>
  Buffer.from(
    (
      await t.eval(() => {
        const { timeline } = window.warpsight;
        // WebGL's picture is there until the page is composed
        timeline.paintRows(timeline.inSight());
        const picture = timeline.root.querySelector(".rects").toDataURL("image/png");
        timeline.draw();
        return picture;
      })
    ).split(",")[1],
    "base64",
  );

const ROWS = [4, 24, 0.004],
  PAGE = [8, 40, 0.02, 12, 0.015];

/** Statistics, where they are in sight, are of what is. */
const statistics = (t) =>
  until("statistics of what is shown", () =>
    t.eval(() => {
      const { app } = window.warpsight,
        shown = document.querySelector("[role=tabpanel] > .statistics:not(.compare)");
      return !shown || shown.dataset.of === String(app.range ?? [app.view.t0, app.view.t1]);
    }),
  );

async function looksLike(t, name, keep = false) {
  await t.page.mouse.move(2, 2);
  await until("the strip above the axis", () =>
    t.eval(() => !window.warpsight.timeline.overview.expecting),
  );
  await t.settled();
  await statistics(t);
  await until("shares beside the names", () =>
    t.eval(() => [...document.querySelectorAll(".label .busy")].some((e) => e.textContent)),
  );
  const rows = await rowsPicture(t),
    page = await t.page.screenshot();
  if (process.env.WS_SHOTS && keep) writeFileSync(join(process.env.WS_SHOTS, `${name}.png`), page);
  const [a] = await apart(`${name}-rows`, rows, ROWS[0], ROWS[1], 255);
  ok(a <= ROWS[2], `rows of ${name}: ${(a * 100).toFixed(2)} % of the blocks differ`);
  const [b, c] = await apart(name, page, PAGE[0], PAGE[1], PAGE[3]);
  ok(b <= PAGE[2], `${name}: ${(b * 100).toFixed(2)} % of the blocks differ`);
  ok(c <= PAGE[4], `${name}: ${(c * 100).toFixed(2)} % of the larger blocks differ`);
  return [b, c];
}

const CANVAS = { search: "?painter=canvas" };

async function trainingStep(t) {
  const step = await t.eval(async () =>
    window.warpsight.app.source.json("step", { r: 0, q: "step 3", t: 0 }),
  );
  await t.set(step.start - 30000, step.end + 60000);
  const kernel = await t.eval(
    async ([from]) =>
      window.warpsight.app.source.json("step", { r: 0, q: "sm90_gemm", t: from + 120000 }),
    [step.start],
  );
  await t.eval((s) => window.warpsight.app.select(0, s), kernel);
  await until("its links", async () => (await t.selected())?.detail);
}

/** What rules say is no part of the pictures: it may change whenever a rule does. */
const showStatistics = (t) => t.eval(() => window.warpsight.panels.showPanel("statistics"));

const LOOKS = {
  overview: showStatistics,
  step: trainingStep,
  selection: async (t) => {
    await t.eval(
      () => (
        window.warpsight.app.setRange([2e6, 4e6]), window.warpsight.panels.showPanel("statistics")
      ),
    );
    await statistics(t);
  },
  flame: async (t) => {
    await t.page.locator("[data-tab=functions]").click();
    await until("the flame graph", async () => (await t.page.locator(".cell").count()) >= 8);
  },
  dark: async (t) => {
    await t.eval(() => window.warpsight.app.changeSettings({ dark: true }));
    await trainingStep(t);
  },
};
for (const [name, go] of Object.entries(LOOKS))
  withPage(
    `looks like its reference: ${name}`,
    async (t) => {
      await go(t);
      await looksLike(t, name, true);
    },
    CANVAS,
  );

test("looks like its reference: two ranks", async () => {
  const s = await serve(make("rank0.wsrep", makeReport, "4"), make("rank1.wsrep", makeReport, "6"));
  const t = await open(s, CANVAS);
  await t.eval(() => {
    const { app } = window.warpsight;
    app.rows.byKey.forEach(
      (r) =>
        (r.type === "thread" || r.pid === 300 || (r.type === "process" && r.pid === 200)) &&
        app.setOpen(r, false),
    );
    app.layoutRows();
  });
  await showStatistics(t);
  await looksLike(t, "ranks", true);
  await t.end();
});

for (const name of ["overview", "step", "selection", "flame"])
  withPage(
    `pictures: another font passes: ${name}`,
    async (t) => {
      if (process.env.WS_SHOTS_UPDATE) return;
      await t.page.addStyleTag({
        content: "* { font-family: 'DejaVu Serif', serif !important; letter-spacing: 0.2px; }",
      });
      await LOOKS[name](t);
      const font = await looksLike(t, name);
      console.log(
        `# ${font.map((v) => (v * 100).toFixed(2))} % of the blocks and of the larger blocks differ`,
      );
    },
    { ...CANVAS, bypassCSP: true },
  );

withPage(
  "pictures: a missing row and another colour do not pass",
  async (t) => {
    if (process.env.WS_SHOTS_UPDATE) return;
    await showStatistics(t);
    await t.eval(() => {
      const { app } = window.warpsight;
      app.setHidden(
        app.rows.visible.find((r) => r.type === "memory"),
        true,
      );
      app.layoutRows();
    });
    const fails = async (what, name = "overview") => {
      let said = "";
      await looksLike(t, name).catch((e) => (said = e.message));
      console.log(`# ${said}`);
      ok(/of the (larger )?blocks differ/.test(said), what);
    };
    await fails("a missing row is seen");
    await t.page.locator(".restore").click();
    await looksLike(t, "overview");
    await t.eval(() => window.warpsight.app.setNameColor("step 2", 3));
    await fails("one range of another colour is seen");
    await t.eval(() => window.warpsight.app.setNameColor("step 2", null));
    for (const [name, css] of [
      ["selection", ".statistics table"],
      ["flame", ".flame"],
    ]) {
      await LOOKS[name](t);
      await t.eval((c) => (document.querySelector(c).style.visibility = "hidden"), css);
      await fails(`a panel without ${css} is seen`, name);
      if (name === "selection") await t.eval(() => window.warpsight.app.setRange(null));
    }
  },
  { ...CANVAS, bypassCSP: true },
);

/* ---- text ---- */

/** Boxes of all texts that a frame writes on the canvases. */
function written(t) {
  return t.eval(async () => {
    const { timeline } = window.warpsight;
    const boxes = [],
      was = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (s, x, y) {
      const m = this.measureText(s);
      boxes.push({ on: this.canvas.className, s, x0: x, x1: x + m.width, y0: y - 5, y1: y + 5 });
      was.call(this, s, x, y);
    };
    timeline.draw();
    CanvasRenderingContext2D.prototype.fillText = was;
    return boxes;
  });
}

withPage("text never overlaps: on rows and on the axis, at any zoom", async (t) => {
  await t.eval(() => {
    const { app } = window.warpsight;
    for (const r of app.rows.byKey.values()) r.open = true;
    app.layoutRows();
  });
  let seed = 12345,
    seen = 0;
  const random = () => (seed = (seed * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
  for (let turn = 0; turn < 24; turn++) {
    const span = 10 ** (3 + random() * 4),
      from = random() * 8 * MS - span / 3;
    await t.set(from, from + span);
    await t.eval((y) => window.warpsight.timeline.setScroll(y), random() * 1500);
    await t.settled();
    const boxes = await written(t);
    seen += boxes.length;
    const wrong = [];
    boxes.forEach((a, i) =>
      boxes
        .slice(i + 1)
        .forEach(
          (b) =>
            a.on === b.on &&
            a.x0 < b.x1 - 0.5 &&
            b.x0 < a.x1 - 0.5 &&
            a.y0 < b.y1 &&
            b.y0 < a.y1 &&
            wrong.push([a, b]),
        ),
    );
    equal(wrong.slice(0, 2), [], `texts that overlap from ${from} on, ${span} ns`);
  }
  ok(seen > 300, `${seen} texts were looked at`);
});

for (const [what, viewport, deviceScaleFactor] of [
  ["a laptop", { width: 1366, height: 768 }, 1],
  ["a laptop at 200 %", { width: 683, height: 384 }, 2],
  ["4K", { width: 3840, height: 2160 }, 1],
  ["4K at 200 %", { width: 1920, height: 1080 }, 2],
])
  withPage(
    `every control is in sight on ${what}`,
    async (t) => {
      const out = await t.eval(() => {
        const wrong = [];
        const boxes = [
          ...document.querySelectorAll(
            "header button, header input, .tabs button, .labelhead input",
          ),
        ]
          .filter((e) => e.offsetParent)
          .map((e) => [e, e.getBoundingClientRect()]);
        for (const [e, b] of boxes)
          if (
            b.left < -0.5 ||
            b.right > innerWidth + 0.5 ||
            b.bottom > innerHeight + 0.5 ||
            b.width < 8
          )
            wrong.push(
              `${e.className || e.title || e.textContent} at ${[b.left, b.right, b.bottom].map(Math.round)} of ${innerWidth} × ${innerHeight}`,
            );
        boxes.forEach(([e, a], i) =>
          boxes
            .slice(i + 1)
            .forEach(
              ([f, b]) =>
                a.left < b.right - 1 &&
                b.left < a.right - 1 &&
                a.top < b.bottom - 1 &&
                b.top < a.bottom - 1 &&
                wrong.push(`${e.title || e.className} over ${f.title || f.className}`),
            ),
        );
        const area = window.warpsight.timeline.area.getBoundingClientRect();
        if (area.height < 60 || area.width < 200)
          wrong.push(`rows have ${area.width} × ${area.height}`);
        return wrong;
      });
      equal(out, [], "what is out of sight or on top of something");
      const ratio = await t.eval(
        () =>
          window.warpsight.timeline.axis.width /
          window.warpsight.timeline.axis.getBoundingClientRect().width,
      );
      near(ratio, deviceScaleFactor, 0.01, "pixels of the canvas a CSS pixel");
    },
    { viewport, deviceScaleFactor },
  );

withPage("tooltips say in words what runs, for how long, how busy the row is", async (t) => {
  await t.set(0.15 * MS, 1.0 * MS);
  const tips = {};
  for (const [type, time, n] of [
    ["kernels", 0.24 * MS, 0],
    ["memory", 0.216 * MS, 0],
    ["nvtx", 0.5 * MS, 0],
    ["sync", 0.6 * MS, 0],
    ["osrt", 0.5 * MS, 0],
    ["gpu_bytes", 0.5 * MS, 0],
    ["cuda_api", 0.6 * MS, 0],
  ]) {
    await t.at(type, time, 0, n);
    await t.settled();
    const p = await t.at(type, time, 0, n);
    // how busy rows are comes when the window has come to rest, the name when the pointer has
    let away = 0;
    tips[type] = await until(`a tooltip on ${type}`, async () => {
      await t.page.mouse.move(p.x, p.y + (type === "gpu_bytes" ? 12 : 0) + (away = 1 - away));
      const tip = await t.eval(() => document.querySelector(".tip:not([hidden])")?.innerText);
      return tip && (type === "gpu_bytes" || /% busy\)\n/.test(tip)) && tip;
    });
  }
  ok(
    /^Kernel is running \(\d+\.\d % busy\)\nsm90_gemm_f16\n26\.00 µs/.test(tips.kernels),
    tips.kernels,
  );
  ok(
    /^Memory operation in progress \([\d.]+ % busy\)\nCopy host to device\n20\.00 µs/.test(
      tips.memory,
    ),
    tips.memory,
  );
  ok(tips.nvtx.includes("step 0") && /^Range/.test(tips.nvtx), tips.nvtx);
  ok(/^Waiting for the GPU/.test(tips.sync) && tips.sync.includes("Wait for stream"), tips.sync);
  ok(/^Call of the OS runtime/.test(tips.osrt), tips.osrt);
  ok(/GiB/.test(tips.gpu_bytes), tips.gpu_bytes);
  ok(/^Call of the CUDA API/.test(tips.cuda_api), tips.cuda_api);
});

/* ---- colours ---- */

withPage("colours of names and rows are chosen by menu, seen, kept, and taken back", async (t) => {
  await t.set(0.15 * MS, 1.0 * MS);
  const color = async (type, time, level) => {
    await t.at(type, time, level);
    await t.settled();
    const p = await t.at(type, time, level);
    return t.pixel(p.x, p.y);
  };
  const pick = async (group, name) => {
    await t.page
      .locator(`.menu [role=group][aria-label="${group}"] button[aria-label="${group}: ${name}"]`)
      .click();
    await t.settled();
  };
  const usual = await color("nvtx", 0.5 * MS, 0);
  await t.click("nvtx", 0.5 * MS, 0, 0, { button: "right" });
  await pick("Colour of this name", "yellow");
  equal(
    await until(
      "the colour",
      async () => (await color("nvtx", 0.5 * MS, 0)).join() === "240,228,66",
    ),
    true,
    "the range's",
  );
  equal(await color("projected", 0.5 * MS, 0), [240, 228, 66], "the same name on another row");
  await t.page.locator(".label[data-type=sync]").first().click({ button: "right" });
  await pick("Colour of this row", "sky blue");
  equal(await color("sync", 0.6 * MS, 0), [86, 180, 233], "the row's");
  await until("it to be kept", () =>
    t.eval(() =>
      Object.keys(localStorage).some((k) =>
        (localStorage[k] ?? "").includes('"nameColors":{"step 0":3}'),
      ),
    ),
  );
  await t.page.reload();
  await t.settled();
  await until(
    "the name's colour after a reload",
    async () => (await color("nvtx", 0.5 * MS, 0)).join() === "240,228,66",
  );
  equal(await color("sync", 0.6 * MS, 0), [86, 180, 233], "the row's after a reload");
  await t.click("nvtx", 0.5 * MS, 0, 0, { button: "right" });
  await pick("Colour of this name", "usual colours");
  await until(
    "the usual colour",
    async () => (await color("nvtx", 0.5 * MS, 0)).join() === usual.join(),
  );
});

withPage("highlighting fades all other names, in every row and report", async (t) => {
  await t.set(0.15 * MS, 1.0 * MS);
  await t.eval(() => window.warpsight.app.setHighlight("forward"));
  const faded = await t.eval(() => {
    const out = {};
    for (const tile of window.warpsight.app.cache.tiles.values())
      for (let r = 0; r < tile.u8.length / 24; r++) {
        const f = tile.u8[r * 24 + 22];
        if (!(f & 32))
          (out[f & 128 ? "faded" : "bright"] ??= []).push(`${tile.lane} ${tile.u32[r * 6 + 4]}`);
      }
    return { faded: out.faded.length, bright: [...new Set(out.bright)].length };
  });
  ok(faded.faded > 50, "others are faded");
  equal(faded.bright, 2, "rows with the name: the range and what it was on the GPU");
});

/* ---- names for those who do not see ---- */

async function nameless(t) {
  const cdp = await t.context.newCDPSession(t.page);
  const { nodes } = await cdp.send("Accessibility.getFullAXTree");
  await cdp.detach();
  const CONTROLS = [
    "button",
    "textbox",
    "searchbox",
    "checkbox",
    "radio",
    "tab",
    "treeitem",
    "menuitem",
    "link",
    "combobox",
    "slider",
    "application",
    "tree",
    "tablist",
    "tabpanel",
    "dialog",
    "menu",
    "group",
    "img",
  ];
  const there = nodes.filter(
    (n) =>
      !n.ignored &&
      CONTROLS.includes(n.role?.value) &&
      !(n.role.value === "group" && !n.properties?.length),
  );
  const focusable = nodes.filter(
    (n) =>
      !n.ignored &&
      n.properties?.some((p) => p.name === "focusable" && p.value.value) &&
      n.role?.value !== "RootWebArea",
  );
  return {
    n: there.length,
    wrong: [...there, ...focusable]
      .filter(
        (n) => !(n.name?.value ?? "").trim() && !["menu", "generic", "row"].includes(n.role.value),
      )
      .map((n) => `${n.role.value} ${n.description?.value ?? ""}`),
  };
}

for (const locale of ["en-GB", "zh-CN"])
  withPage(
    `accessibility tree: every control has a name (${locale})`,
    async (t) => {
      const look = async (what) => {
        const { n, wrong } = await nameless(t);
        equal(wrong, [], `controls without a name ${what}`);
        return n;
      };
      ok((await look("at first")) > 35, "controls were looked at");
      await t.set(0.15 * MS, 1.0 * MS);
      await t.select("nvtx", 0.25 * MS, 1);
      for (const tab of [
        "details",
        "events",
        "statistics",
        "functions",
        "diagnostics",
        "session",
      ]) {
        await t.page.locator(`[data-tab=${tab}]`).click();
        await until(`${tab}`, async () => (await t.page.locator(".panel *").count()) > 3);
        await look(`in ${tab}`);
      }
      await t.click("nvtx", 0.25 * MS, 1, 0, { button: "right" });
      await t.page.locator(".menu").waitFor();
      ok((await look("in the menu of an event")) > 60, "the menu is there too");
      await t.page.keyboard.press("Escape");
      await t.page.locator(".label[data-type=nvtx]").first().click({ button: "right" });
      await look("in the menu of a row");
      await t.page.keyboard.press("Escape");
      await t.page.keyboard.press("?");
      await look("in the help");
      await t.page.keyboard.press("Escape");
      await t.page.locator(".searchbox").fill("step");
      await until("found", async () => (await t.page.locator(".foundlist button").count()) > 2);
      await look("in what was found");
    },
    { locale },
  );

withPage("by keyboard alone: search, select, zoom, panels, their size, a row's menu", async (t) => {
  await t.page.keyboard.press("Control+f");
  await t.page.keyboard.type("step 3");
  await until("counts", async () => (await t.text(".found")).startsWith("2 matches"));
  await t.page.keyboard.press("Enter");
  const s = await until("the match", () => t.selected());
  equal(s.name, "step 3", "what is selected");
  const away = async (what) => {
    for (let i = 0; i < 60; i++) {
      await t.page.keyboard.press("Tab");
      if (await t.eval((css) => document.activeElement?.matches(css), what)) return;
    }
    throw new Error(`Tab never came to ${what}`);
  };
  await away(".label");
  await t.page.keyboard.press("ContextMenu");
  await t.page.locator(".menu").waitFor();
  await t.page.keyboard.press("Escape");
  ok(
    await t.eval(() => document.activeElement?.classList.contains("label")),
    "focus comes back to the row",
  );
  await away(".splitter.vertical");
  const before = await t.eval(
    () => document.querySelector(".labels").getBoundingClientRect().width,
  );
  await t.page.keyboard.press("ArrowRight");
  near(
    await t.eval(() => document.querySelector(".labels").getBoundingClientRect().width),
    before + 20,
    1,
    "width of the names",
  );
  await away(".area");
  await t.page.keyboard.press("z");
  const [a, b] = await t.view();
  ok(a < s.start && b > s.end && b - a < (s.end - s.start) * 1.6, "the window fits the event");
  await away("[role=tab]");
  await t.page.keyboard.press("ArrowRight");
  equal(await t.eval(() => document.activeElement?.dataset.tab), "events", "the next panel");
});

/** What the page shares with the program, as the build made it. */
const constants = () =>
  readFileSync(join(dirname(warpsight), "src", "page", "constants.ts"), "utf8");

/** A module of the page with those constants, without what else it imports. */
async function moduleOf(name, exports) {
  const ts = (
    await import(
      pathToFileURL(join(root, "viewer", "node_modules", "typescript", "lib", "typescript.js"))
    )
  ).default;
  const source = readFileSync(join(root, "viewer", "src", name), "utf8");
  const own = source.replace(/import \{[^}]*\} from "generated\/constants";/, () => constants());
  const js = ts.transpileModule(own, {
    compilerOptions: { module: "ESNext", target: "ES2022" },
  }).outputText;
  return import(`data:text/javascript,${encodeURIComponent(`${js}\nexport { ${exports} };`)}`);
}

/*
 * How a colour looks to those who lack a kind of cones: Machado, Oliveira and Fernandes (2009),
 * severity 1, on linear light.
 */
const SEEN_BY = {
  everyone: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopes: [
    0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998,
  ],
  deuteranopes: [
    0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881,
  ],
  tritanopes: [
    1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039,
  ],
};
/** CIE L*a*b* (D65) of what they see. */
function lab(rgb, m) {
  const lin = rgb.map((v) =>
    v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  );
  const [r, g, b] = [0, 1, 2].map((i) =>
    Math.max(0, Math.min(1, m[i * 3] * lin[0] + m[i * 3 + 1] * lin[1] + m[i * 3 + 2] * lin[2])),
  );
  const f = (v) => (v > 216 / 24389 ? Math.cbrt(v) : ((24389 / 27) * v + 16) / 116);
  const [x, y, z] = [
    (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
    0.2126 * r + 0.7152 * g + 0.0722 * b,
    (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
  ].map(f);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

test("colours that mean something are told apart by the colour-blind, on light and on dark", async () => {
  const { classColor, ownColor, CLASS_KERNEL, CHOICES, STATES, inkOn } = await moduleOf(
    "colors.ts",
    "",
  );
  const away = (a, b, m) => Math.hypot(...lab(a, m).map((v, i) => v - lab(b, m)[i]));
  let least = [Infinity];
  for (const dark of [false, true]) {
    const kernels = [...Array(256).keys()].map((i) => classColor(CLASS_KERNEL, i, dark));
    const sets = [
      {
        "to the GPU": [ownColor(1, dark)],
        "from the GPU": [ownColor(2, dark)],
        memset: [ownColor(14, dark)],
        "a wait": [ownColor(18, dark)],
        "a kernel": kernels,
      },
      Object.fromEntries(STATES.map(([word, c]) => [word, [c]])),
      { "holds the GIL": [ownColor(35, dark)], "waits for it": [ownColor(36, dark)] },
    ];
    for (const [who, m] of Object.entries(SEEN_BY))
      for (const set of sets)
        for (const [a, x] of Object.entries(set))
          for (const [b, y] of Object.entries(set)) {
            if (a >= b) continue;
            const d = Math.min(...x.flatMap((p) => y.map((q) => away(p, q, m))));
            if (d < least[0]) least = [d, `${a} and ${b}, to ${who}, ${dark ? "dark" : "light"}`];
          }
    /*
     * Text on any colour of ours: 3 to 1 at least (it is large for its line, and in the tooltip
     * too).
     */
    const light = (c) =>
      c
        .map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
        .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ratio = (a, b) =>
      (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const hex = (s) => [1, 3, 5].map((i) => parseInt(s.slice(i, i + 2), 16));
    const all = [
      ...kernels,
      ...CHOICES.map(([, c]) => c),
      ...[...Array(37).keys()].map((i) => ownColor(i, dark)),
      ...[0, 3, 4, 5, 6].flatMap((cls) =>
        [...Array(256).keys()].map((i) => classColor(cls, i, dark)),
      ),
    ];
    for (const c of all)
      ok(ratio(c, hex(inkOn(c))) >= 3, `ink on ${c}: ${ratio(c, hex(inkOn(c))).toFixed(2)} to 1`);
  }
  console.log(`# least distance (CIE 1976): ${least[0].toFixed(1)}, ${least[1]}`);
  ok(least[0] >= 14, `${least}`);
});

/* ---- words ---- */

test("both languages have all words, with the same places, and each word is used", async () => {
  const { EN, ZH, KEYS_EN, KEYS_ZH } = await moduleOf("i18n.ts", "EN, ZH, KEYS_EN, KEYS_ZH");
  equal(Object.keys(ZH), Object.keys(EN), "words");
  const places = (s) => [...s.matchAll(/\{\d\}/g)].map((m) => m[0]).sort();
  for (const k of Object.keys(EN)) {
    equal(places(ZH[k]), places(EN[k]), `places of ${k}`);
    ok(EN[k] && ZH[k], `${k} is not empty`);
  }
  /* Names of things that Chinese speakers call so too. */
  const same = Object.keys(EN).filter((k) => EN[k] === ZH[k]);
  equal(
    same,
    [
      "title",
      "rank",
      "nvtx",
      "cuda_api",
      "openmp",
      "openacc",
      "gil",
      "gpu",
      "nccl",
      "errno",
      "python_stacks",
      "memset",
      "sql",
    ],
    "words that are the same in both",
  );
  equal(KEYS_ZH.length, KEYS_EN.length, "lines of the help");
  ok(
    KEYS_ZH.every(([, v]) => /[\u4e00-\u9fff]/.test(v)),
    "the help is in Chinese",
  );
  const files = readdirSync(join(root, "viewer", "src"), { recursive: true }).filter(
    (f) => f.endsWith(".ts") && !f.endsWith("i18n.ts"),
  );
  const code = [
    constants(),
    ...files.map((f) => readFileSync(join(root, "viewer", "src", f), "utf8")),
  ].join("\n");
  const kinds =
    readFileSync(join(root, "src", "schema", "events.def"), "utf8") +
    readFileSync(join(root, "src", "lanes", "row_tree.c"), "utf8") +
    readFileSync(join(root, "src", "analyze", "page_json.c"), "utf8") +
    readFileSync(join(root, "src", "serve", "api_event.c"), "utf8");
  const unused = Object.keys(EN).filter(
    (k) =>
      !code.includes(`"${k}"`) &&
      !kinds.includes(`"${k}"`) &&
      !(k.startsWith("state_") && code.includes(`"${k.slice(6)}"`)) &&
      !(k.startsWith("align_") && code.includes(`"${k.slice(6)}"`)) &&
      !(k.startsWith("level_") && code.includes(`"${k.slice(6)}"`)) &&
      !(k.startsWith("cause_") && kinds.includes(`"${k.slice(6)}"`)) &&
      !(k.startsWith("link_") && kinds.includes(`"${k.slice(5)}"`)),
  );
  equal(unused, [], "words that nothing says");
});

await runAll();
