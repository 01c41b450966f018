/*
 * chrome.mjs - the browser that tests and benchmarks of the page run: `chrome`, its path, or
 * undefined. Debian's chromium without a user interface needs a third less processor time for a
 * page than the whole one.
 */
import { existsSync } from "node:fs";

export const chrome = [
  "/usr/bin/chromium-headless-shell",
  "/usr/bin/chromium",
  "/usr/bin/chromium-browser",
  "/usr/bin/google-chrome",
].find(existsSync);
export const missing = "no chromium (Debian's packages chromium-headless-shell or chromium)";
