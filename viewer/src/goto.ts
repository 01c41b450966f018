/** Going to a place on the time line: a stretch of time, a row, the event that fills it there. */

import type { App } from "./app";
import type { Spot } from "./data";

/** A stretch in times of a report, and the row that it is about. */
export interface Place {
  start: number;
  end: number;
  lane?: number;
}

/** Kinds of rows that say what a thread did. */
const BESIDE = ["op", "nvtx", "slice", "cuda_api", "osrt"],
  DEEP = 6; // levels
const TRIES = 50; // for a row of events that is being read

function overlapOf(spot: Spot, place: Place): number {
  return Math.min(spot.end, place.end) - Math.max(spot.start, place.start);
}

/** Ask again while rows are being read. */
async function askRead<T extends { unread?: number }>(
  app: App,
  path: string,
  question: Record<string, number | string>,
): Promise<T | undefined> {
  for (let i = 0; i < TRIES; i++) {
    const got = await app.ask<T>(path, question);
    if (!got?.unread) return got;
    await new Promise((callback) => setTimeout(callback, 100));
  }
  return undefined;
}

/** How well an event fits a place: the time that both have, of the time that either has. */
function fitOf(spot: Spot, place: Place): number {
  return (
    overlapOf(spot, place) / (Math.max(spot.end, place.end) - Math.min(spot.start, place.start))
  );
}

function bestOf(spots: Spot[], rate: (spot: Spot) => number, least = -Infinity): Spot | undefined {
  return spots
    .filter((spot) => rate(spot) > least)
    .reduce<
      Spot | undefined
    >((best, spot) => (best && rate(best) >= rate(spot) ? best : spot), undefined);
}

interface Spots {
  events: Spot[];
  unread?: number;
}

/** Events of a lane and level around a place, and where a gap ends. */
async function askAt(app: App, report: number, place: Place, level = 0): Promise<Spot[]> {
  const { start, end, lane } = place;
  const question = { r: report, lane: lane!, level, t0: start, t1: end + 1, limit: 200 };
  return (await askRead<Spots>(app, "at", question))?.events ?? [];
}

/**
 * The event that fills most of a place in its row, or begins where a gap ends; where the row has
 * none, the one beside it that fits best; without a row, the one that is just there.
 */
async function findEvent(app: App, report: number, place: Place): Promise<Spot | undefined> {
  const { start, end, lane } = place;
  if (lane === undefined) {
    const question = { r: report, t0: start, t1: start + 1, sort: "start", down: 1, limit: 500 },
      got = await askRead<Spots>(app, "events", question);
    return got?.events.find((spot) => spot.start === start && spot.end === end);
  }
  const there = await askAt(app, report, place);
  return there.length
    ? bestOf(there, (spot) => overlapOf(spot, place))
    : findBeside(app, report, place);
}

/** Among the other rows of the same thread. */
async function findBeside(app: App, report: number, place: Place): Promise<Spot | undefined> {
  const row = app.laneRow(report, place.lane!),
    beside = app.rows.byKey.get(row?.parentKey ?? "")?.children ?? [],
    found: Spot[] = [];
  if (row?.type === "stream") return undefined;
  for (const { lane, levels, type } of beside)
    for (let level = 0; BESIDE.includes(type) && level < Math.min(levels ?? 0, DEEP); level++)
      found.push(...(await askAt(app, report, { ...place, lane }, level)));
  return bestOf(found, (spot) => fitOf(spot, place), 0);
}

/** Select a stretch and its event, and show both with some of what is around them. */
export async function goToPlace(app: App, report: number, place: Place): Promise<void> {
  const offset = app.offsets[report],
    [from, to] = [place.start + offset, Math.max(place.end, place.start + 1) + offset],
    margin = (to - from) * 0.5;
  const event = await findEvent(app, report, place);
  app.select(report, event ?? null, true);
  app.setRange([from, to]);
  app.view.set(from - margin, to + margin);
}
