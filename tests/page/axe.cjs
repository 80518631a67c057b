// axe.cjs DIRECTORY: runs axe-core on each page in it. Fails on a violation, on a page that is wider than its window, and on an error
// in the console. Writes screenshots next to the pages.
const puppeteer = require("puppeteer-core");
const fs = require("fs");

const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const directory = process.argv[2];
// The last is a sheet of A4 with margins of 1 cm, 718 pixels wide, printed on a computer whose desktop is dark.
const views = [[1280, "light"], [1280, "dark"], [390, "light"], [390, "dark"], [718, "dark", "print"]];

(async () => {
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium-headless-shell",
    args: ["--no-sandbox"],
  });
  let failed = false;
  for (const file of fs.readdirSync(directory).filter((name) => name.endsWith(".html"))) {
    for (const [width, scheme, media] of views) {
      const page = await browser.newPage();
      const problems = [];
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      page.on("requestfailed", (request) => problems.push(`not loaded: ${request.url().slice(0, 100)}`));
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      if (media) await page.emulateMediaType(media);
      await page.goto(`file://${directory}/${file}`);
      await page.evaluate(axe);
      const { violations, passes } = await page.evaluate(() => axe.run());
      for (const one of violations) {
        const where = one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 100)}: ${node.failureSummary}`);
        problems.push(`${one.id} (${one.impact}): ${where.join("; ")}`);
      }
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (over > 0) problems.push(`${over} pixels wider than the window`);
      await page.screenshot({ path: `${directory}/${file.replace(".html", "")}-${width}-${media || scheme}.png`, fullPage: true });
      const found = problems.length ? `\n  ${problems.join("\n  ")}` : `${passes.length} rules pass`;
      console.log(`${file} ${width} ${media || scheme}: ${found}`);
      failed ||= problems.length > 0;
      await page.close();
    }
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
})();
