/** Going to a place on the time line: a stretch of time, a row, the event that fills it there. */

import type { App } from "./app";
import type { Spot } from "./data";

/** A stretch in times of a report, and the row that it is about. */
export interface Place {
  start: number;
  end: number;
  lane?: number;
}

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

/** The event that fills most of a place in its row; without a row, the one that is just there. */
async function findEvent(app: App, report: number, place: Place): Promise<Spot | undefined> {
  const { start, end, lane } = place;
  if (lane === undefined) {
    const question = { r: report, t0: start, t1: start + 1, sort: "start", down: 1, limit: 500 },
      got = await askRead<{ events: Spot[]; unread?: number }>(app, "events", question);
    return got?.events.find((spot) => spot.start === start && spot.end === end);
  }
  const question = { r: report, lane, level: 0, t0: start, t1: Math.max(end, start + 1) },
    got = await askRead<{ events: Spot[]; unread?: number }>(app, "at", {
      ...question,
      limit: 200,
    });
  return got?.events.reduce<Spot | undefined>(
    (best, spot) => (best && overlapOf(best, place) >= overlapOf(spot, place) ? best : spot),
    undefined,
  );
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
