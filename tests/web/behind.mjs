// The page as a browser elsewhere has it, through a server with TLS: PAGE is where that one is.

import { PAGE, WIDE, browser, call, check, logIn, watch, within } from "./desk.mjs";

const problems = [];
// The test's other half looks at the certificate.
const context = await browser({ viewport: WIDE, ignoreHTTPSErrors: true });
const page = context.pages()[0];
watch(page, problems);

await logIn(page, "operator");
// The session's, and the mark by which the account's browser is known at the next log-in.
const cookies = await context.cookies();
const names = cookies.map((cookie) => cookie.name).sort();
const isOurs = (cookie) => cookie.name.startsWith("__Host-offhook_") && cookie.secure && cookie.httpOnly;
check(names.length === 2 && names[1] === `${names[0]}_known` && cookies.every(isOurs), `cookies: ${names}`);

// Nothing is loaded anew: that a call comes is an event.
const caller = await call("library");
const row = page.locator("section[aria-labelledby=running] tbody tr", { hasText: "talking" });
await row.waitFor();
await row.locator("th a").click();
await page.getByText("Listen in").waitFor();
await within(page.locator("#listen audio").evaluate((audio) => audio.play()), "the browser plays the call");
await page.waitForFunction(() => document.querySelector("#listen audio").currentTime > 1);
await page.locator("summary", { hasText: "Hang up" }).click();
await page.getByRole("button", { name: "Hang up now" }).click();
await page.getByRole("heading", { name: "Live" }).waitFor();
await caller.over();
await page.getByText("Nobody is on the line.").first().waitFor();

check(problems.length === 0, problems.join("\n"));
await context.close();
console.log("all as it should be");
