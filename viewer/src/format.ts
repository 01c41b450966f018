/** Numbers as people read them, and names made fit to be shown. */

const UNITS: [number, string][] = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

function fourDigits(v: number): string {
  if (Math.abs(v) >= 100) return v.toFixed(1);
  return Math.abs(v) >= 10 ? v.toFixed(2) : v.toFixed(3);
}

/** A duration with three to four significant digits: "12.34 ms". */
export function duration(ns: number): string {
  const a = Math.abs(ns);
  if (a >= 60e9) {
    const minutes = Math.floor(a / 60e9);
    return `${ns < 0 ? "-" : ""}${minutes} min ${((a - minutes * 60e9) / 1e9).toFixed(2)} s`;
  }
  for (const [size, unit] of UNITS)
    if (a >= size || size === 1) {
      const v = ns / size;
      return `${size === 1 ? Math.round(v) : fourDigits(v)} ${unit}`;
    }
  return "0 ns";
}

/** A moment, exact to the nanosecond: "1.234 567 890 s". */
export function moment(ns: number): string {
  const sign = ns < 0 ? "-" : "";
  const a = Math.abs(Math.round(ns));
  const s = Math.floor(a / 1e9);
  const rest = String(a % 1e9).padStart(9, "0");
  return `${sign}${s}.${rest.slice(0, 3)} ${rest.slice(3, 6)} ${rest.slice(6)} s`;
}

/**
 * A moment with as many digits as a step of `step` ns calls for, in the unit that suits times of
 * the size `around`.
 */
export function tick(ns: number, step: number, around = Math.abs(ns)): string {
  const [size, unit] = UNITS.find(([u]) => around >= u) ?? UNITS[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  return `${(ns / size).toFixed(digits)} ${unit}`;
}

const SIZES: Record<string, number> = { min: 60e9, s: 1e9, ms: 1e6, µs: 1e3, us: 1e3, ns: 1 };

/**
 * A moment as people write it: "1.25 s", "310ms", "2 min 3 s", "1.234 567 s"; seconds without a
 * unit. Null when it is none.
 */
export function parseTime(text: string): number | null {
  const s = text
    .trim()
    .replace(/μ/g, "µ")
    .replace(/(\d)[\s\u202f]+(?=\d)/g, "$1");
  if (!/^-?(\d+\.?\d*|\.\d+)\s*(min|ms|µs|us|ns|s)?(\s+(\d+\.?\d*)\s*(ms|µs|us|ns|s))*$/.test(s))
    return null;
  let sum = 0;
  for (const [, number, unit] of s
    .replace(/^-/, "")
    .matchAll(/(\d+\.?\d*|\.\d+)\s*(min|ms|µs|us|ns|s)?/g))
    sum += Number(number) * SIZES[unit ?? "s"];
  return Math.round(s.startsWith("-") ? -sum : sum);
}

export function count(n: number): string {
  return n.toLocaleString("en-US").replace(/,/g, "\u202f");
}

export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (Math.abs(n) >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${i ? n.toFixed(n >= 100 ? 0 : n >= 10 ? 1 : 2) : n} ${units[i]}`;
}

export function percent(part: number): string {
  const p = part * 100;
  if (p >= 99.95 || p === 0) return `${p.toFixed(0)} %`;
  if (p >= 10) return `${p.toFixed(1)} %`;
  return p >= 0.01 ? `${p.toFixed(2)} %` : "<0.01 %";
}

/** A plain number of a counter. */
export function plain(v: number): string {
  const a = Math.abs(v);
  if (a >= 1e12) return `${(v / 1e12).toFixed(2)} T`;
  if (a >= 1e9) return `${(v / 1e9).toFixed(2)} G`;
  if (a >= 1e6) return `${(v / 1e6).toFixed(2)} M`;
  if (a >= 1e4) return `${(v / 1e3).toFixed(2)} k`;
  return String(Math.round(v * 1000) / 1000);
}

export function value(v: number, unit: string): string {
  if (unit === "B" || unit === "bytes") return bytes(v);
  return unit ? `${plain(v)} ${unit}` : plain(v);
}

/*
 * Controls, and what reorders or hides text: shown as pictures or escapes, so that a name can only
 * look like itself.
 */
const DISTURBING =
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

export function clean(s: string, most = 0): string {
  if (most && s.length > most) {
    let end = most - 1;
    if (s.charCodeAt(end - 1) >= 0xd800 && s.charCodeAt(end - 1) < 0xdc00) end--;
    s = s.slice(0, end) + "…";
  }
  return s.replace(DISTURBING, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x20
      ? String.fromCharCode(0x2400 + code)
      : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
