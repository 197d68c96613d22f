// A certified provider of OpenID Connect with the accounts of a file, which a test changes while it runs:
// node provider.mjs PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI PEOPLE_FILE

import { readFileSync } from "node:fs";
import Provider from "oidc-provider";

const [port, client_id, client_secret, redirect_uri, people] = process.argv.slice(2);

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id,
      client_secret,
      redirect_uris: [redirect_uri],
      grant_types: ["authorization_code", "refresh_token"],
    },
  ],
  claims: { openid: ["sub"], profile: ["name"], email: ["email"], groups: ["groups"] },
  cookies: { keys: ["a key of the cookies of this provider"] },
  pkce: { required: () => true },
  issueRefreshToken: () => true,
  // The accounts are those of the file. Whoever is not in it any more gets no tokens.
  findAccount: (_, id) => {
    const account = JSON.parse(readFileSync(people, "utf-8"))[id];
    return account && { accountId: id, claims: () => ({ sub: id, ...account }) };
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
