/**
 * Colours. Kinds of work are distinguished by hue and lightness that hold for the common colour
 * blindnesses (blue, vermilion, green and amber carry the meaning; names vary little within a
 * kind): a test simulates what those who lack a kind of cones see, and measures how far apart these
 * colours are to them.
 */

import {
  CLASS_API,
  CLASS_COUNTER,
  CLASS_KERNEL,
  CLASS_NAMES,
  CLASS_OSRT,
  CLASS_OWN,
  CLASS_SAMPLE,
  CLASS_STATE,
  CLASSES,
  LANES,
  OWN_COPY,
  OWN_COPY_COUNT,
  OWN_FAULT,
  OWN_FAULT_COUNT,
  OWN_GIL,
  OWN_GIL_COUNT,
  OWN_GRAPH,
  OWN_MEMSET,
  OWN_SYNC,
  OWN_SYNC_COUNT,
  STATE_WORDS,
} from "generated/constants";

export type RGB = [number, number, number];
export type StateWord = (typeof STATE_WORDS)[number];

export interface Theme {
  dark: boolean;
  back: string;
  stripe: string;
  line: string;
  text: string;
  dim: string;
  accent: string;
  select: string;
  path: string; // the critical path
}

export const LIGHT: Theme = {
  dark: false,
  back: "#ffffff",
  stripe: "#f6f8fa",
  line: "#dfe3e8",
  text: "#1d2733",
  dim: "#66707c",
  accent: "#0b66c3",
  select: "#0b66c3",
  path: "#b3006b",
};
export const DARK: Theme = {
  dark: true,
  back: "#12181f",
  stripe: "#171e26",
  line: "#2a333d",
  text: "#dfe6ee",
  dim: "#8d99a6",
  accent: "#58a9ff",
  select: "#ffd166",
  path: "#ff6fc4",
};

function convertHsl(h: number, saturation: number, light: number): RGB {
  const channelAt = (n: number): number => {
    const position = (n + h / 30) % 12;
    return Math.round(
      255 *
        (light -
          saturation *
            Math.min(light, 1 - light) *
            Math.max(-1, Math.min(position - 3, 9 - position, 1))),
    );
  };
  return [channelAt(0), channelAt(8), channelAt(4)];
}

/* One row of the palette a class; behind those of the kinds of rows: */
export const CLASS_CHOSEN = CLASSES, // colours that the user chose, CHOICES
  CLASS_REPORT = CLASSES + 1; // and following: colours that programs chose

/**
 * What a name or a row can be coloured with: Okabe and Ito's set, which all common colour
 * blindnesses tell apart.
 */
export const CHOICES: [
  word: "orange" | "sky" | "green" | "yellow" | "blue" | "vermilion" | "purple" | "grey",
  color: RGB,
][] = [
  ["orange", [230, 159, 0]],
  ["sky", [86, 180, 233]],
  ["green", [0, 158, 115]],
  ["yellow", [240, 228, 66]],
  ["blue", [0, 114, 178]],
  ["vermilion", [213, 94, 0]],
  ["purple", [204, 121, 167]],
  ["grey", [128, 136, 144]],
];

/**
 * What a thread did. Being on a core is green, wanting one orange; waits have hues like the rest of
 * Okabe and Ito's set, moved until the colour-blind tell each from each, those of little interest
 * greys. The word names it, once for an event and once for a legend.
 */
const STATE_COLORS: Record<StateWord, RGB> = {
  runs: [0, 163, 100],
  polls: [0, 82, 46],
  ready: [230, 150, 3],
  lock: [204, 78, 13],
  condition: [191, 123, 184],
  io: [0, 108, 189],
  gpu: [101, 199, 253],
  gil: [250, 231, 56],
  sleep: [188, 187, 192],
  fault: [96, 58, 120],
  other: [99, 111, 117],
};
export const STATES: [word: StateWord, color: RGB][] = STATE_WORDS.map((word) => [
  word,
  STATE_COLORS[word],
]);

const HUES = [210, 28, 165, 330, 50, 265, 190, 10, 90, 235, 300, 140, 40, 180, 355, 120];

function spreadColors(
  i: number,
  hue: number,
  width: number,
  saturation: number,
  low: number,
  high: number,
): RGB {
  return convertHsl(
    (hue + ((i * 37) % width) - width / 2 + 360) % 360,
    saturation,
    low + ((i * 61) % 97) * ((high - low) / 97),
  );
}

/** Texts of our own that say a direction or a state have its colour. */
const TO_DEVICE = [1, 3, 11],
  TO_HOST = [2, 4, 12]; // kinds of copies

function isIn(id: number, first: number, n: number): boolean {
  return id >= first && id < first + n;
}

function copyColor(kind: number, dark: boolean): RGB {
  if (TO_DEVICE.includes(kind)) return goodColor(dark);
  if (TO_HOST.includes(kind)) return badColor(dark);
  return convertHsl(285, 0.35, dark ? 0.6 : 0.5);
}

function gilColor(state: number, dark: boolean): RGB {
  if (state === GIL_HOLDS) return goodColor(dark);
  return state === GIL_WAITS ? badColor(dark) : convertHsl(210, 0.06, 0.55);
}

function goodColor(dark: boolean): RGB {
  return convertHsl(150, 0.75, dark ? 0.5 : 0.33);
}

function badColor(dark: boolean): RGB {
  return convertHsl(12, 0.78, dark ? 0.5 : 0.45);
}

/** States of the GIL, as texts of our own number them. */
export const GIL_HOLDS = 2,
  GIL_WAITS = 3;

/** The colour of a text of our own, by its number. */
export function ownColor(id: number, dark: boolean): RGB {
  if (isIn(id, OWN_COPY, OWN_COPY_COUNT)) return copyColor(id - OWN_COPY, dark);
  if (id === OWN_MEMSET) return convertHsl(210, 0.06, dark ? 0.6 : 0.5);
  if (id === OWN_GRAPH) return convertHsl(222, 0.6, 0.55);
  if (isIn(id, OWN_SYNC, OWN_SYNC_COUNT)) return convertHsl(44, 0.85, dark ? 0.58 : 0.52);
  if (isIn(id, OWN_FAULT, OWN_FAULT_COUNT)) return convertHsl(330, 0.6, 0.5);
  if (isIn(id, OWN_GIL, OWN_GIL_COUNT)) return gilColor(id - OWN_GIL, dark);
  return convertHsl(265, 0.4, 0.55);
}

/** So many metrics have colours that differ: six hues, then the same darker or lighter. */
export const COUNTER_COLORS = 12;

function counterColor(i: number, dark: boolean): RGB {
  const hue = [38, 205, 150, 285, 10, 60][i % 6],
    light = dark ? 0.55 : 0.5;
  return i < 6
    ? convertHsl(hue, 0.55, light)
    : convertHsl(hue, 0.4, dark ? light + 0.17 : light - 0.17);
}

export function classColor(cls: number, i: number, dark: boolean): RGB {
  switch (cls) {
    case CLASS_KERNEL:
      return spreadColors(i, 216, 20, 0.78, dark ? 0.48 : 0.44, dark ? 0.68 : 0.62);
    case CLASS_OWN:
      return ownColor(i, dark);
    case CLASS_OSRT:
      return spreadColors(i, 25, 50, 0.42, dark ? 0.42 : 0.5, dark ? 0.58 : 0.66);
    case CLASS_API:
      return spreadColors(i, 190, 60, 0.5, dark ? 0.36 : 0.4, dark ? 0.54 : 0.58);
    case CLASS_STATE:
      return STATES[i < STATES.length ? i : 0][1];
    case CLASS_SAMPLE:
      return spreadColors(i, 30, 40, 0.75, 0.46, 0.6);
    case CLASS_COUNTER:
      return counterColor(i % COUNTER_COLORS, dark);
    case CLASS_CHOSEN:
      return CHOICES[i % CHOICES.length][1];
    default:
      return convertHsl(HUES[i & 15], 0.5, (dark ? 0.42 : 0.5) + ((i >> 4) % 5) * 0.045);
  }
}

export function paletteBytes(dark: boolean, custom: Uint32Array[]): Uint8Array {
  const rows = CLASS_REPORT + Math.max(1, custom.length),
    out = new Uint8Array(256 * rows * 4);
  for (let row = 0; row < rows; row++)
    for (let i = 0; i < 256; i++) {
      const at = (row * 256 + i) * 4;
      const argb = row >= CLASS_REPORT ? custom[row - CLASS_REPORT]?.[i] : undefined;
      const color: RGB =
        argb === undefined
          ? classColor(row >= CLASS_REPORT ? 0 : row, i, dark)
          : [(argb >> 16) & 255, (argb >> 8) & 255, argb & 255];
      out.set([...color, 255], at);
    }
  return out;
}

export function classOf(type: string): number {
  return LANES[type]?.colors ?? CLASS_NAMES;
}

/** Light of the 256 values of a channel. */
const LINEAR = Array.from({ length: 256 }, (_, byte) =>
  byte <= 10 ? byte / 255 / 12.92 : ((byte / 255 + 0.055) / 1.055) ** 2.4,
);

/** Black or white, whichever is easier to read on a colour. */
export function inkOn(color: RGB): string {
  const [red, green, blue] = color.map((byte) => LINEAR[byte]);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.187
    ? "#0b1118"
    : "#ffffff"; /* where both have the same contrast (WCAG 2) */
}

export function writeColor([red, green, blue]: RGB): string {
  return `rgb(${red},${green},${blue})`;
}
