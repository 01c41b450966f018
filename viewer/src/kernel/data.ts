/**
 * Measured kernels as the server describes them (docs/viewer.md). The page knows no metric by its
 * name: what is shown, and in which chart, comes with the answer.
 */

/** A result in the table of all. Shares and percentages are null where they were not measured. */
export interface Summary {
  id: number;
  name: string;
  demangled?: string;
  nvtx?: string; // ranges around it
  error?: string; // why it could not be measured
  process?: number; // pid
  launch: number; // number among the launches of its name
  grid: Triple;
  block: Triple;
  registers: number;
  shared: number; // bytes of a block
  duration: number | null; // ns
  cycles: number | null;
  clock: number | null; // Hz, of the multiprocessors
  compute: number | null; // % of what the GPU can do
  memory: number | null;
  verdict?: string; // what it is bound by: a word or two, a colon, and why
  gain?: number | null; // share of its duration that the best finding could save
  launches: Launches[]; // the same kernel on the time lines that are open
  chip: string;
  gpu: string;
  tool: string;
}

export type Triple = [x: number, y: number, z: number];

/** Launches of a measured kernel's name and shape on a time line. */
export interface Launches {
  r: number; // report
  count: number;
  total: number; // ns
  busy: number; // ns of all kernels of the report
}

/** A figure: a metric of a result under the name that users know it by. */
export interface Figure {
  label: string;
  metric?: string;
  unit?: string;
  value?: number | null; // none: not measured
  text?: string; // of what is no number
  good?: number; // 1: a high share is no warning
}

export interface Bar extends Figure {
  parts?: Figure[]; // what it is made of
}

export interface BarsChart {
  kind: "bars";
  title: string;
  most: number; // the value of a full bar; 0: the largest value
  bars: Bar[];
}

/** Values that add up. */
export interface StackChart {
  kind: "stack";
  title: string;
  unit: string;
  parts: Figure[];
}

export interface RooflineChart {
  kind: "roofline";
  title: string;
  roofs: { label: string; flops: number; metric?: string }[]; // a second, at most
  slopes: { label: string; bytes: number; metric?: string }[]; // a second, at most
  points: { label: string; roof: number; slope: number; flops: number; bytes: number }[];
}

/** Units of the memory system on a grid, and what goes between them. */
export interface MemoryChart {
  kind: "memory";
  title: string;
  units: MemoryUnit[];
  links: MemoryLink[];
}

export interface MemoryUnit {
  id: string;
  label: string;
  column: number;
  row: number;
  rows: number; // high
  figures: Figure[];
}

export interface MemoryLink {
  from: string;
  to: string;
  there: Figure | null;
  back: Figure | null;
  busy: number | null; // % of the most that can go there
}

export interface CurvesChart {
  kind: "curves";
  title: string;
  curves: {
    label: string; // of the axis
    at: number; // where the kernel is
    points: [x: number, warps: number][];
  }[];
  most: number; // warps of a multiprocessor
}

export interface TableChart {
  kind: "table";
  title: string;
  columns: Figure[]; // heads
  rows: { label: string; cells: (Figure | null)[] }[];
}

/** Metrics over the time of the kernel: means of equal parts of it. */
export interface SeriesChart {
  kind: "series";
  title: string;
  span: number; // ns
  series: { label: string; metric: string; unit: string; values: (number | null)[] }[];
}

export type Chart =
  | BarsChart
  | StackChart
  | RooflineChart
  | MemoryChart
  | CurvesChart
  | TableChart
  | SeriesChart;

export interface Section {
  id: string;
  title: string;
  groups: { title: string; lines: Figure[] }[]; // the first has no title
  charts: Chart[];
}

export interface KernelFinding {
  rule: string;
  section: string;
  level: "ok" | "note" | "warning" | "critical";
  title: string;
  advice?: string;
  gain?: number | null; // share of the duration
  assumption?: string;
  evidence: Figure[];
}

/** What instructions or lines cost. */
export interface SourceLine {
  address: number | null; // of an instruction
  sass: string;
  file: string;
  line: number;
  ptx?: number; // its line of PTX
  inlined?: string; // the inlined function that it is of
  callers?: string; // where that was inlined, a line each
  values: (number | null)[];
}

export interface SourceTable {
  name: string; // function
  note?: string; // why its instructions have no text
  metrics: (Figure & { stall?: number })[]; // samples first; stall: samples by reason
  lines: SourceLine[];
  texts?: { file: string; line: number; text: string }[]; // of source files
  ptx?: { line: number; text: string }[];
}

export interface Result extends Summary {
  sections: Section[];
  findings?: KernelFinding[];
  words?: Words;
  metrics: Figure[]; // all, under the names of the counters
  sources: SourceTable[];
}

/** What metrics mean. */
export type Words = Record<string, { en?: string; zh?: string }>;

/** A result of one of the open reports. */
export interface ResultRef {
  report: number;
  id: number;
}

export function isSame(a: ResultRef | null, b: ResultRef | null): boolean {
  return a !== null && b !== null && a.report === b.report && a.id === b.id;
}

/** "528 × 1 × 1" without the ones at the end: "528". */
export function writeShape(shape: Triple): string {
  const last = shape[2] > 1 ? 3 : shape[1] > 1 ? 2 : 1;
  return shape.slice(0, last).join(" × ");
}

/** The figures of a section that a baseline is compared in, by what they are. */
export function keyOf(figure: Figure): string {
  return `${figure.metric ?? ""} ${figure.label}`;
}
