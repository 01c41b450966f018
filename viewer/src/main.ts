/** The page: puts its parts together. */

import { App } from "./app";
import { CriticalPath } from "./critical";
import { StaticSource } from "./static";
import { Timeline } from "./timeline";
import { Labels } from "./labels";
import { Input } from "./input";
import { Panels } from "./panels/panels";
import { SearchBar } from "./panels/search";
import { showOnly, rowMenu } from "./rowmenu";
import { showHelp, showMenu } from "./menu";
import { makePng, makeSvg } from "./picture";
import { Opener, showRecord } from "./add";
import { Watch } from "./watch";
import { appendChildren, downloadFile, fillElement, h, delayCalls } from "./dom";
import { cleanText, formatCount, formatDuration, formatPercent } from "./format";
import { t, type Word } from "./i18n";

/** A bar between two parts: dragged, or by the arrow keys. `step` moves it by pixels. */
function makeSplitter(
  cls: "vertical" | "horizontal",
  move: (e: PointerEvent) => void,
  step: (by: number) => void,
): HTMLElement {
  const element = h("div", {
    class: `splitter ${cls}`,
    role: "separator",
    tabindex: 0,
    "aria-orientation": cls,
  });
  element.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -20, ArrowUp: -20, ArrowRight: 20, ArrowDown: 20 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    step(by);
  });
  element.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    const releaseBar = (): void => {
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerup", releaseBar);
    };
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", releaseBar);
  });
  return element;
}

/** Where a bar is, for users who cannot see it. */
function saySize(bar: HTMLElement, now: number, least: number, most: number): void {
  for (const [what, value] of Object.entries({ valuenow: now, valuemin: least, valuemax: most }))
    bar.setAttribute(`aria-${what}`, String(Math.round(value)));
}

/** Screens narrower than so many pixels are phones'. */
const PHONE = 600;

/** The parts of the page. */
interface Page {
  app: App;
  carried: StaticSource | undefined; // an exported page has its data with it
  timeline: Timeline;
  labels: Labels;
  input: Input;
  panels: Panels;
  critical: CriticalPath;
  search: SearchBar;
  watch: Watch;
  opener: Opener;
}

function makeParts(): Page {
  const carried = StaticSource.isCarried() ? new StaticSource() : undefined;
  const app = new App(carried);
  if (carried) app.limit = carried.window;
  app.hasPath = !carried || carried.hasPath;
  const timeline = new Timeline(app),
    watch = new Watch(app);
  return {
    app,
    carried,
    timeline,
    labels: new Labels(app, timeline),
    input: new Input(app, timeline),
    panels: new Panels(app),
    critical: new CriticalPath(app, timeline),
    search: new SearchBar(app),
    watch,
    opener: new Opener(app, watch),
  };
}

/** A button that is named anew when the language changes. */
function makeButton(app: App, text: string, word: Word, run: () => void): HTMLElement {
  const button = h("button", { onclick: run }, text);
  const nameButton = (): void => {
    button.title = t(word);
    button.setAttribute("aria-label", t(word));
    if (word === "language") button.textContent = t("language");
  };
  nameButton();
  app.on("words", nameButton);
  return button;
}

/** The button that says, and changes, whether the wheel scrolls or zooms. */
function makeWheelButton(app: App): HTMLElement {
  const wheel = makeButton(app, "⇳", "wheel_scrolls", () => {
    app.changeSettings({ wheelScrolls: !app.settings.wheelScrolls });
    showState();
  });
  const showState = (): void => {
    wheel.setAttribute("aria-pressed", String(app.settings.wheelScrolls));
    wheel.classList.toggle("on", app.settings.wheelScrolls);
  };
  showState();
  return wheel;
}

/** The button that draws the critical path. */
function makePathButton({ app, critical }: Page): HTMLElement {
  const button = makeButton(app, "⇝", "path_draw", () => critical.toggle());
  const showState = (): void => {
    button.setAttribute("aria-pressed", String(critical.shown));
    button.classList.toggle("on", critical.shown);
  };
  showState();
  app.on("path", showState);
  button.hidden = !app.hasPath;
  return button;
}

/** The button that saves what is on the time line as a picture. */
function makePictureButton({ app, timeline }: Page): HTMLElement {
  const fileName = (): string => (app.reports[0]?.name ?? "timeline").replace(/\.wsrep$/, "");
  const saveSvg = (): void =>
    downloadFile(`${fileName()}.svg`, makeSvg(app, timeline), "image/svg+xml");
  const savePng = async (): Promise<void> => {
    try {
      downloadFile(`${fileName()}.png`, await makePng(makeSvg(app, timeline)), "image/png");
    } catch (error) {
      app.showFailure(error);
    }
  };
  const button = makeButton(app, "⤓", "save_picture", () => {
    const { left, bottom } = button.getBoundingClientRect();
    showMenu(left, bottom, [
      [t("save_png"), () => void savePng()],
      [t("save_svg"), saveSvg],
    ]);
  });
  return button;
}

/** Shown instead of a time line while no report is open. */
function makeEmpty({ app, opener }: Page): HTMLElement {
  const empty = h("div", { class: "empty", hidden: true });
  const makeRecordButton = (): HTMLElement =>
    h("button", { class: "primary", onclick: () => void showRecord(app) }, t("record"));
  const fillEmpty = (): void =>
    fillElement(
      empty,
      h("h1", null, t("drop_here")),
      h("p", { class: "quiet" }, t("drop_more")),
      h(
        "p",
        null,
        h("button", { class: "primary", onclick: () => opener.chooseFiles() }, t("choose_file")),
        app.canRecord ? makeRecordButton() : null,
      ),
    );
  app.on("words", fillEmpty);
  app.on("session", () => {
    if (app.reports.length === 0) fillEmpty();
  });
  return empty;
}

/** The text that says that no row is visible, and why. */
function makeNothing(app: App): HTMLElement {
  const nothing = h("p", { class: "nothing quiet", hidden: true });
  const showReason = (): void => {
    const { byLane, visible, pinned, filter } = app.rows,
      filtered = filter !== "" && !visible.length && !pinned.length;
    nothing.hidden =
      app.building || app.live || !app.reports.length || (byLane.size > 0 && !filtered);
    nothing.textContent = t(filtered ? "no_rows" : "no_events");
  };
  for (const what of ["layout", "built", "words", "live", "kernels"]) app.on(what, showReason);
  return nothing;
}

/** The time line with its row names, the panels below it, and the bars that part them. */
function makeBody({ app, labels, timeline, panels }: Page): HTMLElement[] {
  const names = makeSplitter(
    "vertical",
    (event) => setLabels(event.clientX),
    (by) => setLabels(app.stored.labels + by),
  );
  const edge = makeSplitter(
    "horizontal",
    (moved) => setBottom(innerHeight - moved.clientY),
    (by) => setBottom(app.stored.bottom - by),
  );
  const bottom = h("section", { class: "bottom" }, panels.root);

  function setLabels(width: number): void {
    app.stored.labels = Math.max(80, Math.min(innerWidth * 0.6, width));
    // of a phone's screen no more than a third
    labels.root.style.width = `min(${app.stored.labels}px, ${innerWidth < PHONE ? 34 : 60}vw)`;
    saySize(names, app.stored.labels, 80, innerWidth * 0.6);
    app.storeState();
  }
  function setBottom(height: number): void {
    app.stored.bottom = Math.max(28, Math.min(innerHeight * 0.8, height));
    bottom.style.height = `${app.stored.bottom}px`;
    saySize(edge, app.stored.bottom, 28, innerHeight * 0.8);
    app.storeState();
  }
  const nameBars = (): void => {
    names.setAttribute("aria-label", t("resize_names"));
    edge.setAttribute("aria-label", t("resize_panels"));
    bottom.setAttribute("aria-label", t("panel_area"));
    body.setAttribute("aria-label", t("time_line"));
    heading.textContent = t("time_line");
  };
  const heading = h("h2", { class: "offscreen" });
  const body = h(
    "section",
    { class: "timeline" },
    heading,
    labels.root,
    names,
    timeline.root,
    makeNothing(app),
  );
  nameBars();
  app.on("words", nameBars);
  app.on("ready", () => {
    setLabels(app.stored.labels);
    setBottom(app.stored.bottom);
    timeline.redrawSoon();
  });
  return [body, edge, bottom];
}

/** How many events there are, how long a stretch is shown, and how far reading has got. */
function makeStatus({ app, carried }: Page): HTMLElement {
  const status = h("span", { class: "status", role: "status" });
  const showStatus = (): void => {
    // an exported page holds a part of its report
    const all = carried ? carried.held : app.countEvents();
    const mark = app.live ? `● ${t("live")} · ` : "";
    const loading = t("loading", formatPercent(app.progress));
    const facts = [t("n_events", formatCount(all))];
    if (!app.complete) facts.push(loading);
    facts.push(formatDuration(app.view.t1 - app.view.t0));
    status.textContent = mark + (app.building ? loading : facts.join(" · "));
  };
  for (const what of ["progress", "view", "words", "live"]) app.on(what, showStatus);
  return status;
}

function makeTitle(app: App): HTMLElement {
  const title = h("h1", { class: "title", dir: "auto" });
  app.on("ready", () => {
    fillElement(title, app.reports.map((report) => cleanText(report.name, 60)).join("  ·  "));
    title.title = app.reports.map((info) => cleanText(info.path)).join("\n");
  });
  return title;
}

function makeErrorBox(app: App): HTMLElement {
  const error = h("div", { class: "error", role: "alert", hidden: true });
  const makeCloseButton = (): HTMLElement =>
    h(
      "button",
      { onclick: () => app.showNotice(""), "aria-label": t("close"), title: t("close") },
      "✕",
    );
  app.on("error", () => {
    error.hidden = !app.problems;
    fillElement(error, app.problems, app.notice && makeCloseButton());
  });
  return error;
}

/** Put the parts onto the page. */
function assemblePage(page: Page): void {
  const { app, panels, search, watch, opener } = page;
  const openButton = makeButton(app, "+", "open_file", () => opener.chooseFiles()),
    recordButton = makeButton(app, "●", "record", () => void showRecord(app)),
    fitButton = makeButton(app, "⤢", "fit", () => app.view.fit()),
    undoButton = makeButton(app, "↶", "undo", () => app.view.undo()),
    wheel = makeWheelButton(app),
    pathButton = makePathButton(page),
    picture = makePictureButton(page),
    empty = makeEmpty(page),
    body = makeBody(page);
  const header = h(
    "header",
    null,
    makeTitle(app),
    fitButton,
    undoButton,
    pathButton,
    openButton,
    recordButton,
    search.root,
    makeAlignment(app),
    makeStatus(page),
    opener.input,
    picture,
    wheel,
    makeButton(app, "◐", "theme", () => app.changeSettings({ dark: !app.theme.dark })),
    makeButton(app, "中文", "language", () => app.changeSettings({ language: otherLanguage() })),
    makeButton(app, "?", "help", () => showHelp(app.theme.dark)),
  );
  openButton.hidden = recordButton.hidden = true;
  const main = h("main", null, watch.root, empty, ...body);
  appendChildren(document.getElementById("app")!, [header, makeErrorBox(app), main]);

  /* Of a report that has measured kernels and no time line, only the panels. */
  app.on("kernels", () => {
    const without = panels.kernels.hasContent() && app.rows.byLane.size === 0;
    main.classList.toggle("untimed", without);
  });
  /* Without a report there is nothing to look at, and nothing for the keys to do. */
  app.on("session", () => {
    const none = app.reports.length === 0;
    openButton.hidden = !app.uploadMost;
    recordButton.hidden = !app.canRecord;
    empty.hidden = !none;
    for (const element of [...body, search.root, fitButton, undoButton, wheel, picture])
      element.hidden = none;
    pathButton.hidden = none || !app.hasPath;
  });
}

function otherLanguage(): "en" | "zh" {
  return document.documentElement.lang === "zh" ? "en" : "zh";
}

/** What the parts ask of one another. */
function connectParts({ app, labels, timeline, input, panels, search, critical }: Page): void {
  panels.path.isShown = () => critical.shown;
  panels.path.onToggle = input.onPath = () => critical.toggle();
  input.onDescribe = (row, time) => critical.describeAt(row, time);
  labels.onMenu = (row, x, y) => rowMenu(app, panels, row, x, y);
  labels.onWheel = (event) => {
    event.preventDefault();
    timeline.setScroll(timeline.scroll + event.deltaY * (event.deltaMode === 1 ? 16 : 1));
  };
  input.onOnly = (row) => {
    showOnly(app, row);
    app.layoutRows();
  };
  input.onSearch = (text) => search.focusSearch(text);
  input.onEvents = (lanes, name) => panels.showEvents(lanes, name);
}

/** Ask how busy the rows of a report are in the window. False when a later question replaced it. */
async function askShares(
  app: App,
  report: App["reports"][0],
  signal: AbortSignal,
): Promise<boolean> {
  const offset = app.offsets[report.id],
    t0 = Math.round(app.view.t0 - offset),
    t1 = Math.round(app.view.t1 - offset);
  const sum = await app.ask<{ lanes: [number, number, number][] }>(
    "sum",
    { r: report.id, t0, t1, names: 0 },
    signal,
  );
  if (!sum || signal.aborted) return false;
  const span = app.spanOf(report.id);
  for (const [lane, ns] of sum.lanes) {
    const row = app.laneRow(report.id, lane);
    if (row) app.busyNow.set(row.key, Math.min(1, ns / span));
  }
  return true;
}

/** Say how busy each row is in the window, when that has come to rest. */
function followShares(app: App): void {
  let asking = new AbortController(); // of the window before: nobody waits for that
  const askAll = delayCalls(150, async () => {
    if (app.building) return;
    asking.abort();
    const mine = (asking = new AbortController());
    for (const report of app.reports) if (!(await askShares(app, report, mine.signal))) return;
    await app.nameShares();
    app.emitEvent("busy");
  });
  app.on("view", () => void askAll());
  app.on("built", () => void askAll());
}

/** The address of the page is a link to what is shown. */
function keepAddress(app: App): void {
  const keep = delayCalls(400, () => app.keepAddress());
  for (const what of [
    "view",
    "built",
    "range",
    "select",
    "layout",
    "panel",
    "align",
    "link",
    "fold",
  ])
    app.on(what, keep);
  /* Another link was put into the address bar: it says all that the page needs. */
  addEventListener("hashchange", () => location.reload());
}

/** How several reports lie on one axis. */
function makeAlignment(app: App): HTMLElement {
  const choose = h("select", { class: "align" }) as HTMLSelectElement;
  const showChoice = (): void => {
    const now = app.reports.length > 1 ? app.alignedBy() : undefined,
      makeOption = (how: string, word: Word): HTMLElement => h("option", { value: how }, t(word));
    choose.hidden = app.reports.length < 2;
    choose.setAttribute("aria-label", t("align"));
    choose.title = t("align");
    if (choose.hidden) return;
    fillElement(
      choose,
      app.listAlignments().map((how) => makeOption(how, `align_${how}`)),
      now ? null : makeOption("own", "align_own"),
    );
    choose.value = now ?? "own";
  };
  choose.addEventListener("change", () => {
    const how = app.listAlignments().find((how) => how === choose.value);
    if (how) app.alignReports(how);
  });
  for (const what of ["ready", "words", "align"]) app.on(what, showChoice);
  choose.hidden = true;
  return choose;
}

function bootPage(): void {
  const page = makeParts(),
    { app, timeline, labels, panels, input, search, critical } = page;
  assemblePage(page);
  connectParts(page);
  followShares(app);
  keepAddress(app);
  /* For tests and the curious. */
  (window as unknown as { warpsight: unknown }).warpsight = {
    app,
    timeline,
    labels,
    panels,
    input,
    search,
    critical,
  };
  void app.startReports();
}

bootPage();
