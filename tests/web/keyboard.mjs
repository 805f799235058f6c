// The page without a mouse.

import { PAGE, call, check } from "./desk.mjs";

// Goes on until the keyboard is there.
export async function tabTo(page, goal, what) {
  for (let stops = 0; stops < 80; stops++) {
    await page.keyboard.press("Tab");
    if (await goal.evaluate((node) => node === document.activeElement)) return;
  }
  throw new Error(`${what} cannot be reached by the keyboard`);
}

// Each control that is seen is a stop of the keyboard, and where the keyboard is can be seen as well.
async function reachesEverything(page, name) {
  const count = await page.evaluate(() => {
    const stops = "a[href], button, input:not([type=hidden]), select, textarea, summary, audio[controls], [tabindex='0']";
    const seen = [...document.querySelectorAll(stops)].filter((node) => !node.disabled && node.checkVisibility({ visibilityProperty: true }));
    const first = document.querySelector("a.skip");
    first.focus();
    window.left = new Set(seen);
    window.left.delete(first);
    window.unmarked = [];
    return seen.length;
  });
  check(count > 1, `${name} has nothing to do`);
  // The controls of a sound are several stops.
  for (let stops = 0; stops < 2 * count + 40; stops++) {
    await page.keyboard.press("Tab");
    const left = await page.evaluate(() => {
      const node = document.activeElement;
      // A field's frame may be what is around it; the controls of a sound are the browser's own.
      let marked = node.tagName === "AUDIO";
      for (let frame = node; frame && !marked; frame = frame.parentElement) {
        const { outlineStyle, outlineWidth } = getComputedStyle(frame);
        marked = outlineStyle !== "none" && outlineWidth !== "0px";
      }
      if (window.left.delete(node) && !marked) window.unmarked.push(node.outerHTML.slice(0, 200));
      return window.left.size;
    });
    if (left === 0) break;
  }
  const [left, unmarked] = await page.evaluate(() => [[...window.left].map((node) => node.outerHTML.slice(0, 200)), window.unmarked]);
  check(left.length === 0, `${name}: the keyboard does not get to ${left.join("\n")}`);
  check(unmarked.length === 0, `${name}: the keyboard is not seen at ${unmarked.join("\n")}`);
}

// Every page, as an admin has it.
export async function reachesEveryPage(page) {
  const caller = await call("library");
  await page.goto(PAGE + "/");
  await page.locator("#live tbody tr", { hasText: "talking" }).waitFor();
  await reachesEverything(page, "live");
  await page.locator("#live tbody tr", { hasText: "talking" }).locator("th a").click();
  await page.locator("#link[data-state=up]").waitFor();
  await reachesEverything(page, "a running call");
  await page.locator("summary", { hasText: "Hang up" }).press("Enter");
  await reachesEverything(page, "a running call, asked whether to hang up");
  caller.hangUp();
  await page.goto(PAGE + "/history?reason=agent_silent");
  await reachesEverything(page, "history");
  await page.locator("tbody th a").first().press("Enter");
  await page.locator("#sound").waitFor();
  await reachesEverything(page, "one call");
  for (const path of [
    "/contexts", "/providers", "/tools", "/tools/opening_hours?tenant=town", "/tool-editor?tenant=town&tool=opening_hours", "/mcp",
    "/mcp/editor", "/mcp/editor?server=weather", "/system", "/nothing",
  ]) {
    await page.goto(PAGE + path);
    await reachesEverything(page, path);
  }
}
