// How long a browser needs for pages: from the click to everything loaded and painted, in ms, as a line for each.
//
// PAGES has their paths as JSON, PAGE where they are, TOKEN who asks, TIMES how often; the first time of each is with nothing in the cache.

import { PAGE, WIDE, browser } from "./desk.mjs";

const { PAGES, TIMES, TOKEN } = process.env;
const context = await browser({ viewport: WIDE, extraHTTPHeaders: { authorization: `Bearer ${TOKEN}` } });
const page = context.pages()[0];
const debug = await context.newCDPSession(page);
for (const path of JSON.parse(PAGES)) {
  const took = [];
  await debug.send("Network.clearBrowserCache");
  for (let time = 0; time < Number(TIMES); time++) {
    await page.goto(`${PAGE}/${path}`);
    took.push(await page.evaluate(async () => {
      const painted = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
      const until = performance.now() + 5_000;
      while (painted() === undefined && performance.now() < until) await new Promise(requestAnimationFrame);
      return Math.max(painted() ?? Infinity, performance.getEntriesByType("navigation")[0].loadEventEnd);
    }));
  }
  console.log(JSON.stringify(took));
}
await context.close();
