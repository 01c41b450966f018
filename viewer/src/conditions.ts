/**
 * Conditions on columns, such as `bytes > 1 MiB and stream = 7`, for pages without a server: the
 * same as the server's (serve/where.c).
 */

import { ServerError } from "./data";
import { compareNumbers, numberOf, type Cell } from "./values";

const RELATIONS = ["!=", "<>", "<=", ">=", "==", "=", "<", ">", "~"] as const;
type Relation = (typeof RELATIONS)[number];

const UNITS = new Map(
  Object.entries({
    "": 1,
    ns: 1,
    us: 1e3,
    µs: 1e3,
    ms: 1e6,
    s: 1e9,
    B: 1,
    KB: 1e3,
    MB: 1e6,
    GB: 1e9,
    KiB: 1024,
    MiB: 1048576,
    GiB: 1073741824,
  }),
);

const MOST = 16;

interface Condition {
  name: string;
  relation: Relation;
  number: bigint | number | null;
  text: string;
}

/** What values of a column are; undefined for a column that no events have. */
export type Holds = (name: string) => { numbers: boolean; texts: boolean } | undefined;

/** A number with a unit; null for another text. */
function readNumber(text: string): bigint | number | null {
  const match = /^\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S*)$/.exec(text),
    size = match ? UNITS.get(match[2]) : undefined;
  if (!match || size === undefined) return null;
  if (/^[+-]?\d+$/.test(match[1])) return BigInt(match[1].replace("+", "")) * BigInt(size);
  const number = Number(match[1]) * size;
  return Number.isFinite(number) ? number : null;
}

/** The value that a text begins with, quoted or up to ` and `, and what follows it. */
function readValue(text: string): { value: string; quoted: boolean; rest: string } | null {
  const quoted = /^(['"])(.*?)\1\s*(.*)$/s.exec(text);
  if (quoted) return { value: quoted[2], quoted: true, rest: quoted[3] };
  if (/^['"]/.test(text)) return null;
  const end = text.search(/\s+and\s/i),
    value = (end < 0 ? text : text.slice(0, end)).trim();
  return value ? { value, quoted: false, rest: end < 0 ? "" : text.slice(end).trim() } : null;
}

function readCondition(text: string): { condition: Condition; rest: string } {
  const head = /^\s*(\w+)\s*(!=|<>|<=|>=|==|=|<|>|~)\s*(.*)$/s.exec(text),
    found = head && readValue(head[3]),
    number = found && !found.quoted ? readNumber(found.value) : null;
  if (!head || !found || (!found.quoted && number === null && /\s/.test(found.value)))
    throw new ServerError(
      "a filter is `column > value`, with =, !=, <, <=, >, >= or ~ (contains), and `and` between " +
        "several; texts with spaces are quoted",
    );
  const condition = { name: head[1], relation: head[2] as Relation, number, text: found.value };
  return { condition, rest: found.rest };
}

/** Numbers are not compared with texts: nothing would ever satisfy such a condition. */
function checkTypes(condition: Condition, holds: Holds): void {
  const types =
    condition.name === "duration" ? { numbers: true, texts: false } : holds(condition.name);
  if (!types) throw new ServerError(`no events have a column ${condition.name}`);
  if (types.texts) return;
  if (condition.relation === "~")
    throw new ServerError(
      `the column ${condition.name} has numbers, and ~ looks for a part of a text`,
    );
  condition.number ??= readNumber(condition.text);
  if (condition.number === null)
    throw new ServerError(
      `the column ${condition.name} has numbers, and '${condition.text.slice(0, 40)}' is none`,
    );
}

function isRelated(relation: Relation, order: number): boolean {
  switch (relation) {
    case "=":
    case "==":
      return order === 0;
    case "!=":
    case "<>":
      return order !== 0;
    case "<=":
      return order <= 0;
    case ">=":
      return order >= 0;
    case "<":
      return order < 0;
    default:
      return order > 0;
  }
}

function isMet(condition: Condition, cell: Cell | undefined): boolean {
  const number = numberOf(cell),
    { text } = cell ?? {};
  if (condition.relation === "~") return text !== undefined && text.includes(condition.text);
  if (condition.number !== null && number !== null)
    return isRelated(condition.relation, compareNumbers(number, condition.number));
  if (text === undefined) return false;
  const order = text < condition.text ? -1 : Number(text > condition.text);
  return isRelated(condition.relation, order);
}

/** Whether events meet a filter, given what each has in a column; "duration" is its length. */
export function makeFilter(
  where: string,
  holds: Holds,
): (cellOf: (name: string) => Cell | undefined) => boolean {
  const conditions: Condition[] = [];
  for (let rest = where.trim(); rest; ) {
    if (conditions.length === MOST)
      throw new ServerError(`a filter has ${MOST} conditions at most`);
    const read = readCondition(rest);
    checkTypes(read.condition, holds);
    conditions.push(read.condition);
    ({ rest } = read);
    if (!rest) break;
    if (!/^and\s/i.test(rest) && !/^and$/i.test(rest))
      throw new ServerError(`\`and\` is missing before ${rest.slice(0, 40)} in the filter`);
    rest = rest.slice(3).trim();
    if (!rest) throw new ServerError("a condition is missing after `and`");
  }
  return (cellOf) => conditions.every((condition) => isMet(condition, cellOf(condition.name)));
}
