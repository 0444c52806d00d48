// Sign-in with the real service in a real browser, and what a page of another site can do to it.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, it } from "node:test";

import { context, page, prepare, setUp } from "./hooks.js";
import { Kernelwright } from "./kernelwright.js";

let service;

setUp({ standIn: false });

before(async () => {
  service = await Kernelwright.start({}, { scope: "user" });
});

after(() => service?.stop());

it("a page of another site can neither read nor change anything with a signed-in browser", async () => {
  await prepare({ now: null });
  await page.goto(service.origin);
  const field = page.getByLabel("Token of this service");
  await field.fill(service.token);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Sign out" }).waitFor();
  const cookies = await context.cookies();
  const [{ name, httpOnly, sameSite, value }] = cookies;
  assert.deepEqual({ count: cookies.length, name, httpOnly, sameSite }, { count: 1, name: "kernelwright", httpOnly: true, sameSite: "Strict" });
  assert.ok(!value.includes(service.token));
  assert.equal(await page.evaluate(() => document.cookie), "");
  const own = await page.evaluate(async () => (await fetch("/api/v1/runs")).status);
  assert.equal(own, 200);

  // The names localhost and 127.0.0.1 are two sites.
  const other = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<h1>Another site</h1>"));
  await new Promise((done) => other.listen(0, "127.0.0.1", done));
  const foreign = await context.newPage();
  await foreign.goto(`http://localhost:${other.address().port}/`);
  const asked = [];
  foreign.on("request", (request) => asked.push(request));
  const outcome = await foreign.evaluate(async (origin) => {
    const attempt = async (path, options) => {
      const init = { credentials: "include", ...options };
      try {
        const response = await fetch(origin + path, init);
        return response.type === "opaque" ? "opaque" : response.status;
      } catch {
        return "refused";
      }
    };
    return [
      await attempt("/api/v1/runs", {}),
      // Requests that a form may send without a preflight.
      await attempt("/api/v1/runs", { method: "POST", mode: "no-cors", body: "{}" }),
      await attempt("/api/v1/session", { method: "DELETE" }),
    ];
  }, service.origin);
  assert.deepEqual(outcome, ["refused", "opaque", "refused"]);
  const post = asked.find((request) => request.method() === "POST");
  assert.equal((await post.response()).status(), 403);
  assert.equal((await post.allHeaders()).cookie, undefined);
  await page.reload();
  await page.getByRole("button", { name: "Sign out" }).click();
  await field.waitFor();
  await new Promise((done) => other.close(done));
});
