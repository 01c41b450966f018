/** Heads of columns that a table can be sorted by, for all panels with tables. */

import { h } from "../dom";

export interface Sorting<K extends string> {
  key: K;
  down: boolean;
}

/**
 * A head that sorts by its key when it is pressed, and the other way when it is again. `first`:
 * which way at first is down; `name`: what it is called where its text says too little.
 */
export function sortHead<K extends string>(
  s: Sorting<K>,
  key: K,
  text: string,
  again: () => void,
  first = true,
  name?: string,
): HTMLElement {
  const on = s.key === key;
  return h(
    "th",
    { scope: "col", "aria-sort": on ? (s.down ? "descending" : "ascending") : undefined },
    h(
      "button",
      {
        "aria-label": name,
        onclick: () => {
          s.down = on ? !s.down : first;
          s.key = key;
          again();
        },
      },
      `${text}${on ? (s.down ? " ▾" : " ▴") : ""}`,
    ),
  );
}

/** The sign of a difference, with a minus as wide as the plus. */
export function signed(v: number, text: string): string {
  return `${v > 0 ? "+" : v < 0 ? "−" : ""}${text}`;
}
