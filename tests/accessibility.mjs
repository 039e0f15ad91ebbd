// Every built page against axe-core's rules, in light and dark; ends with 1 where one is broken.
//
//     python -m fedtutor pages
//     npm install --no-save puppeteer axe-core      (not part of ./run tests: it needs a browser)
//     node tests/accessibility.mjs build
//
// CHROMIUM names a browser that is installed already.
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = path.resolve(process.argv[2] ?? "build");
const pages = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".html"));
const executablePath = process.env.CHROMIUM || undefined;
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox"] });
let broken = 0;
for (const scheme of ["light", "dark"])
  for (const name of pages.sort()) {
    const page = await browser.newPage();
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(pathToFileURL(path.join(folder, name)).href);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
    for (const { id, help, nodes } of violations) {
      broken += nodes.length;
      console.log(`${scheme} ${name}: ${id} (${help}), ${nodes.length}: ${nodes[0].html.slice(0, 120)}`);
    }
    await page.close();
  }
await browser.close();
console.log(`${pages.length} pages, twice: ${broken} violations`);
process.exit(broken ? 1 : 0);
