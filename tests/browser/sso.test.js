// Single sign-on with a provider of OpenID Connect that is not ours (oidc-provider), in a real browser.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, it } from "node:test";

import Provider from "oidc-provider";

import { context, page, prepare, setUp } from "./hooks.js";
import { Kernelwright } from "./kernelwright.js";

let service;
let provider;

setUp({ standIn: false });

async function freePort() {
  const server = createServer();
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  await new Promise((done) => server.close(done));
  return port;
}

before(async () => {
  const [port, providerPort] = [await freePort(), await freePort()];
  const [address, issuer] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${providerPort}`];
  const people = new Provider(issuer, {
    clients: [{ client_id: "kernelwright", client_secret: "secret of the client", redirect_uris: [`${address}/api/v1/session/sso/callback`] }],
    claims: { email: ["email", "email_verified", "groups"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: async () => ({ sub: id, email: `${id}@research-and-development.team.example`, email_verified: id !== "eve", groups: id === "guest" ? ["guests"] : [] }),
    }),
  });
  // The session of the provider does not outlive a test's browser.
  provider = people.listen(providerPort, "127.0.0.1");
  await new Promise((done) => provider.on("listening", done));
  const settings = `issuer = "${issuer}"
client_id = "kernelwright"
client_secret_file = "secret"
address = "${address}"
[[allow]]
email = "ada@research-and-development.team.example"
scope = "admin"
[[allow]]
group = "guests"
scope = "viewer"
`;
  service = await Kernelwright.start({ "sso.toml": settings, secret: "secret of the client\n" }, { scope: "user", port });
});

after(async () => {
  await service?.stop();
  provider?.closeAllConnections();
  await new Promise((done) => provider?.close(done) ?? done());
});

/** Signs in at the provider, which asks for a name and then for consent. */
async function signIn(name) {
  await prepare({ now: null });
  await page.goto(service.origin);
  await page.getByRole("button", { name: "Sign in with 127.0.0.1" }).click();
  await page.locator("input[name=login]").fill(name);
  await page.locator("input[name=password]").fill("any");
  await page.locator("button[type=submit]").click();
  await page.getByRole("button", { name: "Continue" }).click();
}

it("a person signs in with an account of the provider and has the scope of the first rule", async () => {
  for (const [name, scope] of [["ada", "admin"], ["guest", "viewer"]]) {
    await signIn(name);
    await page.getByText(`sso:${name}@research-and-development.team.example (${scope})`).waitFor();
    assert.equal(new URL(page.url()).origin, service.origin);
    const cookies = (await context.cookies(service.origin)).filter((cookie) => cookie.path === "/" && cookie.name === "kernelwright");
    assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => ({ httpOnly, sameSite })), [{ httpOnly: true, sameSite: "Strict" }]);
    // The list of changes names the person; a viewer may not read it.
    const changes = await page.evaluate(async () => {
      const answer = await fetch("/api/v1/changes");
      return { status: answer.status, text: await answer.text() };
    });
    assert.equal(changes.status, scope === "admin" ? 200 : 403);
    if (scope === "admin") assert.match(changes.text, /session\/sso\/callback/);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Sign in with 127.0.0.1" }).waitFor();
  }
});

it("an account that no rule allows, or whose address nobody has verified, is told so", async () => {
  for (const name of ["bob", "eve"]) {
    await signIn(name);
    await page.getByRole("alert").getByText("may not use this service").waitFor();
    const status = await page.evaluate(async () => (await fetch("/api/v1/runs")).status);
    assert.equal(status, 401);
  }
});

it("an answer that this browser did not ask for signs nobody in", async () => {
  await prepare({ now: null });
  await page.goto(`${service.origin}/api/v1/session/sso/callback?code=stolen&state=another`);
  await page.getByRole("alert").getByText("Try it again").waitFor();
  assert.deepEqual(await context.cookies(service.origin), []);
});
