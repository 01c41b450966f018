/** Context menus, dialogs, tooltips: what lies over the page. */

import { CLASS_KERNEL, CLASS_OWN, OWN_COPY, OWN_MEMSET } from "generated/constants";
import { h } from "./dom";
import { t, listKeys } from "./i18n";
import { CHOICES, writeColor, classColor, ownColor, STATES } from "./colors";

let open: HTMLElement | null = null;
let back: Element | null = null;

/** A line of a menu; one of colours to pick from (null: the usual ones); or a rule. */
export type Item =
  | [text: string, run: () => void]
  | { label: string; now: number | undefined; pick: (color: number | null) => void }
  | null;

export function closeMenu(): boolean {
  if (!open) return false;
  open.remove();
  open = null;
  if (back instanceof HTMLElement && back.isConnected) back.focus({ preventScroll: true });
  return true;
}

function menuItem(
  props: Record<string, unknown>,
  run: () => void,
  ...children: (Node | string)[]
): HTMLElement {
  return h(
    "button",
    { role: "menuitem", ...props, onclick: () => (closeMenu(), run()) },
    ...children,
  );
}

function showColors(i: {
  label: string;
  now: number | undefined;
  pick: (color: number | null) => void;
}): HTMLElement {
  return h(
    "div",
    { class: "choose", role: "group", "aria-label": i.label },
    h("span", { class: "quiet" }, i.label),
    h(
      "span",
      { class: "choices" },
      CHOICES.map(([word, color], n) =>
        menuItem(
          {
            class: `swatchbutton ${n === i.now ? "on" : ""}`,
            title: t(word),
            "aria-label": `${i.label}: ${t(word)}`,
            style: { background: writeColor(color) },
          },
          () => i.pick(n),
        ),
      ),
      menuItem(
        {
          class: "swatchbutton",
          title: t("usual_color"),
          "aria-label": `${i.label}: ${t("usual_color")}`,
        },
        () => i.pick(null),
        "✕",
      ),
    ),
  );
}

export function showMenu(x: number, y: number, items: Item[]): void {
  closeMenu();
  hideTip();
  back = document.activeElement;
  const menu = h(
    "div",
    { class: "menu", role: "menu" },
    items.map((i) =>
      i === null ? h("hr") : Array.isArray(i) ? menuItem({}, i[1], i[0]) : showColors(i),
    ),
  );
  document.body.append(menu);
  const box = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(0, Math.min(x, innerWidth - box.width - 4))}px`;
  menu.style.top = `${Math.max(0, Math.min(y, innerHeight - box.height - 4))}px`;
  open = menu;
  menu.addEventListener("keydown", (event) => {
    const all = [...menu.querySelectorAll("button")],
      i = all.indexOf(document.activeElement as HTMLButtonElement);
    if (event.key === "ArrowDown" || event.key === "ArrowRight") all[(i + 1) % all.length].focus();
    else if (event.key === "ArrowUp" || event.key === "ArrowLeft")
      all[(i + all.length - 1) % all.length].focus();
    else if (event.key === "Escape") closeMenu();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  menu.querySelector("button")?.focus();
}

document.addEventListener("pointerdown", (event) => {
  if (open && !open.contains(event.target as Node)) closeMenu();
});

/* ---- tooltips ---- */

const tip = h("div", { class: "tip", role: "tooltip" });

export function showTip(x: number, y: number, lines: string[]): void {
  if (open) return; // what is asked about the event under a menu may come late
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...lines.map((line) => h("bdi", { class: "tipline" }, line)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - box.width - 10 : x + 16,
    top = y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18;
  tip.style.left = `${Math.max(2, left)}px`;
  tip.style.top = `${Math.max(2, top)}px`;
}

export function hideTip(): void {
  tip.hidden = true;
}

/* ---- dialogs ---- */

export function openDialog(
  cls: string,
  label: string,
  ...children: HTMLElement[]
): HTMLDialogElement {
  const box = h("dialog", { class: cls, "aria-label": label }, ...children);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
  document.body.append(box);
  box.showModal();
  box.scrollTop = 0; // the focus, which its last button may have got, scrolled it there
  return box;
}

export function showHelp(dark: boolean): void {
  const makeSwatch = (color: string, text: string): HTMLElement =>
    h(
      "span",
      { class: "legend" },
      h("span", { class: "swatch", style: { background: color } }),
      text,
    );
  const box = openDialog(
    "help",
    t("help_title"),
    h("h2", null, t("help_title")),
    h(
      "table",
      null,
      h(
        "tbody",
        null,
        listKeys().map(([key, value]) =>
          h("tr", null, h("td", { class: "keys" }, key), h("td", null, value)),
        ),
      ),
    ),
    h("h2", null, t("legend")),
    h(
      "p",
      null,
      makeSwatch(writeColor(classColor(CLASS_KERNEL, 20, dark)), t("kernel")),
      makeSwatch(writeColor(ownColor(OWN_COPY + 1, dark)), t("htod")),
      makeSwatch(writeColor(ownColor(OWN_COPY + 2, dark)), t("dtoh")),
      makeSwatch(writeColor(classColor(CLASS_OWN, OWN_MEMSET, dark)), t("memset")),
    ),
    h("h3", null, t("legend_states")),
    h(
      "p",
      null,
      ...STATES.map(([word, color]) => makeSwatch(writeColor(color), t(`state_${word}`))),
    ),
    h("p", { class: "quiet" }, t("legend_groups")),
    h("button", { class: "primary", onclick: () => box.close() }, t("close")),
  );
}

/** Ask for a line of text; null when it was given up. */
export function askText(label: string, text: string): Promise<string | null> {
  return new Promise((resolve) => {
    let result: string | null = null;
    const input = h("input", { value: text, maxlength: 500, "aria-label": label });
    const box = openDialog(
      "ask",
      label,
      h(
        "form",
        {
          onsubmit: (event: Event) => {
            event.preventDefault();
            result = input.value;
            box.close();
          },
        },
        h("label", null, label, input),
        h("button", { class: "primary", type: "submit" }, t("ok")),
      ),
    );
    box.addEventListener("close", () => resolve(result));
    input.focus();
    input.select();
  });
}

let toastTimer = 0;
export function showToast(text: string): void {
  document.querySelector(".toast")?.remove();
  document.body.append(h("div", { class: "toast", role: "status" }, text));
  clearTimeout(toastTimer);
  toastTimer = window.setTimeout(() => document.querySelector(".toast")?.remove(), 1800);
}
