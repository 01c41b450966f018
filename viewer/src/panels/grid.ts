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
  sorting: Sorting<K>,
  key: K,
  text: string,
  again: () => void,
  first = true,
  name?: string,
): HTMLElement {
  const on = sorting.key === key;
  return h(
    "th",
    { scope: "col", "aria-sort": on ? (sorting.down ? "descending" : "ascending") : undefined },
    h(
      "button",
      {
        "aria-label": name,
        onclick: () => {
          sorting.down = on ? !sorting.down : first;
          sorting.key = key;
          again();
        },
      },
      `${text}${on ? (sorting.down ? " ▾" : " ▴") : ""}`,
    ),
  );
}

/** The head of a column of numbers, which stand at the right. */
export function alignNumbers(head: HTMLElement): HTMLElement {
  head.classList.add("n");
  return head;
}

/** The sign of a difference, with a minus as wide as the plus. */
export function writeSigned(value: number, text: string): string {
  return `${value > 0 ? "+" : value < 0 ? "−" : ""}${text}`;
}
