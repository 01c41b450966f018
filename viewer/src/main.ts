/** The page: puts its parts together. */

import { App } from "./app";
import { StaticSource } from "./static";
import { Timeline } from "./timeline";
import { Labels } from "./labels";
import { Input } from "./input";
import { Panels } from "./panels/panels";
import { SearchBar } from "./panels/search";
import { only, rowMenu } from "./rowmenu";
import { showHelp } from "./menu";
import { Opener, showRecord } from "./add";
import { Watch } from "./watch";
import { add, fill, h, later } from "./dom";
import { clean, count, duration, percent } from "./format";
import { t } from "./i18n";

/** A bar between two parts: dragged, or by the arrow keys. `step` moves it by pixels. */
function splitter(cls: "vertical" | "horizontal", move: (e: PointerEvent) => void, step: (by: number) => void): HTMLElement {
  const s = h("div", { class: `splitter ${cls}`, role: "separator", tabindex: 0, "aria-orientation": cls });
  s.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -20, ArrowUp: -20, ArrowRight: 20, ArrowDown: 20 }[e.key];
    if (by === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    step(by);
  });
  s.addEventListener("pointerdown", (e) => {
    e.preventDefault();
    s.setPointerCapture(e.pointerId);
    const up = (): void => {
      s.removeEventListener("pointermove", move);
      s.removeEventListener("pointerup", up);
    };
    s.addEventListener("pointermove", move);
    s.addEventListener("pointerup", up);
  });
  return s;
}

/** Where a bar stands, for who cannot see it. */
function saySize(bar: HTMLElement, now: number, least: number, most: number): void {
  for (const [what, v] of Object.entries({ valuenow: now, valuemin: least, valuemax: most })) bar.setAttribute(`aria-${what}`, String(Math.round(v)));
}

function boot(): void {
  const carried = StaticSource.there() ? new StaticSource() : undefined;
  const app = new App(carried);
  if (carried) app.limit = carried.window;
  const root = document.getElementById("app")!;
  const timeline = new Timeline(app),
    labels = new Labels(app, timeline),
    input = new Input(app, timeline),
    panels = new Panels(app),
    search = new SearchBar(app);
  const title = h("bdi", { class: "title" }),
    status = h("span", { class: "status", role: "status" }),
    error = h("div", { class: "error", role: "alert", hidden: true });
  const button = (text: string, word: Parameters<typeof t>[0], run: () => void): HTMLElement => {
    const b = h("button", { onclick: run }, text);
    const name = (): void => {
      b.title = t(word);
      b.setAttribute("aria-label", t(word));
      if (word === "language") b.textContent = t("language");
    };
    name();
    app.on("words", name);
    return b;
  };
  const watch = new Watch(app),
    opener = new Opener(app, watch);
  const openButton = button("+", "open_file", () => opener.choose()),
    recordButton = button("●", "record", () => void showRecord(app)),
    fitButton = button("⤢", "fit", () => app.view.fit()),
    undoButton = button("↶", "undo", () => app.view.undo());
  openButton.hidden = recordButton.hidden = true;
  const empty = h("div", { class: "empty", hidden: true });
  const sayEmpty = (): void =>
    fill(
      empty,
      h("h1", null, t("drop_here")),
      h("p", { class: "quiet" }, t("drop_more")),
      h("p", null, h("button", { class: "primary", onclick: () => opener.choose() }, t("choose_file")), app.canRecord ? h("button", { class: "primary", onclick: () => void showRecord(app) }, t("record")) : null),
    );
  const wheel = button("⇳", "wheel_scrolls", () => {
    app.changeSettings({ wheelScrolls: !app.settings.wheelScrolls });
    sayWheel();
  });
  const sayWheel = (): void => {
    wheel.setAttribute("aria-pressed", String(app.settings.wheelScrolls));
    wheel.classList.toggle("on", app.settings.wheelScrolls);
  };
  sayWheel();
  const names = splitter("vertical", (e) => setLabels(e.clientX), (by) => setLabels(app.stored.labels + by));
  const nothing = h("p", { class: "nothing quiet", hidden: true });
  const sayNothing = (): void => {
    const { byLane, visible, pinned, filter } = app.rows,
      filtered = filter !== "" && !visible.length && !pinned.length;
    nothing.hidden = app.building || app.live || !app.reports.length || (byLane.size > 0 && !filtered);
    nothing.textContent = t(filtered ? "no_rows" : "no_events");
  };
  for (const what of ["layout", "built", "words", "live"]) app.on(what, sayNothing);
  const body = h("div", { class: "timeline" }, labels.root, names, timeline.root, nothing);
  const bottom = h("div", { class: "bottom" }, panels.root);

  function setLabels(width: number): void {
    app.stored.labels = Math.max(80, Math.min(innerWidth * 0.6, width));
    labels.root.style.width = `${app.stored.labels}px`;
    saySize(names, app.stored.labels, 80, innerWidth * 0.6);
    app.store();
  }
  function setBottom(height: number): void {
    app.stored.bottom = Math.max(28, Math.min(innerHeight * 0.8, height));
    bottom.style.height = `${app.stored.bottom}px`;
    saySize(edge, app.stored.bottom, 28, innerHeight * 0.8);
    app.store();
  }

  const edge = splitter("horizontal", (e) => setBottom(innerHeight - e.clientY), (by) => setBottom(app.stored.bottom - by));
  add(root, [
    h(
      "header",
      null,
      title,
      fitButton,
      undoButton,
      openButton,
      recordButton,
      search.root,
      status,
      opener.input,
      wheel,
      button("◐", "theme", () => app.changeSettings({ dark: !app.theme.dark })),
      button("中文", "language", () => app.changeSettings({ language: document.documentElement.lang === "zh" ? "en" : "zh" })),
      button("?", "help", () => showHelp(app.theme.dark)),
    ),
    error,
    watch.root,
    empty,
    body,
    edge,
    bottom,
  ]);

  /* Without a report there is nothing to look at, and nothing for the keys to do. */
  app.on("session", () => {
    const none = app.reports.length === 0;
    openButton.hidden = !app.uploadMost;
    recordButton.hidden = !app.canRecord;
    empty.hidden = !none;
    body.hidden = edge.hidden = bottom.hidden = search.root.hidden = fitButton.hidden = undoButton.hidden = wheel.hidden = none;
    if (none) sayEmpty();
  });
  app.on("words", sayEmpty);
  const nameEdges = (): void => {
    names.setAttribute("aria-label", t("resize_names"));
    edge.setAttribute("aria-label", t("resize_panels"));
  };
  nameEdges();
  app.on("words", nameEdges);

  labels.onMenu = (row, x, y) => rowMenu(app, panels, row, x, y);
  labels.onWheel = (e) => {
    e.preventDefault();
    timeline.setScroll(timeline.scroll + e.deltaY * (e.deltaMode === 1 ? 16 : 1));
  };
  input.onOnly = (row) => {
    only(app, row);
    app.layoutRows();
  };
  input.onSearch = (text) => search.focus(text);
  input.onEvents = (lanes, name) => panels.showEvents(lanes, name);

  app.on("ready", () => {
    fill(title, app.reports.map((r) => clean(r.name, 60)).join("  ·  "));
    title.title = app.reports.map((r) => clean(r.path)).join("\n");
    setLabels(app.stored.labels);
    setBottom(app.stored.bottom);
    timeline.redraw();
  });
  app.on("error", () => {
    error.hidden = !app.error && !app.notice;
    fill(error, [app.error, app.notice].filter(Boolean).join("\n"), app.notice && h("button", { onclick: () => app.tell(""), "aria-label": t("close"), title: t("close") }, "✕"));
  });
  const say = (): void => {
    /* An exported page holds but a part of its report. */
    const all = carried ? carried.held : app.events();
    const mark = app.live ? `● ${t("live")} · ` : "";
    status.textContent = app.building ? mark + t("loading", percent(app.progress)) : `${mark}${t("n_events", count(all))}${app.complete ? "" : ` · ${t("loading", percent(app.progress))}`} · ${duration(app.view.t1 - app.view.t0)}`;
  };
  app.on("progress", say);
  app.on("view", say);
  app.on("words", say);
  app.on("live", say);

  /* How busy each row is in the window, when that has come to rest. */
  let asking = new AbortController(); // of the window before: nobody waits for that
  const busy = later(150, async () => {
    if (app.building) return;
    asking.abort();
    const mine = (asking = new AbortController());
    for (const r of app.reports) {
      const o = app.offsets[r.id],
        t0 = Math.round(app.view.t0 - o),
        t1 = Math.round(app.view.t1 - o);
      const sum = await app.ask<{ lanes: [number, number, number][] }>("sum", { r: r.id, t0, t1, names: 0 }, mine.signal);
      if (!sum || mine.signal.aborted) return;
      const span = Math.max(1, Math.min(t1, r.last) - Math.max(t0, 0));
      for (const [lane, ns] of sum.lanes) {
        const row = app.laneRow(r.id, lane);
        if (row) app.busyNow.set(row.key, Math.min(1, ns / span));
      }
    }
    await app.nameShares();
    app.emit("busy");
    history.replaceState(null, "", app.hash());
  });
  app.on("view", () => void busy());
  app.on("built", () => void busy());

  /* For tests and the curious. */
  (window as unknown as { warpsight: unknown }).warpsight = { app, timeline, labels, panels, input, search };
  void app.start();
}

boot();
