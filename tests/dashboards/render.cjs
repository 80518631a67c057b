// render.cjs BUNDLE DIRECTORY: shows each dashboard of DIRECTORY (*.json) in Chromium. Fails if a panel does not render, is empty without a
// reason, has a column that no panel shows, or is red on the healthy node. Writes a picture of each dashboard next to it.
const puppeteer = require("puppeteer-core");
const fs = require("fs");

const [bundle, directory] = process.argv.slice(2);
// The same in both spellings: a number's background is a gradient that only begins with it.
const RED = ["rgb(208, 52, 44)", "#d0342c"];

/** In the browser: what each panel shows. */
const look = (red) => [...document.querySelectorAll(".panel")].map((panel) => {
  const content = panel.querySelector(".content");
  const parts = [...(content?.querySelectorAll("*") ?? [])];
  const isRed = (part) => {
    const style = getComputedStyle(part);
    return [style.backgroundColor, style.color, part.dataset.colour].some((value) => red.includes(value));
  };
  return {
    title: panel.dataset.title,
    text: content?.innerText.replace(/\s+/g, " ").trim() ?? "",
    canvas: parts.some((part) => part.tagName === "CANVAS"),
    red: parts.filter(isRed).map((part) => part.innerText).slice(0, 3),
  };
});

(async () => {
  const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium-headless-shell",
    args: ["--no-sandbox"],
  });
  let failed = false;
  for (const file of fs.readdirSync(directory).filter((name) => name.endsWith(".json")).sort()) {
    const answers = JSON.parse(fs.readFileSync(`${directory}/${file}`, "utf8"));
    const page = await browser.newPage();
    const problems = [];
    page.on("pageerror", (error) => problems.push(`error: ${String(error.stack).slice(0, 400)}`));
    // Tables draw their rows only where they can be seen.
    await page.setViewport({ width: 1800, height: 4000 });
    // A file is an origin, which a blank page is not: Grafana's components use the storage of the browser.
    await page.goto(`file://${bundle.replace(".js", ".html")}`);
    if (problems.length) throw new Error(problems.join("\n"));
    await page.evaluate((document) => window.show(document), answers);
    await new Promise((done) => setTimeout(done, 1500));
    problems.push(...await page.evaluate(() => window.problems));
    const panels = await page.evaluate(look, RED);
    const wanted = answers.board.panels.filter((panel) => panel.type !== "row");
    for (const panel of wanted) {
      const shown = panels.find((one) => one.title === panel.title);
      if (!shown || (!shown.text && !shown.canvas)) problems.push(`${panel.title}: nothing is shown`);
      const isOfNode = panel.targets.some((target) => target.expr.includes("$node"));
      if (shown?.red.length && isOfNode && answers.node === "healthy") problems.push(`${panel.title}: red on a healthy node: ${shown.red.join("; ")}`);
      if (/NaN|undefined|\[object/.test(shown?.text)) problems.push(`${panel.title}: ${shown.text.slice(0, 200)}`);
      if (process.env.VERBOSE) console.log(`${file} ${panel.title}: ${shown?.text.slice(0, 160)}`);
    }
    await (await page.$("#root")).screenshot({ path: `${directory}/${file.replace(".json", ".png")}` });
    console.log(`${file}: ${wanted.length} panels${problems.length ? `\n  ${[...new Set(problems)].join("\n  ")}` : ""}`);
    failed ||= problems.length > 0;
    await page.close();
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
})();
