/** What a figure means, shown beside the pointer or the keyboard's focus. */

import { cleanText } from "../format";
import { getLanguage } from "../i18n";
import { hideTip, showTip } from "../menu";
import type { Figure, Words } from "./data";
import { writeFigure } from "./figure";

/** Its name and value, the name of its metric, and what that counts. */
export function explainFigure(figure: Figure, words: Words): string[] {
  const lines = [`${cleanText(figure.label)}: ${writeFigure(figure)}`];
  if (figure.metric) {
    lines.push(cleanText(figure.metric));
    const says = words[figure.metric]?.[getLanguage()];
    if (says) lines.push(cleanText(says));
  }
  return lines;
}

/** Show lines while the pointer is on an element, or the focus. */
export function addTip(element: Element, say: () => string[]): void {
  const follow = (event: Event): void => {
    const { clientX, clientY } = event as PointerEvent;
    showTip(clientX, clientY, say());
  };
  element.addEventListener("pointerenter", follow);
  element.addEventListener("pointermove", follow);
  element.addEventListener("pointerleave", hideTip);
  element.addEventListener("focus", () => {
    if (!element.matches(":focus-visible")) return;
    const { left, bottom } = element.getBoundingClientRect();
    showTip(left + 60, bottom - 14, say());
  });
  element.addEventListener("blur", hideTip);
}
