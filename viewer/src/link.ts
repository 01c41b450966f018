/**
 * The address of the page, a link to what it shows: `#v=2&t=0,1000&p=events&ew=bytes+>+5`.
 *
 * Each part of the page has a few keys of its own, and leaves out what is as it is at first. Links
 * of version 1 (without `v`) had t, s, e, p and rows. What a page does not know of a link, or what
 * makes no sense in it, is left alone: the rest of the link holds.
 */

import type { LaneRef } from "./panels/panels";

export const LINK_VERSION = 2;

export type LinkPairs = [key: string, value: string][];

/** A part of the page that links hold the state of. */
export interface Linked {
  /** What is not as it is at first. */
  writeLink(): LinkPairs;
  /** Become what a link says; once, before anything is shown. */
  readLink(link: Link): void;
}

/** Text that may stand in an address unescaped, and at its end, for any program that finds
 * addresses in texts. */
function encode(text: string): string {
  return encodeURIComponent(text)
    .replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`)
    .replace(/%20/g, "+")
    .replace(/%2C/g, ",")
    .replace(/%3A/g, ":")
    .replace(/%2F/g, "/");
}

export function writeHash(pairs: LinkPairs): string {
  const all: LinkPairs = [["v", String(LINK_VERSION)], ...pairs];
  return `#${all.map(([key, value]) => `${key}=${encode(value)}`).join("&")}`;
}

export class Link {
  private pairs: URLSearchParams;
  readonly version: number;

  constructor(hash: string) {
    this.pairs = new URLSearchParams(hash.replace(/^#/, ""));
    this.version = hash.length > 1 ? (this.getNumbers("v", 1)?.[0] ?? 1) : 0;
  }

  get(key: string): string | undefined {
    return this.pairs.get(key) ?? undefined;
  }

  /** So many numbers with commas between them; undefined when it is not that. */
  getNumbers(key: string, n: number): number[] | undefined {
    const text = this.get(key),
      numbers = text?.split(",").map((part) => (part.trim() ? Number(part) : NaN)) ?? [];
    return numbers.length === n && numbers.every(Number.isFinite) ? numbers : undefined;
  }
}

/** Rows by number, those that follow one another as ranges: `0:3-17,20;1:4`. */
export function writeLanes(lanes: LaneRef[]): string {
  const parts: { report: number; ranges: [number, number][] }[] = [];
  for (const { report, lane } of lanes) {
    let part = parts[parts.length - 1];
    if (part?.report !== report) parts.push((part = { report, ranges: [] }));
    const last = part.ranges[part.ranges.length - 1];
    if (last && last[1] + 1 === lane) last[1] = lane;
    else part.ranges.push([lane, lane]);
  }
  return parts
    .map(({ report, ranges }) => {
      const texts = ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`));
      return `${report}:${texts.join(",")}`;
    })
    .join(";");
}

/** Those of them that exist, according to `has`. */
export function readLanes(text: string, has: (ref: LaneRef) => boolean): LaneRef[] {
  const refs: LaneRef[] = [];
  for (const [, report, ranges] of text.matchAll(/(\d+):([\d,-]+)/g))
    for (const [, from, to] of ranges.matchAll(/(\d+)(?:-(\d+))?/g))
      for (let lane = Number(from); lane <= Number(to ?? from); lane++) {
        const ref = { report: Number(report), lane };
        if (!has(ref)) break;
        refs.push(ref);
      }
  return refs;
}
