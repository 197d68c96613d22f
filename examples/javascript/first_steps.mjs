// The first twelve tasks with fetch (Node 18 or newer), in the demo account of `make run`.
//
//     TMS_URL=http://127.0.0.1:8000 TMS_KEY=tms_... node examples/javascript/first_steps.mjs

import { randomUUID } from "node:crypto";

const { TMS_URL: base, TMS_KEY: key } = process.env;
const run = randomUUID().slice(0, 8); // so that it can run again

class ApiError extends Error {
  constructor(answer) {
    super(answer.developer_message);
    Object.assign(this, answer);
  }
}

async function call(method, path, body, headers = {}) {
  const response = await fetch(base + path, {
    method,
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json", ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(30_000),
  });
  const text = await response.text();
  const answer = text === "" ? undefined : JSON.parse(text);
  if (!response.ok) throw new ApiError(answer);
  return answer;
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// 1. What may the key do?
const { access_token_scope: scope } = await call("GET", "/v1/");
console.log("1 the key may send email:", scope.split(",").includes("send.email") ? "yes" : "no");

// 2. Find a list by its name.
const [customers] = (await call("GET", "/v1/lists?name=Customers"))._embedded.lists;
const contacts = `/v1/lists/${customers.id}/contacts`;
console.log(`2 the list Customers has the id ${customers.id}`);

// 3. Create a contact. With this key the same request, sent again, creates none.
const person = { email: `ann-${run}@example.com`, first_name: "Ann" };
const { id, email } = await call("POST", contacts, person, { "Idempotency-Key": `signup-${run}` });
console.log(`3 created ${email}`);

// 4. Change it.
const changed = await call("PATCH", `${contacts}/${id}`, { plan: "gold", double_opt_in: true });
console.log(`4 the plan of ${changed.first_name} is ${changed.plan}`);

// 5. Read all contacts, ten on each page.
let read = 0;
let next = `${contacts}?fields=id&limit=10`;
while (next !== undefined) {
  const page = await call("GET", next);
  read += page._embedded.contacts.length;
  next = page._links.next?.href;
}
const { size } = await call("GET", `${contacts}?limit=0`);
console.log(`5 read ${read} of ${size} contacts`);

// 6. Send an email with an attachment.
const content = Buffer.from("Total: 100 EUR\n").toString("base64");
const send = await call(
  "POST",
  "/v1/transactional-sends",
  {
    type: "email",
    list_id: customers.id,
    group_name: `Invoices ${run}`,
    subject: "Invoice for %%first_name**you%%",
    from_name: "Acme",
    from_address: "billing@mail.acme.example",
    body_text: "Dear %%first_name**customer%%, the invoice is attached.",
    recipients: [{ email, attachments: [{ type: "text/plain", name: "invoice.txt", content }] }],
    metadata: { invoice: run },
  },
  { "Idempotency-Key": `invoice-${run}` },
);
console.log(`6 accepted ${send._embedded.recipients.length} email`);

// 7. Send a stored message to two people, with a value for each.
const [welcome] = (await call("GET", "/v1/messages?name=Welcome"))._embedded.messages;
const greeting = await call("POST", "/v1/transactional-sends", {
  type: "email",
  list_id: customers.id,
  message_id: welcome.id,
  group_name: `Welcome ${run}`,
  recipients: [
    { email: `ben-${run}@example.com`, first_name: "Ben" },
    { email: `cleo-${run}@example.com`, first_name: "Cleo" },
  ],
});
console.log(`7 accepted ${greeting._embedded.recipients.length} emails`);

// 8. Send a text message. The code is stored encrypted, and only until the message has left.
const text = await call("POST", "/v1/transactional-sends", {
  type: "sms",
  group_name: `Codes ${run}`,
  unsubscribe_type: "none",
  from_address: "ACME",
  body_text: "Your code is %%code%%.",
  secret_values: ["code"],
  recipients: [{ mobile: "61491570006", code: "482913" }],
});
console.log(`8 accepted ${text._embedded.recipients.length} text message`);

// 9. What became of the email, and of all in its group?
const [{ uuid }] = send._embedded.recipients;
let recipient = await call("GET", `/v1/transactional-sends/${uuid}`);
for (let tries = 0; ["queued", "sending"].includes(recipient.state) && tries < 1800; tries++) {
  await sleep(100);
  recipient = await call("GET", `/v1/transactional-sends/${uuid}`);
}
const group = await call("GET", send._links.transactional_group.href);
console.log(`9 the email is ${recipient.state}; sent ${group.sent}, delivered ${group.delivered}`);

// 10. Understand an error.
try {
  await call("POST", "/v1/transactional-sends", {
    type: "email",
    list_id: customers.id,
    message_id: welcome.id,
    group_name: `Welcome ${run}`,
    recipients: [{ email: "ann@example.com" }, { email: "not an address" }],
  });
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.log(`10 refused: ${error.code} in ${error.collection}[${error.index}].${error.field}`);
}

// 11. Find an email by what your application calls it.
const sent = await call("GET", `/v1/transactional-sends?metadata.invoice=${run}`);
console.log(`11 found ${sent.size} email with the invoice`);

// 12. Schedule a reminder for tomorrow, and take it back.
const reminder = await call("POST", "/v1/transactional-sends", {
  type: "email",
  list_id: customers.id,
  message_id: welcome.id,
  group_name: `Reminders ${run}`,
  recipients: [{ email: `ann-${run}@example.com` }],
  send_at: new Date(Date.now() + 24 * 3600 * 1000).toISOString(),
});
const [{ uuid: reminded }] = reminder._embedded.recipients;
const cancelled = await call("POST", `/v1/transactional-sends/${reminded}/cancel`);
console.log(`12 the reminder is ${cancelled.state}: ${cancelled.reason}`);
