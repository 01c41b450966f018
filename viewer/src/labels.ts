/**
 * The column of row names: only those in sight are elements. A tree for keyboards and screen
 * readers.
 */

import type { App } from "./app";
import type { Timeline } from "./timeline";
import { AXIS } from "./timeline";
import type { Row } from "./layout";
import { isCounter, opensToNames } from "./layout";
import { clean, count, percent } from "./format";
import { h } from "./dom";
import { t } from "./i18n";

export class Labels {
  readonly root: HTMLElement;
  private head: HTMLElement;
  private pane: HTMLElement;
  private shown = new Map<string, HTMLElement>();
  private filter: HTMLInputElement;
  private restore: HTMLButtonElement;
  private round = 0; // how often the window has come to rest
  focused = "";
  onMenu: (row: Row, x: number, y: number) => void = () => undefined;
  onWheel: (e: WheelEvent) => void = () => undefined;

  constructor(
    private app: App,
    private timeline: Timeline,
  ) {
    this.filter = h("input", { type: "search", class: "rowfilter", maxlength: 200 });
    this.filter.addEventListener("input", () => {
      app.rows.filter = this.filter.value.trim().toLowerCase();
      app.layoutRows();
      timeline.setScroll(0);
    });
    this.restore = h("button", { class: "restore", onclick: () => this.showAll() });
    this.head = h(
      "div",
      { class: "labelhead", style: { height: `${AXIS}px` } },
      this.filter,
      this.restore,
    );
    this.pane = h("div", { class: "labelpane", role: "tree" });
    this.root = h("div", { class: "labels" }, this.head, this.pane);
    this.pane.addEventListener("wheel", (e) => this.onWheel(e), { passive: false });
    for (const what of ["layout", "scroll", "words"]) app.on(what, () => this.update());
    app.on("busy", () => {
      this.round++; // the window has come to rest
      this.update();
    });
    app.on("theme", () => {
      this.shown.clear();
      this.update();
    });
    this.words();
    app.on("words", () => this.words());
  }

  private words(): void {
    this.filter.placeholder = t("filter_rows");
    this.filter.setAttribute("aria-label", t("filter_rows"));
    this.pane.setAttribute("aria-label", t("row_names"));
    this.shown.clear();
  }

  showAll(): void {
    for (const r of this.app.rows.hiddenRows()) this.app.setHidden(r, false);
    this.app.layoutRows();
  }

  private update(): void {
    const { rows } = this.app;
    if (!rows) return;
    const hidden = rows.hiddenRows().length,
      seen = new Set<string>();
    this.restore.hidden = !hidden;
    this.restore.textContent = t("rows_hidden", hidden);
    for (const list of [rows.pinned, rows.visible])
      for (const row of list) {
        const y = this.timeline.top(row);
        if (
          y + row.h < (row.pinned ? 0 : this.timeline.pinnedHeight) ||
          y > this.timeline.areaHeight
        )
          continue;
        seen.add(row.key);
        this.show(row, y);
      }
    for (const [key, element] of this.shown)
      if (!seen.has(key)) {
        element.remove();
        this.shown.delete(key);
      }
    for (const e of [...this.pane.children])
      if (!this.shown.has((e as HTMLElement).dataset.key ?? "")) e.remove();
    this.keepReachable();
  }

  /** Tab comes to one name: that which had the focus, or else the first in sight. */
  private keepReachable(): void {
    const names = [...this.pane.children] as HTMLElement[];
    if (names.some((e) => e.tabIndex === 0)) return;
    const top = (e: HTMLElement): number => e.getBoundingClientRect().top;
    const first = names.reduce<HTMLElement | null>((a, b) => (a && top(a) <= top(b) ? a : b), null);
    if (first) first.tabIndex = 0;
  }

  private show(row: Row, y: number): void {
    let element = this.shown.get(row.key);
    if (
      !element ||
      element.dataset.open !== String(row.open) ||
      element.dataset.state !== this.state(row)
    ) {
      const fresh = this.make(row);
      if (element) element.replaceWith(fresh);
      else this.pane.append(fresh);
      this.shown.set(row.key, fresh);
      element = fresh;
      if (this.focused === row.key && document.activeElement === document.body)
        element.focus({ preventScroll: true });
    }
    element.style.transform = `translateY(${y}px)`;
    element.style.height = `${row.h}px`;
    element.style.zIndex = row.pinned ? "2" : "";
    this.showSwatch(row, element);
    const busy = element.querySelector(".busy");
    const b = this.app.busyNow.get(row.key);
    if (busy) busy.textContent = b !== undefined && b > 0 ? percent(b) : "";
  }

  /** It has the colour of the row's bars; where none is in sight, that of those seen before. */
  private showSwatch(row: Row, element: HTMLElement): void {
    const swatch = element.querySelector<HTMLElement>(".swatch");
    if (!swatch || (swatch.dataset.round === String(this.round) && swatch.style.background)) return;
    const color = this.timeline.barColor(row);
    if (!color) return;
    swatch.style.background = color;
    swatch.dataset.round = String(this.round);
  }

  private state(r: Row): string {
    const name = this.app.rows.names.get(r.key);
    return [r.levels ?? 0, r.ready ?? 0, r.pinned, r.children.length, name].join(" ");
  }

  /** What a row is called; one that is pinned, away from what it is below, with that. */
  private nameOf(row: Row): string {
    const names: string[] = [];
    for (
      let line: Row | undefined = row;
      line;
      line = row.pinned ? this.app.rows.byKey.get(line.parentKey) : undefined
    )
      names.push(this.app.rows.names.get(line.key) ?? "");
    return names.filter(Boolean).join(" · ");
  }

  private titleOf(row: Row, name: string): string {
    const events = row.count !== undefined ? ` – ${t("n_events", count(row.count))}` : "",
      deeper = row.hidden ? ` – ${t("deeper", count(row.hidden))}` : "",
      cmdline = row.cmdline ? `\n${clean(row.cmdline, 1000)}` : "";
    return name + events + deeper + cmdline;
  }

  private make(row: Row): HTMLElement {
    const group = row.lane === undefined,
      foldable = group
        ? row.children.length > 0
        : ((row.levels ?? 1) > 1 || opensToNames(row)) && !isCounter(row);
    const name = this.nameOf(row);
    const element = h(
      "div",
      {
        class: `label ${group ? "group" : "lane"} ${row.pinned ? "pinned" : ""}`,
        role: "treeitem",
        "aria-level": row.depth + 1,
        "aria-expanded": foldable ? String(row.open) : undefined,
        tabindex:
          this.focused === row.key || (!this.focused && row === this.app.rows.visible[0]) ? 0 : -1,
        "data-key": row.key,
        "data-open": String(row.open),
        "data-state": this.state(row),
        "data-type": row.type,
        style: { paddingLeft: `${6 + row.depth * (innerWidth < 600 ? 5 : 13)}px` },
        title: this.titleOf(row, name),
      },
      h("span", {
        class: `fold ${foldable ? (row.open ? "open" : "closed") : ""}`,
        "aria-hidden": "true",
      }),
      group ? h("span", { class: "kind", "aria-hidden": "true" }) : h("span", { class: "swatch" }),
      h("bdi", { class: "name" }, name),
      h("span", { class: "busy" }),
      h("span", { class: "grip", "aria-hidden": "true" }),
    );
    /*
     * The tree may be read anew while this element stays: rows are looked up by key when
     * something happens.
     */
    const now = (): Row => this.app.rows.byKey.get(row.key) ?? row;
    element.addEventListener("click", (ev) => {
      this.focus(now());
      if (foldable && !(ev.target as HTMLElement).classList.contains("grip")) this.toggle(now());
    });
    element.addEventListener("contextmenu", (ev) => {
      ev.preventDefault();
      this.onMenu(now(), ev.clientX, ev.clientY);
    });
    element.addEventListener("keydown", (ev) => this.key(ev, now()));
    this.grip(element.querySelector(".grip") as HTMLElement, now);
    this.dragging(element, now);
    return element;
  }

  toggle(r: Row): void {
    this.app.setOpen(r, !r.open);
    this.app.layoutRows();
  }

  private focus(row: Row): void {
    this.focused = row.key;
    for (const e of this.shown.values()) e.tabIndex = e.dataset.key === row.key ? 0 : -1;
    this.shown.get(row.key)?.focus({ preventScroll: true });
  }

  private key(event: KeyboardEvent, row: Row): void {
    const list = this.app.rows.visible,
      i = list.indexOf(row);
    const go = (to: Row | undefined): void => {
      if (!to) return;
      this.focused = to.key;
      this.app.scrollTo?.(to, 0);
      this.update();
      this.focus(to);
    };
    const done = (): void => {
      event.preventDefault();
      event.stopPropagation();
    };
    if (event.key === "ArrowDown") go(list[i + 1]);
    else if (event.key === "ArrowUp") go(list[i - 1]);
    else if (event.key === "ArrowRight" && !row.open) this.toggle(row);
    else if (event.key === "ArrowRight") go(list[i + 1]);
    else if (event.key === "ArrowLeft" && row.open) this.toggle(row);
    else if (event.key === "ArrowLeft") go(this.app.rows.byKey.get(row.parentKey));
    else if (event.key === "Enter" || event.key === " ") this.toggle(row);
    else if (event.key === "Delete") {
      this.app.setHidden(row, true);
      this.app.layoutRows();
      // what has come into its place
      go(this.app.rows.visible[Math.min(i, this.app.rows.visible.length - 1)]);
    } else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
      this.onMenu(row, box.left + 40, box.top + 10);
    } else return;
    done();
    if (
      event.key === "ArrowRight" ||
      event.key === "ArrowLeft" ||
      event.key === "Enter" ||
      event.key === " "
    )
      this.shown.get(this.focused || row.key)?.focus({ preventScroll: true });
  }

  /** The lower edge of a label changes the height of its row. */
  private grip(grip: HTMLElement, now: () => Row): void {
    grip.addEventListener("pointerdown", (event) => {
      const row = now();
      event.preventDefault();
      event.stopPropagation();
      const y = event.clientY,
        before = row.height,
        levels = Math.max(1, row.lane !== undefined && !isCounter(row) ? row.shown : 1);
      const move = (m: PointerEvent): void => {
        this.app.setHeight(row, before + (m.clientY - y) / levels);
        this.app.layoutRows();
      };
      const up = (): void => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", up);
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", up);
    });
  }

  /** Drag a label over a sibling to put it there. */
  private dragging(element: HTMLElement, now: () => Row): void {
    element.addEventListener("pointerdown", (down) => {
      if (down.button !== 0) return;
      const row = now();
      const y = down.clientY;
      let moving = false;
      const move = (event: PointerEvent): void => {
        if (!moving && Math.abs(event.clientY - y) < 8) return;
        moving = true;
        document.body.classList.add("dragging");
      };
      const up = (event: PointerEvent): void => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", up);
        document.body.classList.remove("dragging");
        if (!moving) return;
        const box = this.pane.getBoundingClientRect();
        let over = this.timeline.rowAt(event.clientY - box.top);
        while (over && over.parentKey !== row.parentKey)
          over = this.app.rows.byKey.get(over.parentKey);
        if (!over || over === row) return;
        const siblings = this.app.rows.byKey.get(row.parentKey)?.children ?? this.app.rows.roots;
        this.app.rows.move(row, siblings.indexOf(over) - siblings.indexOf(row));
        this.app.store();
        this.app.layoutRows();
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", up);
    });
  }
}
