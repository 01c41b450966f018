/**
 * Building elements without a framework: h("button", {class: "x", onclick: f}, "text", child). Text
 * is always text.
 */

type Props = Record<string, unknown>;
type Child = Node | string | number | null | undefined | false;

export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  props?: Props | null,
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const e = document.createElement(tag);
  for (const [key, error] of Object.entries(props ?? {})) {
    if (error === undefined || error === null || error === false) continue;
    if (key.startsWith("on")) e.addEventListener(key.slice(2), error as EventListener);
    else if (key === "style") Object.assign(e.style, error);
    else if (key === "class") e.className = String(error);
    else if (key === "value" && "value" in e)
      (e as unknown as { value: string }).value = String(error);
    else e.setAttribute(key, error === true ? "" : String(error));
  }
  appendChildren(e, children);
  return e;
}

/** The same for pictures: s("line", { x1: 0, y1: 0, x2: 5, y2: 5 }). */
export function s(
  tag: string,
  props?: Record<string, string | number | null | undefined> | null,
  ...children: (Child | Child[])[]
): SVGElement {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props ?? {}))
    if (value !== undefined && value !== null) e.setAttribute(key, String(value));
  appendChildren(e, children);
  return e;
}

export function appendChildren(element: Element, children: (Child | Child[])[]): void {
  for (const c of children.flat())
    if (c !== null && c !== undefined && c !== false)
      element.append(typeof c === "object" ? c : String(c));
}

/** Where the focus is inside of an element: which child, of that which... */
function focusPath(element: Element): number[] | null {
  const path: number[] = [];
  let at = document.activeElement;
  if (!at || at === element || !element.contains(at)) return null;
  for (; at && at !== element; at = at.parentElement)
    path.unshift(at.parentElement ? [...at.parentElement.children].indexOf(at) : 0);
  return path;
}

/**
 * Replace the children of an element. The keyboard focus stays where it was, on the control that is
 * now in that place.
 */
export function fillElement(element: Element, ...children: (Child | Child[])[]): void {
  const path = focusPath(element),
    was = document.activeElement?.tagName;
  element.replaceChildren();
  appendChildren(element, children);
  if (!path) return;
  let now: Element | undefined = element;
  for (const i of path) now = now?.children[i];
  if (now instanceof HTMLElement && now.tagName === was) now.focus({ preventScroll: true });
}

let held: Node | null = null; // the control that the pointer was pressed on, until it is released
let waiting: (() => void)[] = [];
const releasePointer = (): void => {
  const then = waiting;
  held = null;
  waiting = [];
  window.setTimeout(() => then.forEach((callback) => callback())); // after the click, which follows
};

window.addEventListener(
  "pointerdown",
  (event) => (held = (event.target as Element).closest("button, a, tr")),
  true,
);
for (const end of ["pointerup", "pointercancel"])
  window.addEventListener(end, releasePointer, true);
window.addEventListener("blur", releasePointer); // of the window alone
/* Let go of where no event said so. */
window.addEventListener("pointermove", (event) => held && !event.buttons && releasePointer(), true);

/**
 * Resolves when the pointer holds nothing inside of `e`: a button that is made anew between press
 * and release is never clicked.
 */
export function waitForRelease(element: Element): Promise<void> {
  return held && element.contains(held)
    ? new Promise((callback) => waiting.push(callback))
    : Promise.resolve();
}

/** Call `f` once `ms` after the last of a burst of calls. */
export function delayCalls<A extends unknown[]>(
  ms: number,
  callback: (...args: A) => void,
): (...args: A) => void {
  let timer = 0;
  return (...args: A) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => callback(...args), ms);
  };
}

export function downloadFile(name: string, content: string | Blob, type = "text/plain"): void {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const element = h("a", { href: url, download: name });
  document.body.append(element);
  element.click();
  element.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const element = h("textarea", { class: "offscreen", value: text });
    document.body.append(element);
    element.select();
    document.execCommand("copy");
    element.remove();
  }
}
