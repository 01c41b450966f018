/** Mouse, wheel and keys on the time line. */

import type { App, Hit, Marker } from "./app";
import type { Row } from "./layout";
import { STRIP, type Timeline } from "./timeline";
import type { EventDetail, Spot } from "./data";
import { Picker } from "./pick";
import {
  askText,
  closeMenu,
  hideTip,
  showHelp,
  showMenu,
  showTip,
  showToast,
  type Item,
} from "./menu";
import { cleanText, parseTime, formatTick } from "./format";
import { copyAndSay } from "./copy";
import { delayCalls } from "./dom";
import { t } from "./i18n";

/** A finger that moves less than so many pixels taps. */
const TAP = 8;

export class Input {
  private keys = new Set<string>();
  private moving = 0;
  private clicked: Promise<void> = Promise.resolve(); // until what was clicked is known
  private clicks = 0; // so that what comes late is not taken for what was clicked last
  private readonly picker: Picker;
  private x = 0;
  private y = 0;
  onEvents: (lanes: { report: number; lane: number }[], name?: string) => void = () => undefined;
  onSearch: (text?: string) => void = () => undefined;
  onPath: () => void = () => undefined;
  onDescribe: (row: Row | undefined, time: number) => string[] = () => [];
  onOnly: (row: Row) => void = () => undefined;

  constructor(
    private app: App,
    private timeline: Timeline,
  ) {
    const area = timeline.area;
    this.picker = new Picker(app, timeline);
    area.addEventListener("pointerdown", (event) => this.pressPointer(event));
    area.addEventListener("pointermove", (moved) => this.movePointer(moved));
    area.addEventListener("pointerleave", () => this.leaveArea());
    area.addEventListener("dblclick", () => void this.clicked.then(() => this.app.zoomToEvent()));
    area.addEventListener("contextmenu", (event) => this.openMenu(event));
    timeline.root.addEventListener("wheel", (event) => this.turnWheel(event), { passive: false });
    timeline.axis.addEventListener("pointerdown", (event) => this.axisDown(event));
    timeline.axis.addEventListener(
      "dblclick",
      (event) =>
        void this.editMarker(
          this.markerAt(event.clientX - timeline.axis.getBoundingClientRect().left),
        ),
    );
    timeline.axis.addEventListener("contextmenu", (event) => this.axisMenu(event));
    window.addEventListener("keydown", (event) => this.keyDown(event));
    window.addEventListener("keyup", (event) => this.keys.delete(event.code));
    window.addEventListener("blur", () => this.keys.clear());
    app.scrollTo = (row, level) => this.scrollTo(row, level);
  }

  private placeOf(event: MouseEvent): [number, number] {
    const rect = this.timeline.area.getBoundingClientRect();
    return [event.clientX - rect.left, event.clientY - rect.top];
  }

  /* ---- wheel ---- */

  turnWheel(event: WheelEvent): void {
    event.preventDefault();
    hideTip();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const dx = event.deltaX * unit,
      dy = event.deltaY * unit,
      [x] = this.placeOf(event);
    const scrolls =
      event.altKey || (this.app.settings.wheelScrolls && !event.ctrlKey && !event.metaKey);
    if (event.shiftKey) this.app.view.pan(dx || dy);
    else if (Math.abs(dx) > Math.abs(dy) * 1.5) this.app.view.pan(dx);
    else if (scrolls) this.timeline.setScroll(this.timeline.scroll + dy);
    else
      this.app.view.zoom(
        x,
        Math.exp(
          Math.max(-1, Math.min(1, dy * (event.ctrlKey && Math.abs(dy) < 20 ? 0.01 : 0.0022))),
        ),
      );
  }

  /* ---- pointer ---- */

  private pressPointer(event: PointerEvent): void {
    closeMenu();
    hideTip();
    this.timeline.area.focus({ preventScroll: true });
    if (event.button === 1 || (event.button === 0 && event.shiftKey)) {
      event.preventDefault();
      this.panView(event);
    } else if (event.pointerType === "touch") this.touchScreen(event);
    else if (event.button === 0) this.selectRange(event);
  }

  private readonly touches = new Map<number, [number, number]>();

  /** One finger moves what is shown, two zoom it, a tap selects. */
  private touchScreen(event: PointerEvent): void {
    const start = this.placeOf(event);
    let moved = false;
    this.touches.set(event.pointerId, start);
    this.followPointer(
      event,
      (m) => {
        if (m.pointerId !== event.pointerId) return;
        const [x, y] = this.placeOf(m),
          [oldX, oldY] = this.touches.get(event.pointerId)!;
        if (!moved && Math.hypot(x - start[0], y - start[1]) < TAP) return;
        moved = true;
        const other = [...this.touches].find(([id]) => id !== event.pointerId)?.[1];
        this.touches.set(event.pointerId, [x, y]);
        if (other) this.pinchView(other[0], oldX, x);
        else {
          this.app.view.pan(oldX - x);
          this.timeline.setScroll(this.timeline.scroll + oldY - y);
        }
      },
      (u) => {
        if (u.pointerId !== event.pointerId) return;
        const alone = this.touches.size === 1;
        this.touches.delete(event.pointerId);
        if (!moved && alone && u.type === "pointerup") this.clicked = this.clickEvent(...start);
      },
    );
  }

  /** A finger moves from `before` to `now` while another rests at `still`. */
  private pinchView(still: number, before: number, now: number): void {
    const least = 20,
      was = Math.max(least, Math.abs(before - still)),
      is = Math.max(least, Math.abs(now - still));
    this.app.view.zoom(still, was / is);
  }

  private followPointer(
    event: PointerEvent,
    move: (e: PointerEvent) => void,
    up: (e: PointerEvent) => void,
  ): void {
    const target = event.currentTarget as HTMLElement;
    target.setPointerCapture(event.pointerId);
    const endDrag = (moved: PointerEvent): void => {
      if (moved.pointerId !== event.pointerId) return;
      target.removeEventListener("pointermove", move);
      target.removeEventListener("pointerup", endDrag);
      target.removeEventListener("pointercancel", endDrag);
      up(moved);
    };
    target.addEventListener("pointermove", move);
    target.addEventListener("pointerup", endDrag);
    target.addEventListener("pointercancel", endDrag);
  }

  private panView(event: PointerEvent): void {
    let [x, y] = this.placeOf(event);
    document.body.classList.add("panning");
    this.followPointer(
      event,
      (event) => {
        const [nx, ny] = this.placeOf(event);
        this.app.view.pan(x - nx);
        this.timeline.setScroll(this.timeline.scroll + (y - ny));
        [x, y] = [nx, ny];
      },
      () => document.body.classList.remove("panning"),
    );
  }

  private selectRange(event: PointerEvent): void {
    const [x0, y0] = this.placeOf(event);
    const from = this.picker.snapTo(x0, y0) ?? this.app.view.t(x0);
    let dragging = false;
    this.followPointer(
      event,
      (event) => {
        const [x, y] = this.placeOf(event);
        if (!dragging && Math.abs(x - x0) < 4) return;
        dragging = true;
        const snap = event.altKey ? null : this.picker.snapTo(x, y);
        this.timeline.snapped = snap;
        this.timeline.drag = [from, snap ?? this.app.view.t(x)];
        this.timeline.redrawSoon();
      },
      () => {
        const drag = this.timeline.drag;
        this.timeline.drag = null;
        this.timeline.snapped = null;
        if (dragging && drag) {
          this.app.setRange(drag);
          if (event.ctrlKey || event.metaKey) void this.addNote();
          else this.app.emitEvent("statistics");
        } else this.clicked = this.clickEvent(x0, y0);
        this.timeline.redrawSoon();
      },
    );
  }

  /** Select what the pointer shows. */
  private async clickEvent(x: number, y: number): Promise<void> {
    const hit = this.picker.findAt(x, y),
      mine = ++this.clicks;
    if (!hit) {
      this.app.select(0, null);
      if (this.app.range) this.app.setRange(null);
      return;
    }
    const spot = await this.picker.spotOf(hit, x, () => mine === this.clicks);
    if (spot && mine === this.clicks) this.app.select(hit.row.report, spot);
  }

  private movePointer(event: PointerEvent): void {
    [this.x, this.y] = this.placeOf(event);
    this.app.pointer = this.app.view.t(this.x);
    if (event.buttons) return;
    const hit = this.picker.findAt(this.x, this.y);
    this.app.hover = hit;
    this.timeline.snapped = this.picker.snapTo(this.x, this.y);
    this.timeline.area.style.cursor = hit ? "pointer" : "crosshair";
    this.timeline.redrawSoon();
    const more = this.onDescribe(this.timeline.rowAt(this.y), this.app.pointer);
    if (!hit && !more.length) {
      hideTip();
      return;
    }
    const lines = hit ? this.timeline.describeHit(hit) : [];
    showTip(event.clientX, event.clientY, [...lines, ...more]);
    if (!hit) return;
    this.exactTip(hit, event.clientX, event.clientY);
  }

  /**
   * Tiles have no names of small events, no lengths of the longest of a group, and times of what
   * is far wider than they only in part: ask when the pointer rests.
   */
  private exactTip = delayCalls(120, async (hit: Hit, x: number, y: number) => {
    const isCurrent = (): boolean => this.app.hover === hit;
    if (!isCurrent() || Picker.isVague(hit)) return;
    const spot = await this.picker.spotOf(hit, this.x, isCurrent);
    if (!spot || !isCurrent()) return;
    const more = this.onDescribe(this.timeline.rowAt(this.y), this.app.view.t(this.x));
    showTip(x, y, [...this.timeline.describeHit(hit, spot), ...more]);
  });

  private leaveArea(): void {
    hideTip();
    this.app.hover = null;
    this.app.pointer = null;
    this.timeline.snapped = null;
    this.timeline.redrawSoon();
  }

  /* ---- the axis ---- */

  private axisDown(event: PointerEvent): void {
    const box = this.timeline.axis.getBoundingClientRect(),
      { view } = this.app;
    if (event.clientY - box.top < STRIP) {
      /* The map of the whole run: go there. */
      const movePoint = (event: PointerEvent): void => {
        const time =
            view.first + ((event.clientX - box.left) / box.width) * (view.last - view.first),
          half = (view.t1 - view.t0) / 2;
        view.set(time - half, time + half);
      };
      movePoint(event);
      this.followPointer(event, movePoint, () => undefined);
      return;
    }
    if (event.button === 1 || event.shiftKey) this.panView(event);
    else if (event.button === 0) {
      const from = view.t(event.clientX - box.left);
      this.followPointer(
        event,
        (moved) => {
          this.timeline.drag = [from, view.t(moved.clientX - box.left)];
          this.timeline.redrawSoon();
        },
        () => {
          const drag = this.timeline.drag;
          this.timeline.drag = null;
          if (drag && Math.abs(view.x(drag[0]) - view.x(drag[1])) > 3) {
            this.app.setRange(drag);
            this.app.emitEvent("statistics");
          }
          this.timeline.redrawSoon();
        },
      );
    }
  }

  private markerAt(x: number): number {
    const { markers, view } = this.app,
      near = markers.findIndex((mark) => Math.abs(view.x(mark.time) - x) < 7);
    if (near >= 0) return near;
    const time = view.t(x);
    return markers.findIndex((mark) => mark.time <= time && time <= (mark.end ?? mark.time));
  }

  private markerItems(i: number): Item[] {
    return i < 0
      ? []
      : [
          [t("edit_marker"), () => void this.editMarker(i)],
          [t("remove_marker"), () => this.removeMarker(i)],
          ...this.stretchItems(i),
          null,
        ];
  }

  private stretchItems(i: number): Item[] {
    const { time, end } = this.app.markers[i];
    if (end === undefined) return [];
    return [
      [
        t("select_event"),
        () => {
          this.app.setRange([time, end]);
          this.app.emitEvent("statistics");
        },
      ],
    ];
  }

  private removeMarker(i: number): void {
    this.app.markers.splice(i, 1);
    this.app.storeState();
    this.app.emitEvent("markers");
    this.app.emitEvent("draw");
  }

  private addMarkerItem(time: number): Item {
    return [
      t("add_marker"),
      () => {
        this.app.pointer = time;
        void this.addMarker();
      },
    ];
  }

  private viewItems(): Item[] {
    const { range } = this.app;
    return [
      ...((range
        ? [
            [t("note_range"), () => void this.addNote()],
            [t("zoom_range"), () => this.zoomToRange()],
            [t("end_range"), () => this.app.setRange(null)],
          ]
        : []) as Item[]),
      [t("go_to_time"), () => void this.goTo()],
      [t("copy_link"), () => copyAndSay(this.app.makeLink())],
      [t("undo"), () => this.app.view.undo()],
      [t("fit"), () => this.app.view.fit()],
    ];
  }

  private axisMenu(event: MouseEvent): void {
    event.preventDefault();
    const x = event.clientX - this.timeline.axis.getBoundingClientRect().left;
    showMenu(event.clientX, event.clientY, [
      ...this.markerItems(this.markerAt(x)),
      this.addMarkerItem(this.app.view.t(x)),
      ...this.viewItems(),
    ]);
  }

  private async editMarker(i: number): Promise<void> {
    if (i < 0) return;
    const note = await askText(t("marker_note"), this.app.markers[i].note);
    if (note === null) return;
    this.app.markers[i].note = note;
    this.app.storeState();
    this.app.emitEvent("markers");
    this.app.emitEvent("draw");
  }

  async addMarker(): Promise<void> {
    const time =
      this.timeline.snapped ??
      this.app.pointer ??
      this.app.selectedTime() ??
      (this.app.view.t0 + this.app.view.t1) / 2;
    await this.askNote({ time: Math.round(time), note: "" });
  }

  /** A note about the selected stretch. */
  async addNote(): Promise<void> {
    const { range } = this.app;
    if (!range) {
      showToast(t("nothing_to_note"));
      return;
    }
    await this.askNote({ time: Math.round(range[0]), end: Math.round(range[1]), note: "" });
  }

  /** Show a marker, and keep it unless the question about its note is given up. */
  private async askNote(marker: Marker): Promise<void> {
    this.app.markers.push(marker);
    this.app.markers.sort((a, b) => a.time - b.time);
    this.app.emitEvent("draw");
    const note = await askText(t("marker_note"), "");
    if (note === null)
      this.app.markers.splice(this.app.markers.indexOf(marker), 1); // given up
    else marker.note = note;
    this.app.storeState();
    this.app.emitEvent("markers");
    this.app.emitEvent("draw");
  }

  /* ---- menus ---- */

  private async openMenu(event: MouseEvent): Promise<void> {
    event.preventDefault();
    hideTip();
    const [x, y] = this.placeOf(event),
      hit = this.picker.findAt(x, y),
      row = this.timeline.rowAt(y),
      mine = ++this.clicks,
      isCurrent = (): boolean => mine === this.clicks,
      spot = hit && !Picker.isVague(hit) ? await this.picker.spotOf(hit, x, isCurrent) : null;
    if (!isCurrent()) return;
    if (hit && spot) this.app.select(hit.row.report, spot);
    showMenu(event.clientX, event.clientY, [
      ...(hit && spot ? this.eventItems(hit.row.report, spot, hit.lane.type) : []),
      ...this.markerItems(this.markerAt(x)),
      this.addMarkerItem(this.app.view.t(x)),
      ...this.viewItems(),
      ...this.rowItems(row),
    ]);
  }

  /** The same by keyboard: of the selected event, where that is. */
  private menuOfSelected(): void {
    const box = this.timeline.area.getBoundingClientRect(),
      selected = this.app.selected,
      row = selected ? this.app.laneRow(selected.report, selected.spot.lane) : undefined,
      time = this.app.selectedTime() ?? (this.app.view.t0 + this.app.view.t1) / 2,
      clampTo = (value: number, most: number): number => Math.max(0, Math.min(most - 20, value)),
      y = row
        ? this.timeline.top(row) + ((selected?.spot.level ?? 0) + 1) * row.height
        : box.height / 3;
    showMenu(
      box.left + clampTo(this.app.view.x(time), box.width),
      box.top + clampTo(y, box.height),
      [
        ...(selected && row ? this.eventItems(selected.report, selected.spot, row.type) : []),
        this.addMarkerItem(time),
        ...this.viewItems(),
        ...this.rowItems(row),
      ],
    );
  }

  private eventItems(report: number, spot: Spot, type: string): Item[] {
    const { app } = this;
    return [
      [t("zoom_to"), () => app.zoomToEvent()],
      ...((spot.end > spot.start
        ? [[t("select_event"), () => app.selectTime(report, spot)]]
        : []) as Item[]),
      [t("show_in_events"), () => this.onEvents([{ report, lane: spot.lane }])],
      [t("search_name"), () => this.onSearch(spot.name)],
      [t("events_of_name"), () => this.onEvents(this.lanesLike(type), spot.name)],
      [
        app.highlight !== null ? t("unhighlight") : t("highlight"),
        () => void app.setHighlight(app.highlight !== null ? null : spot.name),
      ],
      {
        label: t("color_name"),
        now: app.stored.nameColors[spot.name],
        pick: (c) => void app.setNameColor(spot.name, c),
      },
      [
        t("copy_text"),
        () => copyAndSay(`${cleanText(spot.name)}\t${spot.start}\t${spot.end - spot.start}`),
      ],
      ...((app.reports.length > 1
        ? [
            [t("align_report"), () => app.setOffset(report, -spot.start)],
            [t("align_name"), () => void app.alignByName(report, spot.name)],
          ]
        : []) as Item[]),
      null,
    ];
  }

  private rowItems(row: Row | null | undefined): Item[] {
    if (!row) return [];
    return [
      null,
      [t("only_row"), () => this.onOnly(row)],
      [t("hide_row"), () => this.hideRow(row)],
      [row.pinned ? t("unpin_row") : t("pin_row"), () => this.pinRow(row)],
      {
        label: t("color_row"),
        now: this.app.stored.colors[row.key],
        pick: (c) => this.app.setRowColor(row, c),
      },
    ];
  }

  hideRow(row: NonNullable<ReturnType<Timeline["rowAt"]>>): void {
    this.app.setHidden(row, true);
    this.app.layoutRows();
  }

  pinRow(row: NonNullable<ReturnType<Timeline["rowAt"]>>): void {
    this.app.setPinned(row, !row.pinned);
    this.app.layoutRows();
  }

  /** All rows of a type: what a name is looked for in. */
  private lanesLike(type: string): { report: number; lane: number }[] {
    return [...this.app.rows.byLane.values()]
      .filter((row) => row.type === type)
      .map((line) => ({ report: line.report, lane: line.lane! }));
  }

  /* ---- moves ---- */

  private scrollTo(
    row: { pinned: boolean; y: number; h: number; height: number; lane?: number },
    level: number,
  ): void {
    if (row.pinned) return;
    const y = row.y + (row.lane !== undefined ? level * row.height : 0),
      room = this.timeline.areaHeight - this.timeline.pinnedHeight;
    if (y < this.timeline.scroll + 10) this.timeline.setScroll(y - 40);
    else if (y + Math.min(row.h, 40) > this.timeline.scroll + room)
      this.timeline.setScroll(y - room + 80);
  }

  /**
   * Ask for a moment ("1.25 s", "310ms", "2 min 3 s"; seconds without a unit), and put it in the
   * middle.
   */
  private async goTo(): Promise<void> {
    const said = await askText(
      t("go_to"),
      formatTick(
        Math.round((this.app.view.t0 + this.app.view.t1) / 2),
        Math.max(1, this.app.view.scale),
      ),
    );
    if (said === null) return;
    const at = parseTime(said),
      half = (this.app.view.t1 - this.app.view.t0) / 2;
    if (at === null) showToast(t("no_time", said));
    else this.app.view.set(at - half, at + half);
  }

  /** The marker after the middle of the window, or before it. */
  private toMarker(back: boolean): void {
    const { view, markers } = this.app,
      mid = (view.t0 + view.t1) / 2,
      away = view.scale; // the one that is there already is not the next
    const all = markers
      .map((marker) => marker.time)
      .filter((m) => (back ? m < mid - away : m > mid + away));
    if (!all.length) return;
    const at = back ? Math.max(...all) : Math.min(...all);
    view.set(at - (mid - view.t0), at + (view.t1 - mid));
  }

  zoomToRange(): void {
    if (this.app.range) this.app.view.set(...this.app.range);
    else this.app.zoomToEvent();
  }

  /** The event before or after on the row, or the one around it, or the first inside it. */
  private async stepEvents(key: string): Promise<void> {
    const selected = this.app.selected;
    if (!selected) return;
    const { spot, report } = selected;
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const by = key === "ArrowLeft" ? -1 : 1,
        askEvent = (event: number): Promise<EventDetail | undefined> =>
          this.app.ask<EventDetail>("event", {
            r: report,
            lane: spot.lane,
            level: spot.level,
            event,
          });
      // it is the last
      if (by > 0 && spot.event + 1 >= ((selected.detail ?? (await askEvent(spot.event)))?.of ?? 0))
        return;
      const detail = await askEvent(spot.event + by);
      if (detail) this.app.select(report, detail, true);
      return;
    }
    const level = spot.level + (key === "ArrowUp" ? -1 : 1);
    if (level < 0) return;
    const r = await this.app.ask<{ events: Spot[] }>("at", {
      r: report,
      lane: spot.lane,
      level,
      t0: spot.start,
      t1: Math.max(spot.start + 1, key === "ArrowUp" ? spot.start + 1 : spot.end),
      limit: 1,
    });
    if (r?.events[0]) this.app.select(report, r.events[0], true);
  }

  private async followArrow(key: string): Promise<void> {
    const selected = this.app.selected;
    if (!selected) {
      if (key === "ArrowLeft" || key === "ArrowRight")
        this.app.view.pan(key === "ArrowLeft" ? -this.app.view.width / 8 : this.app.view.width / 8);
      else this.timeline.setScroll(this.timeline.scroll + (key === "ArrowUp" ? -40 : 40));
      return;
    }
    if (key === "ArrowLeft" && selected.spot.event === 0) return;
    await this.stepEvents(key);
  }

  private readonly flying = new Set(["KeyW", "KeyA", "KeyS", "KeyD"]);

  /** W, A, S and D go on as long as they are held. */
  private flyView(last: number): void {
    requestAnimationFrame((now) => {
      const dt = Math.min(50, now - last) / 1000,
        { view } = this.app;
      if (!this.keys.size) {
        this.moving = 0;
        return;
      }
      const x = this.app.pointer !== null ? this.x : view.width / 2;
      if (this.keys.has("KeyW")) view.zoom(x, Math.exp(-3 * dt));
      if (this.keys.has("KeyS")) view.zoom(x, Math.exp(3 * dt));
      if (this.keys.has("KeyA")) view.pan(-view.width * 1.2 * dt);
      if (this.keys.has("KeyD")) view.pan(view.width * 1.2 * dt);
      this.flyView(now);
    });
  }

  private keyDown(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const typing = target.closest("input, textarea, select, dialog") !== null;
    const ctrl = event.ctrlKey || event.metaKey;
    if (ctrl && event.code === "KeyF") {
      event.preventDefault();
      this.onSearch();
      return;
    }
    if (typing) return;
    if (
      target === this.timeline.area &&
      (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey))
    ) {
      event.preventDefault();
      this.menuOfSelected();
      return;
    }
    if (ctrl && event.code === "KeyM") {
      event.preventDefault();
      void this.addMarker();
    } else if (ctrl && event.code === "KeyZ") {
      event.preventDefault();
      this.app.view.undo();
    } else if (!ctrl && !event.altKey) this.plainKey(event);
  }

  private plainKey(event: KeyboardEvent): void {
    const page = Math.round(this.timeline.areaHeight * 0.8);
    const actions: Record<string, () => void> = {
      "?": () => showHelp(this.app.theme.dark),
      "/": () => this.onSearch(),
      "0": () => this.app.view.fit(),
      Home: () => this.app.view.fit(),
      m: () => void this.addMarker(),
      n: () => void this.addNote(),
      Z: () => this.zoomToRange(),
      z: () => this.app.zoomToEvent(),
      c: () => this.onPath(),
      g: () => void this.goTo(),
      ",": () => this.toMarker(true),
      ".": () => this.toMarker(false),
      u: () => this.app.view.undo(),
      U: () => this.app.view.redo(),
      Backspace: () => (event.shiftKey ? this.app.view.redo() : this.app.view.undo()),
      PageUp: () => this.timeline.setScroll(this.timeline.scroll - page),
      PageDown: () => this.timeline.setScroll(this.timeline.scroll + page),
      "+": () => this.app.view.zoom(this.app.view.width / 2, 0.7),
      "-": () => this.app.view.zoom(this.app.view.width / 2, 1.4),
      Escape: () => this.leaveMode(),
    };
    if (this.flying.has(event.code) && !event.shiftKey) {
      this.keys.add(event.code);
      if (!this.moving) {
        this.moving = 1;
        this.flyView(performance.now());
      }
    } else if (event.key.startsWith("Arrow")) void this.followArrow(event.key);
    else if (actions[event.key]) actions[event.key]();
    else return;
    event.preventDefault();
  }

  private leaveMode(): void {
    if (closeMenu()) return;
    hideTip();
    if (this.app.highlight !== null) void this.app.setHighlight(null);
    else if (this.app.range) this.app.setRange(null);
    else this.app.select(0, null);
    this.app.emitEvent("draw");
  }
}
