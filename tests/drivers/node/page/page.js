// Opens a page in Chromium and prints what is there, as JSON:
//   node page.js URL '{"width": 390, "scheme": "dark", "script": true, "await": "text", "shot": "file.png"}'
"use strict";
const { readFileSync } = require("fs");
const { chromium } = require("playwright-core");

const [url, options] = [process.argv[2], JSON.parse(process.argv[3])];

async function violations(browser, context_options) {
  // Its script is not the page's: another context, which the policy does not bind.
  const context = await browser.newContext({ ...context_options, javaScriptEnabled: true, bypassCSP: true });
  const page = await context.newPage();
  await page.goto(url);
  await page.evaluate(readFileSync(require.resolve("axe-core/axe.min.js"), "utf8"));
  const found = await page.evaluate(() => window.axe.run(document));
  return found.violations.map((each) => `${each.id}: ${each.help}: ${each.nodes[0].html}`);
}

async function main() {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu"],
  });
  try {
    const context_options = {
      viewport: { width: options.width, height: 900 },
      colorScheme: options.scheme,
      javaScriptEnabled: options.script,
    };
    const page = await (await browser.newContext(context_options)).newPage();
    const errors = [];
    const hosts = new Set();
    page.on("console", (message) => {
      if (message.type() === "error") errors.push(message.text());
    });
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("requestfailed", (request) => errors.push(`${request.url()} failed`));
    page.on("request", (request) => hosts.add(new URL(request.url()).host));
    await page.goto(url);
    console.error("open");
    if (options.await) await page.getByText(options.await).first().waitFor({ timeout: 30000 });
    const shot = await page.screenshot({ path: options.shot, fullPage: true });
    console.log(JSON.stringify({
      errors,
      hosts: [...hosts],
      violations: await violations(browser, context_options),
      text: await page.locator("body").innerText(),
      headings: await page.getByRole("heading").allInnerTexts(),
      tables: await page.getByRole("table").count(),
      charts: await page.getByRole("img").count(),
      width: await page.locator("html").evaluate((html) => html.scrollWidth),
      background: await page.locator("body").evaluate((body) => getComputedStyle(body).backgroundColor),
      bytes: shot.length,
    }));
  } finally {
    await browser.close();
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
