/**
 * Colours. Kinds of work are told apart by hue and lightness that hold for the common colour blindnesses (blue, vermilion, green and
 * amber carry the meaning; names vary little within a kind): a test simulates what those who lack a kind of cones see, and measures
 * how far apart these colours are to them.
 */

export type RGB = [number, number, number];

export interface Theme {
  dark: boolean;
  back: string;
  stripe: string;
  line: string;
  text: string;
  dim: string;
  accent: string;
  select: string;
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
};

function hsl(h: number, s: number, l: number): RGB {
  const f = (n: number): number => {
    const k = (n + h / 30) % 12;
    return Math.round(255 * (l - s * Math.min(l, 1 - l) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  };
  return [f(0), f(8), f(4)];
}

/* One row of the palette a class. */
export const CLASS_NAMES = 0,
  CLASS_KERNEL = 1,
  CLASS_OWN = 2,
  CLASS_OSRT = 3,
  CLASS_API = 4,
  CLASS_STATE = 5,
  CLASS_SAMPLE = 6,
  CLASS_COUNTER = 7,
  CLASS_CHOSEN = 8, // colours that the user chose, CHOICES
  CLASS_REPORT = 9; // and following: colours that programs chose

/** What a name or a row can be coloured with: Okabe and Ito's set, which all common colour blindnesses tell apart. */
export const CHOICES: [word: "orange" | "sky" | "green" | "yellow" | "blue" | "vermilion" | "purple" | "grey", color: RGB][] = [
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
 * What a thread did: enum ws_state_class of src/lanes/lane.h. Being on a core is green, wanting one orange; waits have hues like
 * the rest of Okabe and Ito's set, moved until the colour-blind tell each from each, those of little interest greys. The word says it, once for an event and once for a legend.
 */
export const STATES: [word: "runs" | "polls" | "ready" | "lock" | "condition" | "io" | "gpu" | "gil" | "sleep" | "fault" | "other", color: RGB][] = [
  ["runs", [0, 163, 100]],
  ["polls", [0, 82, 46]],
  ["ready", [230, 150, 3]],
  ["lock", [204, 78, 13]],
  ["condition", [191, 123, 184]],
  ["io", [0, 108, 189]],
  ["gpu", [101, 199, 253]],
  ["gil", [250, 231, 56]],
  ["sleep", [188, 187, 192]],
  ["fault", [96, 58, 120]],
  ["other", [99, 111, 117]],
];

const HUES = [210, 28, 165, 330, 50, 265, 190, 10, 90, 235, 300, 140, 40, 180, 355, 120];

function spread(i: number, hue: number, width: number, s: number, low: number, high: number): RGB {
  return hsl((hue + ((i * 37) % width) - width / 2 + 360) % 360, s, low + ((i * 61) % 97) * ((high - low) / 97));
}

/** Numbers of our own texts (src/lanes/names.h): copies 0..13, memset 14, graph 15, waits 16..20, faults, compiling, modules, GIL. */
export function ownColor(id: number, dark: boolean): RGB {
  const green = hsl(150, 0.75, dark ? 0.5 : 0.33),
    red = hsl(12, 0.78, dark ? 0.5 : 0.45);
  if (id === 1 || id === 3 || id === 11) return green;
  if (id === 2 || id === 4 || id === 12) return red;
  if (id === 14) return hsl(210, 0.06, dark ? 0.6 : 0.5);
  if (id === 15) return hsl(222, 0.6, 0.55);
  if (id < 14) return hsl(285, 0.35, dark ? 0.6 : 0.5);
  if (id <= 20) return hsl(44, 0.85, dark ? 0.58 : 0.52);
  if (id <= 25) return hsl(330, 0.6, 0.5);
  if (id >= 33 && id <= 36) return id === 36 ? red : id === 35 ? green : hsl(210, 0.06, 0.55);
  return hsl(265, 0.4, 0.55);
}

export function classColor(cls: number, i: number, dark: boolean): RGB {
  switch (cls) {
    case CLASS_KERNEL:
      return spread(i, 216, 20, 0.78, dark ? 0.48 : 0.44, dark ? 0.68 : 0.62);
    case CLASS_OWN:
      return ownColor(i, dark);
    case CLASS_OSRT:
      return spread(i, 25, 50, 0.42, dark ? 0.42 : 0.5, dark ? 0.58 : 0.66);
    case CLASS_API:
      return spread(i, 190, 60, 0.5, dark ? 0.36 : 0.4, dark ? 0.54 : 0.58);
    case CLASS_STATE:
      return STATES[i < STATES.length ? i : 0][1];
    case CLASS_SAMPLE:
      return spread(i, 30, 40, 0.75, 0.46, 0.6);
    case CLASS_COUNTER:
      return hsl([38, 205, 150, 285, 10, 60][i % 6], 0.55, dark ? 0.55 : 0.5);
    case CLASS_CHOSEN:
      return CHOICES[i % CHOICES.length][1];
    default:
      return hsl(HUES[i & 15], 0.5, (dark ? 0.42 : 0.5) + ((i >> 4) % 5) * 0.045);
  }
}

export function paletteBytes(dark: boolean, custom: Uint32Array[]): Uint8Array {
  const rows = CLASS_REPORT + Math.max(1, custom.length),
    out = new Uint8Array(256 * rows * 4);
  for (let row = 0; row < rows; row++)
    for (let i = 0; i < 256; i++) {
      const at = (row * 256 + i) * 4;
      const argb = row >= CLASS_REPORT ? custom[row - CLASS_REPORT]?.[i] : undefined;
      const c: RGB = argb === undefined ? classColor(row >= CLASS_REPORT ? 0 : row, i, dark) : [(argb >> 16) & 255, (argb >> 8) & 255, argb & 255];
      out.set([...c, 255], at);
    }
  return out;
}

const CLASS_OF: Record<string, number> = {
  kernels: CLASS_KERNEL,
  stream: CLASS_KERNEL,
  memory: CLASS_OWN,
  sync: CLASS_OWN,
  um: CLASS_OWN,
  gil: CLASS_OWN,
  osrt: CLASS_OSRT,
  cuda_api: CLASS_API,
  state: CLASS_STATE,
  sample: CLASS_SAMPLE,
  python: CLASS_SAMPLE,
  counter: CLASS_COUNTER,
  gpu_bytes: CLASS_COUNTER,
};

export function classOf(type: string): number {
  return CLASS_OF[type] ?? CLASS_NAMES;
}

/** Light of the 256 values of a channel. */
const LINEAR = Array.from({ length: 256 }, (_, v) => (v <= 10 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));

/** Black or white, whichever is easier to read on a colour. */
export function inkOn(c: RGB): string {
  const [r, g, b] = c.map((v) => LINEAR[v]);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.187 ? "#0b1118" : "#ffffff"; /* where both have the same contrast (WCAG 2) */
}

export function css([r, g, b]: RGB): string {
  return `rgb(${r},${g},${b})`;
}
