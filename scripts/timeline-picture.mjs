/**
 * timeline-picture.mjs - makes the picture of the time line that the README shows, from a report:
 * timeline-picture.mjs WARPSIGHT REPORT PICTURE.png [FROM-NS TO-NS]. The README's is of
 * `warpsight profile -o train.wsrep python3 tests/gpu/train.py --steps 12`, its last steps.
 *
 * The page is shown by chromium, without its panels, on a screen of two pixels a unit.
 */
const [warpsight, report, picture, from, to] = process.argv.slice(2);
process.argv.splice(2, process.argv.length, warpsight, warpsight, warpsight);
const { browser, open, serve } = await import("../tests/serve/harness.mjs");

const server = await serve(report);
const page = await open(server, {
  viewport: { width: 1180, height: 760 },
  deviceScaleFactor: 2,
  search: from === undefined ? "" : `#t=${from},${to}`,
});
await page.settled();
await page.page.screenshot({ path: picture });
await browser.close();
server.process.kill("SIGTERM");
process.exit(0);
