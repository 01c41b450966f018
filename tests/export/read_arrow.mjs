// read_arrow.mjs FOLDER - read the Arrow files of a folder with the library apache-arrow and print
// them as JSON: {table: [[name, ...], row, ...]}.
import fs from "fs";
import path from "path";
import { tableFromIPC } from "apache-arrow";

const plain = (v) =>
  typeof v === "bigint"
    ? v.toString()
    : v instanceof Uint8Array
      ? Buffer.from(v).toString("hex")
      : (v ?? null);
const out = {};
for (const name of fs.readdirSync(process.argv[2]).sort()) {
  const t = tableFromIPC(fs.readFileSync(path.join(process.argv[2], name)));
  const columns = t.schema.fields.map((f) => f.name);
  out[name.replace(/\.arrow$/, "")] = [
    columns,
    ...t.toArray().map((r) => columns.map((c) => plain(r[c]))),
  ];
}
console.log(JSON.stringify(out));
