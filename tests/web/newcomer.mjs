// What a newcomer does with the address and the password that `make demo KEEP=1` has printed.

import { PAGE, WIDE, browser, check, logIn, watch } from "./desk.mjs";

// The demo's call lasts 48 s.
const CALL_MAX = 100_000;

const problems = [];
const context = await browser({ viewport: WIDE });
const page = context.pages()[0];
watch(page, problems);
await logIn(page, "admin");
const row = page.locator("#live tbody tr", { hasText: "reception" });
await row.getByText("talking").waitFor();
await row.locator("th a").click();
// What both say comes by itself, while it is said.
await page.getByText("this is the front desk", { exact: false }).first().waitFor({ timeout: CALL_MAX });
await page.getByText(/when are you open/i).first().waitFor({ timeout: CALL_MAX });
const ended = page.getByRole("status").filter({ hasText: "This call has ended." });
await ended.waitFor({ timeout: CALL_MAX });
await ended.getByRole("link", { name: "See its record" }).click();
await page.getByText(/are you open on sunday/i).first().waitFor();
await page.goto(PAGE + "/history");
await page.locator("tbody tr", { hasText: "reception" }).locator("th a").waitFor();
check(problems.length === 0, problems.join("\n"));
await context.close();
console.log("all as it should be");
