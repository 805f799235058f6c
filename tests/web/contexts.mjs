// An admin and the configuration: edits it, sees a problem beside its line, mends it, publishes it, and goes back.

import { PAGE, browser, check, logIn } from "./desk.mjs";
import { tabTo } from "./keyboard.mjs";

const AREA = "Text of the configuration";
const AGENT = "library: { prompt: A test";

const generation = async (page) => Number((await page.getByText(/^generation \d+$/).textContent()).split(" ")[1]);

async function write(page, change) {
  const area = page.getByLabel(AREA, { exact: true });
  const text = await area.inputValue();
  await area.fill(change(text));
  return text;
}

export async function editsTheConfiguration(page, look) {
  await page.getByRole("link", { name: "Contexts" }).click();
  await page.getByText("No problems.").waitFor();
  await page.locator("#help dl").waitFor();
  await look(page, "contexts");
  const before = await write(page, (text) => text.replace(AGENT, "library: { promt: A test"));
  const line = before.slice(0, before.indexOf(AGENT)).split("\n").length;
  await page.getByText("1 problem", { exact: true }).waitFor();
  check((await page.locator(".numbers b.bad").textContent()) === String(line), "the line with the problem is marked");
  await look(page, "contexts with a problem");
  await page.getByRole("link", { name: `Line ${line}` }).click();
  const chosen = await page.evaluate(() => {
    const area = document.activeElement;
    return area.value.slice(area.selectionStart, area.selectionEnd);
  });
  check(chosen.includes("promt"), `the problem leads to its line, not to "${chosen}"`);
  const asked = page.waitForEvent("dialog");
  const leaving = page.getByRole("link", { name: "History" }).click({ noWaitAfter: true });
  const dialog = await asked;
  check(dialog.type() === "beforeunload", "the browser asks before what was written is lost");
  await dialog.dismiss();
  await leaving;
  check((await page.getByLabel(AREA, { exact: true }).inputValue()).includes("promt"), "nothing is lost");
  await page.locator("#help").getByText("contexts.library", { exact: true }).waitFor();
  await page.locator("#help dt", { hasText: "greeting_by" }).waitFor();

  const was = await generation(page);
  await write(page, (text) => text.replace("promt: A test", "prompt: Another test"));
  await page.locator("#verdict", { hasText: "No problems." }).waitFor();
  await page.locator("ins", { hasText: "Another test" }).waitFor();
  await look(page, "contexts with a difference");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("Published: new calls have it.").waitFor();
  // News of MCP servers are a generation as well.
  const published = await generation(page);
  check(published > was, "there is a new generation");
  await look(page, "contexts, published");

  await page.getByRole("link", { name: /^Look at it/ }).nth(1).click();
  await page.locator("ins", { hasText: "A test" }).waitFor();
  await look(page, "a version");
  await page.getByRole("button", { name: "Roll back to this" }).click();
  await page.getByText("Published: new calls have it.").waitFor();
  check((await page.getByLabel(AREA, { exact: true }).inputValue()) === before, "the text is as it was");
  check((await generation(page)) > published, "going back is a generation of its own");
}

// A conversation in writing, seen where calls are seen.
export async function triesAContext(page, look) {
  await page.goto(PAGE + "/contexts");
  await page.getByRole("button", { name: "Try books in writing" }).click();
  await page.getByText("Which book?").waitFor();
  const pen = page.getByLabel("What the caller says");
  // Who comes to write can begin.
  await page.waitForFunction(() => document.activeElement?.id === "say");
  await pen.fill("The one about bees.");
  await pen.press("Enter");
  await page.getByText("The one about bees.").waitFor();
  await page.getByText("We have it.").waitFor();
  // The next text begins empty.
  await page.waitForFunction(() => document.getElementById("say").value === "");
  await look(page, "a conversation in writing");
  const address = page.url();
  await page.locator("summary", { hasText: "Hang up" }).click();
  await page.getByRole("button", { name: "Hang up now" }).click();
  await page.getByText("Nobody is on the line.").first().waitFor();
  await page.goto(address);
  await page.getByText("The one about bees.").waitFor();
  check(page.url().includes("/history/"), "it is kept like any call");
}

// Two admins who edit at once, each in a browser of their own: the second one is told who was first.
export async function losesTheRace(page, viewport, look) {
  await page.goto(PAGE + "/contexts");
  const elsewhere = await browser({ viewport });
  const other = elsewhere.pages()[0];
  await logIn(other, "ada");
  await other.goto(PAGE + "/contexts");
  const before = await write(other, (text) => text + "# from the other window\n");
  await other.getByRole("button", { name: "Publish" }).click();
  await other.getByText("Published: new calls have it.").waitFor();
  await elsewhere.close();
  await write(page, (text) => text + "# from this window\n");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText(/ada changed it at/).waitFor();
  await page.locator("del", { hasText: "from the other window" }).waitFor();
  check((await page.getByLabel(AREA, { exact: true }).inputValue()).endsWith("# from this window\n"), "nothing that was written is lost");
  await look(page, "contexts, too late");
  await write(page, () => before);
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("Published: new calls have it.").waitFor();
}

// A few lines that would be billions of values.
export async function writesABomb(page, look) {
  await page.goto(PAGE + "/contexts");
  const names = [..."abcdefghijkl"];
  const line = (name, at) => `${name}: &${name} [${Array(10).fill(at ? `*${names[at - 1]}` : "boom").join(", ")}]\n`;
  await write(page, (text) => names.map(line).join("") + text);
  await page.getByText(/values, aliases counted each time/).first().waitFor();
  await look(page, "contexts with a bomb");
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByText(/values, aliases counted each time/).first().waitFor();
  await page.goto(PAGE + "/contexts");
  check(!(await page.getByLabel(AREA, { exact: true }).inputValue()).includes("boom"), "nothing is published");
  check((await page.request.get(PAGE + "/ready")).ok(), "the engine goes on");
}

// Text is written and published without a mouse.
export async function publishesByKeyboard(page) {
  await page.goto(PAGE + "/contexts");
  const area = page.getByLabel(AREA, { exact: true });
  const before = await area.inputValue();
  await tabTo(page, area, "the text");
  await page.keyboard.press("Control+End");
  await page.keyboard.type("# by keyboard\n");
  await tabTo(page, page.getByRole("button", { name: "Publish" }), "what publishes");
  await page.keyboard.press("Enter");
  await page.getByText("Published: new calls have it.").waitFor();
  check((await area.inputValue()) === before + "# by keyboard\n", "what was typed is published");
  await write(page, () => before);
  await page.getByRole("button", { name: "Publish" }).click();
  await page.getByText("Published: new calls have it.").waitFor();
}
