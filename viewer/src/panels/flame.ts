/**
 * A flame graph: boxes as wide as what they stand for, callees below callers. A click widens one to
 * the whole width, a search marks names and says their share, arrows go from box to box. What boxes
 * are called, coloured and said of is the caller's.
 */

import { h } from "../dom";
import { cleanText, formatPercent } from "../format";
import { t } from "../i18n";
import { writeColor, inkOn, type RGB } from "../colors";
import { hideTip, showTip } from "../menu";

export interface Box {
  name?: string; // the root has none
  total: number;
  children: Box[];
}

export interface FlameLook<N extends Box> {
  rootName: () => string;
  color: (n: N, name: string) => RGB | null; // null: the quiet colour
  tip: (n: N, name: string) => string[];
  onZoom: () => void;
}

const LINE = 18;
const MOST_BOXES = 4000;

/** Boxes next to one another, by what the arrow keys say. */
interface Placed {
  cell: HTMLElement;
  depth: number;
  parent: number;
}

export class FlameGraph<N extends Box> {
  readonly root = h("div", { class: "flame" });
  readonly search: HTMLInputElement;
  readonly matched = h("span", { class: "quiet", role: "status" });
  private all: N | null = null;
  private path: N[] = []; // from the root to what fills the width
  private placed: Placed[] = [];

  constructor(private look: FlameLook<N>) {
    new ResizeObserver(() => this.drawGraph()).observe(this.root);
    this.search = h("input", {
      type: "search",
      class: "flamesearch",
      maxlength: 200,
      oninput: () => this.drawGraph(),
    });
    this.root.addEventListener("keydown", (event) => this.pressKey(event));
  }

  setRoot(all: N): void {
    this.all = all;
    this.path = [all];
  }

  isZoomed(): boolean {
    return this.path.length > 1;
  }

  resetZoom(): void {
    this.zoomTo(this.all ? [this.all] : []);
  }

  private zoomTo(path: N[]): void {
    this.path = path;
    this.drawGraph();
    this.look.onZoom();
    this.placed[path.length - 1]?.cell.focus({ preventScroll: true }); // its box is a new one
  }

  private nameOf(n: N): string {
    return n.name === undefined ? this.look.rootName() : cleanText(n.name, 200);
  }

  /** Share of all that has the name somewhere in its stack: a name below itself counts once. */
  private shareMatched(n: N, wanted: string): number {
    if (n.name !== undefined && this.nameOf(n).toLowerCase().includes(wanted)) return n.total;
    return n.children.reduce((s, c) => s + this.shareMatched(c as N, wanted), 0);
  }

  /** One box; its number among those that are placed. */
  private makeBox(
    n: N,
    path: N[],
    x: number,
    w: number,
    depth: number,
    parent: number,
    wanted: string,
  ): number {
    const name = this.nameOf(n),
      c = n.name === undefined ? null : this.look.color(n, name),
      off = wanted && !(n.name !== undefined && name.toLowerCase().includes(wanted));
    const cell = h(
      "button",
      {
        class: `cell ${off ? "off" : ""}`,
        tabindex: this.placed.length ? -1 : 0,
        style: {
          left: `${x}px`,
          top: `${depth * LINE}px`,
          width: `${Math.max(1, w - 1)}px`,
          background: c ? writeColor(c) : "var(--line)",
          color: c ? inkOn(c) : "var(--text)",
        },
        onclick: () => this.zoomTo(path),
        onpointermove: (event: PointerEvent) =>
          showTip(event.clientX, event.clientY, [name, ...this.look.tip(n, name)]),
        onpointerleave: hideTip,
      },
      w > 30 ? h("bdi", null, name) : "",
    );
    if (w <= 30) cell.setAttribute("aria-label", name);
    cell.setAttribute("aria-description", this.look.tip(n, name).join(" "));
    return this.placed.push({ cell, depth, parent }) - 1;
  }

  /**
   * The box of a node and those below it, line by line: when there are too many, it is the
   * deepest that are left out.
   */
  private makeBoxes(
    top: N,
    path: N[],
    width: number,
    depth: number,
    parent: number,
    wanted: string,
  ): void {
    let line = [{ n: top, path, x: 0, w: width, parent }];
    for (; line.length && this.placed.length < MOST_BOXES; depth++) {
      const below: typeof line = [];
      for (const b of line) {
        const mine = this.makeBox(b.n, b.path, b.x, b.w, depth, b.parent, wanted);
        let x = b.x;
        for (const node of b.n.children as N[]) {
          const width = (node.total / (b.n.total || 1)) * b.w;
          if (width >= 1.5)
            below.push({ n: node, path: [...b.path, node], x, w: width, parent: mine });
          x += width;
        }
      }
      line = below;
    }
  }

  drawGraph(): void {
    const wanted = this.search.value.trim().toLowerCase();
    const focused = this.findFocused();
    const before = focused >= 0 ? this.nameAncestors(focused) : null;
    this.search.placeholder = t("find_function");
    this.search.setAttribute("aria-label", t("find_function"));
    this.placed = [];
    if (!this.all) return;
    this.matched.textContent = wanted
      ? formatPercent(this.shareMatched(this.all, wanted) / (this.all.total || 1))
      : "";
    const width = this.root.clientWidth || 800;
    const last = this.path.length - 1;
    for (let i = 0; i < last; i++) {
      const name = this.nameOf(this.path[i]);
      const cell = h(
        "button",
        {
          class: "cell above",
          tabindex: i ? -1 : 0,
          style: { left: "0", top: `${i * LINE}px`, width: `${width}px` },
          onclick: () => this.zoomTo(this.path.slice(0, i + 1)),
        },
        h("bdi", null, name),
      );
      this.placed.push({ cell, depth: i, parent: i - 1 });
    }
    this.makeBoxes(this.path[last], this.path, width, last, last - 1, wanted);
    this.root.replaceChildren(...this.placed.map((p) => p.cell));
    if (before !== null) this.focusAgain(before);
    const deepest = this.placed.reduce((most, placed) => Math.max(most, placed.depth), 0);
    this.root.style.height = `${(deepest + 1) * LINE}px`;
  }

  /** Which of the boxes has the keyboard; -1: none. */
  private findFocused(): number {
    return this.placed.findIndex((p) => p.cell === document.activeElement);
  }

  /** The names of a box and of those above it, as one text. */
  private nameAncestors(index: number): string {
    const names: string[] = [];
    for (let i = index; i >= 0; i = this.placed[i].parent) {
      const cell = this.placed[i].cell;
      names.push(cell.getAttribute("aria-label") ?? cell.textContent ?? "");
    }
    return names.join("\n");
  }

  /** The boxes are new ones, after new data came or the width changed: the keyboard stays. */
  private focusAgain(names: string): void {
    const index = this.placed.findIndex((_, i) => this.nameAncestors(i) === names);
    this.placed[index < 0 ? 0 : index]?.cell.focus({ preventScroll: true });
  }

  /** Down to the first below, up to what it is below, left and right along a depth. */
  private pressKey(event: KeyboardEvent): void {
    const i = this.findFocused();
    if (i < 0) return;
    const here = this.placed[i];
    const next = {
      ArrowUp: () => here.parent,
      ArrowDown: () => this.placed.findIndex((p) => p.parent === i),
      ArrowRight: () => this.placed.findIndex((p, k) => k > i && p.depth === here.depth),
      ArrowLeft: () =>
        this.placed.reduce((found, p, k) => (k < i && p.depth === here.depth ? k : found), -1),
    }[event.key as "ArrowUp"]?.();
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (next >= 0) this.placed[next].cell.focus();
  }
}
