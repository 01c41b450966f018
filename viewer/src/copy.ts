/** Copying and saving: CSV that spreadsheets take as data, SQL that finds the same rows. */

import type { App } from "./app";
import type { Params } from "./data";
import { clean } from "./format";
import { copyText, download } from "./dom";
import { toast } from "./menu";
import { t } from "./i18n";

/** A cell that begins like a formula is one to a spreadsheet: a quote before it keeps it text. */
function cell(v: string | number): string {
  if (typeof v === "number") return String(v);
  const s = /^[=+\-@\t\r]/.test(v) ? `'${v}` : v;
  return /[",\n\r]/.test(s) ? `"${s.replace(/"/g, '""')}"` : s;
}

function csv(head: string[], rows: (string | number)[][]): string {
  return [head, ...rows].map((r) => r.map(cell).join(",") + "\n").join("");
}

export function copied(text: string): void {
  void copyText(text).then(() => toast(t("copied")));
}

export function copyCsv(head: string[], rows: (string | number)[][]): void {
  copied(csv(head, rows));
}

export function saveCsv(name: string, head: string[], rows: (string | number)[][]): void {
  download(name, csv(head, rows), "text/csv");
}

/**
 * What the server makes of questions as SQL, for `warpsight query` and exports; several reports
 * have one query each.
 */
export async function copySql(app: App, questions: Params[]): Promise<void> {
  const parts: string[] = [];
  for (const params of questions) {
    const got = await app.ask<{ sql: string }>("sql", params);
    if (!got) return; // why not is said above the time line
    parts.push(
      `${app.reports.length > 1 ? `-- ${clean(app.reports[Number(params.r)].name)}\n` : ""}${got.sql};\n`,
    );
  }
  copied(parts.join("\n"));
}
