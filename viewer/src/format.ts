/** Numbers as people read them, and names made fit to be shown. */

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

function fourDigits(value: number): string {
  if (Math.abs(value) >= 100) return value.toFixed(1);
  return Math.abs(value) >= 10 ? value.toFixed(2) : value.toFixed(3);
}

/** A duration with three to four significant digits: "12.34 ms". */
export function formatDuration(ns: number): string {
  const a = Math.abs(ns);
  if (a >= 60e9) {
    const minutes = Math.floor(a / 60e9);
    return `${ns < 0 ? "-" : ""}${minutes} min ${((a - minutes * 60e9) / 1e9).toFixed(2)} s`;
  }
  for (const [size, unit] of UNITS)
    if (a >= size || size === 1) {
      const value = ns / size;
      return `${size === 1 ? Math.round(value) : fourDigits(value)} ${unit}`;
    }
  return "0 ns";
}

/** A moment, exact to the nanosecond: "1.234 567 890 s". */
export function formatMoment(ns: number): string {
  const sign = ns < 0 ? "-" : "";
  const size = Math.abs(Math.round(ns));
  const seconds = Math.floor(size / 1e9);
  const rest = String(size % 1e9).padStart(9, "0");
  return `${sign}${seconds}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`;
}

/**
 * A moment with as many digits as a step of `step` ns calls for, in the unit that suits times of
 * the size `around`.
 */
export function formatTick(ns: number, step: number, around = Math.abs(ns)): string {
  const [size, unit] = UNITS.find(([unitSize]) => around >= unitSize) ?? UNITS[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${(ns / size).toFixed(digits)} ${unit}`;
}

const SIZES: Record<string, number> = { min: 60e9, s: 1e9, ms: 1e6, µs: 1e3, us: 1e3, ns: 1 };

/**
 * A moment as people write it: "1.25 s", "310ms", "2 min 3 s", "1.234 567 s"; seconds without a
 * unit. Null when it is none.
 */
export function parseTime(text: string): number | null {
  const word = text
    .trim()
    .replace(/μ/g, "µ")
    .replace(/(\d)[\s\u202f]+(?=\d)/g, "$1");
  if (!/^-?(\d+\.?\d*|\.\d+)\s*(min|ms|µs|us|ns|s)?(\s+(\d+\.?\d*)\s*(ms|µs|us|ns|s))*$/.test(word))
    return null;
  let sum = 0;
  for (const [, number, unit] of word
    .replace(/^-/, "")
    .matchAll(/(\d+\.?\d*|\.\d+)\s*(min|ms|µs|us|ns|s)?/g))
    sum += Number(number) * SIZES[unit ?? "s"];
  return Math.round(word.startsWith("-") ? -sum : sum);
}

export function formatCount(n: number): string {
  return n.toLocaleString("en-US").replace(/,/g, "\u202f");
}

export function formatBytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i ? n.toFixed(n >= 100 ? 0 : n >= 10 ? 1 : 2) : n} ${units[i]}`;
}

export function formatPercent(part: number): string {
  const inPercent = part * 100;
  if (inPercent >= 99.95 || inPercent === 0) return `${inPercent.toFixed(0)} %`;
  if (inPercent >= 10) return `${inPercent.toFixed(1)} %`;
  return inPercent >= 0.01 ? `${inPercent.toFixed(2)} %` : "<0.01 %";
}

/** A plain number of a counter. */
export function formatPlain(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e12) return `${(value / 1e12).toFixed(2)} T`;
  if (size >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (size >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  if (size >= 1e4) return `${(value / 1e3).toFixed(2)} k`;
  return String(Math.round(value * 1000) / 1000);
}

export function formatValue(value: number, unit: string): string {
  if (unit === "B" || unit === "bytes") return formatBytes(value);
  const number = formatPlain(value);
  // "3.20 GB/s": the prefix belongs to the unit
  if (/[a-zA-Z]$/.test(number) && /^(B\/s|Hz|W)$/.test(unit)) return number + unit;
  return unit ? `${number} ${unit}` : number;
}

/*
 * Controls, and what reorders or hides text: shown as pictures or escapes, so that a name can only
 * look like itself.
 */
const DISTURBING =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

export function cleanText(text: string, most = 0): string {
  if (most && text.length > most) {
    let end = most - 1;
    if (text.charCodeAt(end - 1) >= 0xd800 && text.charCodeAt(end - 1) < 0xdc00) end--;
    text = text.slice(0, end) + "…";
  }
  return text.replace(DISTURBING, (letter) => {
    const code = letter.charCodeAt(0);
    return code < 0x20
      ? String.fromCharCode(0x2400 + code)
      : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
