/** Values of columns: whole numbers of 64 bits exactly, beside others and texts. */

/** A value as the server sends it: whole numbers are texts, for they may have 64 bits. */
export interface Cell {
  value?: string | number | null;
  text?: string;
}

/** The number of a cell; null for none. JavaScript compares whole and other numbers exactly. */
export function numberOf(cell: Cell | undefined): bigint | number | null {
  const value = cell?.value;
  if (value === undefined || value === null || value === "") return null;
  if (typeof value === "number") return value;
  return /^-?\d+$/.test(value) ? BigInt(value) : Number(value);
}

export function compareNumbers(a: bigint | number, b: bigint | number): number {
  return a < b ? -1 : Number(a > b);
}

/** Ascending, or descending: numbers before texts, and what has no value last either way. */
export function compareCells(a: Cell | undefined, b: Cell | undefined, down: boolean): number {
  const rank = (cell: Cell | undefined): number => {
    if (numberOf(cell) !== null) return 0;
    return cell?.text === undefined ? 2 : 1;
  };
  const order = rank(a) - rank(b),
    sign = down ? -1 : 1,
    [x, y] = [numberOf(a), numberOf(b)];
  if (order) return order;
  if (x !== null && y !== null) return sign * compareNumbers(x, y);
  const [left, right] = [a?.text ?? "", b?.text ?? ""];
  return sign * (left < right ? -1 : Number(left > right));
}
