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
      for (const r of list) {
        const y = this.timeline.top(r);
        if (y + r.h < (r.pinned ? 0 : this.timeline.pinnedHeight) || y > this.timeline.areaHeight)
          continue;
        seen.add(r.key);
        this.show(r, y);
      }
    for (const [key, e] of this.shown)
      if (!seen.has(key)) {
        e.remove();
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

  private show(r: Row, y: number): void {
    let e = this.shown.get(r.key);
    if (!e || e.dataset.open !== String(r.open) || e.dataset.state !== this.state(r)) {
      const fresh = this.make(r);
      if (e) e.replaceWith(fresh);
      else this.pane.append(fresh);
      this.shown.set(r.key, fresh);
      e = fresh;
      if (this.focused === r.key && document.activeElement === document.body)
        e.focus({ preventScroll: true });
    }
    e.style.transform = `translateY(${y}px)`;
    e.style.height = `${r.h}px`;
    e.style.zIndex = r.pinned ? "2" : "";
    this.showSwatch(r, e);
    const busy = e.querySelector(".busy");
    const b = this.app.busyNow.get(r.key);
    if (busy) busy.textContent = b !== undefined && b > 0 ? percent(b) : "";
  }

  /** It has the colour of the row's bars; where none is in sight, that of those seen before. */
  private showSwatch(r: Row, e: HTMLElement): void {
    const swatch = e.querySelector<HTMLElement>(".swatch");
    if (!swatch || (swatch.dataset.round === String(this.round) && swatch.style.background)) return;
    const color = this.timeline.barColor(r);
    if (!color) return;
    swatch.style.background = color;
    swatch.dataset.round = String(this.round);
  }

  private state(r: Row): string {
    const name = this.app.rows.names.get(r.key);
    return [r.levels ?? 0, r.ready ?? 0, r.pinned, r.children.length, name].join(" ");
  }

  /** What a row is called; one that is pinned, away from what it is below, with that. */
  private nameOf(r: Row): string {
    const names: string[] = [];
    for (
      let p: Row | undefined = r;
      p;
      p = r.pinned ? this.app.rows.byKey.get(p.parentKey) : undefined
    )
      names.push(this.app.rows.names.get(p.key) ?? "");
    return names.filter(Boolean).join(" · ");
  }

  private titleOf(r: Row, name: string): string {
    const events = r.count !== undefined ? ` – ${t("n_events", count(r.count))}` : "",
      deeper = r.hidden ? ` – ${t("deeper", count(r.hidden))}` : "",
      cmdline = r.cmdline ? `\n${clean(r.cmdline, 1000)}` : "";
    return name + events + deeper + cmdline;
  }

  private make(r: Row): HTMLElement {
    const group = r.lane === undefined,
      foldable = group
        ? r.children.length > 0
        : ((r.levels ?? 1) > 1 || opensToNames(r)) && !isCounter(r);
    const name = this.nameOf(r);
    const e = h(
      "div",
      {
        class: `label ${group ? "group" : "lane"} ${r.pinned ? "pinned" : ""}`,
        role: "treeitem",
        "aria-level": r.depth + 1,
        "aria-expanded": foldable ? String(r.open) : undefined,
        tabindex:
          this.focused === r.key || (!this.focused && r === this.app.rows.visible[0]) ? 0 : -1,
        "data-key": r.key,
        "data-open": String(r.open),
        "data-state": this.state(r),
        "data-type": r.type,
        style: { paddingLeft: `${6 + r.depth * (innerWidth < 600 ? 5 : 13)}px` },
        title: this.titleOf(r, name),
      },
      h("span", {
        class: `fold ${foldable ? (r.open ? "open" : "closed") : ""}`,
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
    const now = (): Row => this.app.rows.byKey.get(r.key) ?? r;
    e.addEventListener("click", (ev) => {
      this.focus(now());
      if (foldable && !(ev.target as HTMLElement).classList.contains("grip")) this.toggle(now());
    });
    e.addEventListener("contextmenu", (ev) => {
      ev.preventDefault();
      this.onMenu(now(), ev.clientX, ev.clientY);
    });
    e.addEventListener("keydown", (ev) => this.key(ev, now()));
    this.grip(e.querySelector(".grip") as HTMLElement, now);
    this.dragging(e, now);
    return e;
  }

  toggle(r: Row): void {
    this.app.setOpen(r, !r.open);
    this.app.layoutRows();
  }

  private focus(r: Row): void {
    this.focused = r.key;
    for (const e of this.shown.values()) e.tabIndex = e.dataset.key === r.key ? 0 : -1;
    this.shown.get(r.key)?.focus({ preventScroll: true });
  }

  private key(e: KeyboardEvent, r: Row): void {
    const list = this.app.rows.visible,
      i = list.indexOf(r);
    const go = (to: Row | undefined): void => {
      if (!to) return;
      this.focused = to.key;
      this.app.scrollTo?.(to, 0);
      this.update();
      this.focus(to);
    };
    const done = (): void => {
      e.preventDefault();
      e.stopPropagation();
    };
    if (e.key === "ArrowDown") go(list[i + 1]);
    else if (e.key === "ArrowUp") go(list[i - 1]);
    else if (e.key === "ArrowRight" && !r.open) this.toggle(r);
    else if (e.key === "ArrowRight") go(list[i + 1]);
    else if (e.key === "ArrowLeft" && r.open) this.toggle(r);
    else if (e.key === "ArrowLeft") go(this.app.rows.byKey.get(r.parentKey));
    else if (e.key === "Enter" || e.key === " ") this.toggle(r);
    else if (e.key === "Delete") {
      this.app.setHidden(r, true);
      this.app.layoutRows();
      // what has come into its place
      go(this.app.rows.visible[Math.min(i, this.app.rows.visible.length - 1)]);
    } else if (e.key === "ContextMenu" || (e.key === "F10" && e.shiftKey)) {
      const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
      this.onMenu(r, box.left + 40, box.top + 10);
    } else return;
    done();
    if (e.key === "ArrowRight" || e.key === "ArrowLeft" || e.key === "Enter" || e.key === " ")
      this.shown.get(this.focused || r.key)?.focus({ preventScroll: true });
  }

  /** The lower edge of a label changes the height of its row. */
  private grip(grip: HTMLElement, now: () => Row): void {
    grip.addEventListener("pointerdown", (e) => {
      const r = now();
      e.preventDefault();
      e.stopPropagation();
      const y = e.clientY,
        before = r.height,
        levels = Math.max(1, r.lane !== undefined && !isCounter(r) ? r.shown : 1);
      const move = (m: PointerEvent): void => {
        this.app.setHeight(r, before + (m.clientY - y) / levels);
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
  private dragging(e: HTMLElement, now: () => Row): void {
    e.addEventListener("pointerdown", (down) => {
      if (down.button !== 0) return;
      const r = now();
      const y = down.clientY;
      let moving = false;
      const move = (m: PointerEvent): void => {
        if (!moving && Math.abs(m.clientY - y) < 8) return;
        moving = true;
        document.body.classList.add("dragging");
      };
      const up = (m: PointerEvent): void => {
        window.removeEventListener("pointermove", move);
        window.removeEventListener("pointerup", up);
        document.body.classList.remove("dragging");
        if (!moving) return;
        const box = this.pane.getBoundingClientRect();
        let over = this.timeline.rowAt(m.clientY - box.top);
        while (over && over.parentKey !== r.parentKey)
          over = this.app.rows.byKey.get(over.parentKey);
        if (!over || over === r) return;
        const siblings = this.app.rows.byKey.get(r.parentKey)?.children ?? this.app.rows.roots;
        this.app.rows.move(r, siblings.indexOf(over) - siblings.indexOf(r));
        this.app.store();
        this.app.layoutRows();
      };
      window.addEventListener("pointermove", move);
      window.addEventListener("pointerup", up);
    });
  }
}
