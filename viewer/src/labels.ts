/**
 * The column of row names: only those in sight are elements. A tree for keyboards and screen
 * readers.
 */

import type { App } from "./app";
import type { Timeline } from "./timeline";
import { AXIS } from "./timeline";
import type { Row } from "./layout";
import { isCounter, opensToNames } from "./layout";
import { cleanText, formatCount, formatPercent } from "./format";
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
    this.pane.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    for (const what of ["layout", "scroll", "words"]) app.on(what, () => this.updateLabels());
    app.on("busy", () => {
      this.round++; // the window has come to rest
      this.updateLabels();
    });
    app.on("theme", () => {
      this.shown.clear();
      this.updateLabels();
    });
    this.nameParts();
    app.on("words", () => this.nameParts());
  }

  private nameParts(): void {
    this.filter.placeholder = t("filter_rows");
    this.filter.setAttribute("aria-label", t("filter_rows"));
    this.pane.setAttribute("aria-label", t("row_names"));
    this.shown.clear();
  }

  showAll(): void {
    for (const row of this.app.rows.hiddenRows()) this.app.setHidden(row, false);
    this.app.layoutRows();
  }

  private updateLabels(): void {
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
        this.showRow(row, y);
      }
    for (const [key, element] of this.shown)
      if (!seen.has(key)) {
        element.remove();
        this.shown.delete(key);
      }
    for (const element of [...this.pane.children])
      if (!this.shown.has((element as HTMLElement).dataset.key ?? "")) element.remove();
    this.keepReachable();
  }

  /** Tab reaches one name: the one that had the focus, or otherwise the first in sight. */
  private keepReachable(): void {
    const names = [...this.pane.children] as HTMLElement[];
    if (names.some((element) => element.tabIndex === 0)) return;
    const topOf = (box: HTMLElement): number => box.getBoundingClientRect().top;
    const first = names.reduce<HTMLElement | null>(
      (a, b) => (a && topOf(a) <= topOf(b) ? a : b),
      null,
    );
    if (first) first.tabIndex = 0;
  }

  private showRow(row: Row, y: number): void {
    let element = this.shown.get(row.key);
    if (
      !element ||
      element.dataset.open !== String(row.open) ||
      element.dataset.state !== this.describeState(row)
    ) {
      const fresh = this.makeLabel(row);
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
    if (busy) busy.textContent = b !== undefined && b > 0 ? formatPercent(b) : "";
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

  private describeState(row: Row): string {
    const name = this.app.rows.names.get(row.key);
    return [row.levels ?? 0, row.ready ?? 0, row.pinned, row.children.length, name].join(" ");
  }

  /** The name of a row. A row that is pinned, away from its parent, also has its parent's name. */
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

  /** Where in its job a rank is, as a line; empty for a report that is not of a rank. */
  private placeOf(row: Row): string {
    if (row.rank === undefined) return "";
    const parts = [t("rank", row.rank)];
    if (row.world) parts[0] = t("rank_of", row.rank, row.world);
    if (row.local_rank !== undefined) parts.push(t("local_rank", row.local_rank));
    if (row.host) parts.push(t("on_host", cleanText(row.host, 100)));
    if (row.gpus) parts.push(t("sees_gpus", cleanText(row.gpus, 100)));
    return `\n${parts.join(", ")}`;
  }

  private titleOf(row: Row, name: string): string {
    const events = row.count !== undefined ? ` – ${t("n_events", formatCount(row.count))}` : "",
      deeper = row.hidden ? ` – ${t("deeper", formatCount(row.hidden))}` : "",
      cmdline = row.cmdline ? `\n${cleanText(row.cmdline, 1000)}` : "";
    return name + events + deeper + this.placeOf(row) + cmdline;
  }

  private makeLabel(row: Row): HTMLElement {
    const group = row.lane === undefined,
      foldable = group
        ? row.children.length > 0
        : row.parts !== undefined ||
          (((row.levels ?? 1) > 1 || opensToNames(row)) && !isCounter(row));
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
        "data-state": this.describeState(row),
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
    const currentRow = (): Row => this.app.rows.byKey.get(row.key) ?? row;
    element.addEventListener("click", (ev) => {
      this.focusRow(currentRow());
      if (foldable && !(ev.target as HTMLElement).classList.contains("grip"))
        this.toggleRow(currentRow());
    });
    element.addEventListener("contextmenu", (ev) => {
      ev.preventDefault();
      this.onMenu(currentRow(), ev.clientX, ev.clientY);
    });
    element.addEventListener("keydown", (ev) => this.pressKey(ev, currentRow()));
    this.makeGrip(element.querySelector(".grip") as HTMLElement, currentRow);
    this.makeDraggable(element, currentRow);
    return element;
  }

  toggleRow(row: Row): void {
    this.app.setOpen(row, !row.open);
    this.app.layoutRows();
  }

  private focusRow(row: Row): void {
    this.focused = row.key;
    for (const element of this.shown.values())
      element.tabIndex = element.dataset.key === row.key ? 0 : -1;
    this.shown.get(row.key)?.focus({ preventScroll: true });
  }

  private pressKey(event: KeyboardEvent, row: Row): void {
    const list = this.app.rows.visible,
      i = list.indexOf(row);
    const goTo = (to: Row | undefined): void => {
      if (!to) return;
      this.focused = to.key;
      this.app.scrollTo?.(to, 0);
      this.updateLabels();
      this.focusRow(to);
    };
    const endEditing = (): void => {
      event.preventDefault();
      event.stopPropagation();
    };
    if (event.key === "ArrowDown") goTo(list[i + 1]);
    else if (event.key === "ArrowUp") goTo(list[i - 1]);
    else if (event.key === "ArrowRight" && !row.open) this.toggleRow(row);
    else if (event.key === "ArrowRight") goTo(list[i + 1]);
    else if (event.key === "ArrowLeft" && row.open) this.toggleRow(row);
    else if (event.key === "ArrowLeft") goTo(this.app.rows.byKey.get(row.parentKey));
    else if (event.key === "Enter" || event.key === " ") this.toggleRow(row);
    else if (event.key === "Delete") {
      this.app.setHidden(row, true);
      this.app.layoutRows();
      // what has come into its place
      goTo(this.app.rows.visible[Math.min(i, this.app.rows.visible.length - 1)]);
    } else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
      this.onMenu(row, box.left + 40, box.top + 10);
    } else return;
    endEditing();
    if (
      event.key === "ArrowRight" ||
      event.key === "ArrowLeft" ||
      event.key === "Enter" ||
      event.key === " "
    )
      this.shown.get(this.focused || row.key)?.focus({ preventScroll: true });
  }

  /** The lower edge of a label changes the height of its row. */
  private makeGrip(grip: HTMLElement, now: () => Row): void {
    grip.addEventListener("pointerdown", (event) => {
      const row = now();
      event.preventDefault();
      event.stopPropagation();
      const y = event.clientY,
        before = row.height,
        levels = Math.max(1, row.lane !== undefined && !isCounter(row) ? row.shown : 1);
      const movePointer = (moved: PointerEvent): void => {
        this.app.setHeight(row, before + (moved.clientY - y) / levels);
        this.app.layoutRows();
      };
      const releasePointer = (): void => {
        window.removeEventListener("pointermove", movePointer);
        window.removeEventListener("pointerup", releasePointer);
      };
      window.addEventListener("pointermove", movePointer);
      window.addEventListener("pointerup", releasePointer);
    });
  }

  /** Drag a label over a sibling to put it there. */
  private makeDraggable(element: HTMLElement, now: () => Row): void {
    element.addEventListener("pointerdown", (down) => {
      if (down.button !== 0) return;
      const row = now();
      const y = down.clientY;
      let moving = false;
      const movePointer = (event: PointerEvent): void => {
        if (!moving && Math.abs(event.clientY - y) < 8) return;
        moving = true;
        document.body.classList.add("dragging");
      };
      const releasePointer = (event: PointerEvent): void => {
        window.removeEventListener("pointermove", movePointer);
        window.removeEventListener("pointerup", releasePointer);
        document.body.classList.remove("dragging");
        if (!moving) return;
        const box = this.pane.getBoundingClientRect();
        let over = this.timeline.rowAt(event.clientY - box.top);
        while (over && over.parentKey !== row.parentKey)
          over = this.app.rows.byKey.get(over.parentKey);
        if (!over || over === row) return;
        const siblings = this.app.rows.byKey.get(row.parentKey)?.children ?? this.app.rows.roots;
        this.app.rows.moveRow(row, siblings.indexOf(over) - siblings.indexOf(row));
        this.app.storeState();
        this.app.layoutRows();
      };
      window.addEventListener("pointermove", movePointer);
      window.addEventListener("pointerup", releasePointer);
    });
  }
}
