/** Copying and saving: CSV that spreadsheets take as data, SQL that finds the same rows. */

import type { App } from "./app";
import type { Params } from "./data";
import { cleanText } from "./format";
import { copyText, downloadFile } from "./dom";
import { showToast } from "./menu";
import { t } from "./i18n";

/** A cell that begins like a formula is one to a spreadsheet: a quote before it keeps it text. */
function writeCell(value: string | number): string {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

function writeCsv(head: string[], rows: (string | number)[][]): string {
  return [head, ...rows].map((row) => row.map(writeCell).join(",") + "\n").join("");
}

export function copyAndSay(text: string): void {
  void copyText(text).then(() => showToast(t("copied")));
}

export function copyCsv(head: string[], rows: (string | number)[][]): void {
  copyAndSay(writeCsv(head, rows));
}

export function saveCsv(name: string, head: string[], rows: (string | number)[][]): void {
  downloadFile(name, writeCsv(head, rows), "text/csv");
}

/**
 * The SQL that the server makes for a view, for `warpsight query` and exports; several reports have
 * one query each.
 */
export async function copySql(app: App, questions: Params[]): Promise<void> {
  const parts: string[] = [];
  for (const params of questions) {
    const got = await app.ask<{ sql: string }>("sql", params);
    if (!got) return; // why not is said above the time line
    const name = cleanText(app.reports[Number(params.r)].name),
      head = app.reports.length > 1 ? `-- ${name}\n` : "";
    parts.push(`${head}${got.sql};\n`);
  }
  copyAndSay(parts.join("\n"));
}
