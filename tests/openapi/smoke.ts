// One call of each operation with the generated TypeScript types and openapi-fetch.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

interface Estate {
  base: string;
  token: string;
  list_id: number;
  list_name: string;
  message_id: number;
  automation_id: number;
  captured_id: number;
  from_address: string;
}

declare const process: { argv: string[] };
const estate = JSON.parse(process.argv[2] ?? "{}") as Estate;
const { list_id, message_id, automation_id } = estate;
const client = createClient<paths>({
  baseUrl: estate.base,
  headers: { Authorization: `Bearer ${estate.token}` },
  // Each entry of `filters` is a query parameter of its own.
  querySerializer: { object: { style: "form", explode: true } },
});
const called: string[] = [];

function expect<T>(operation: string, answer: { data?: T; error?: unknown; response: Response }, status: number): T {
  called.push(operation);
  if (answer.response.status !== status || answer.error !== undefined) {
    throw new Error(`${operation}: ${answer.response.status} ${JSON.stringify(answer.error)}`);
  }
  return answer.data as T;
}

function same(found: unknown, expected: unknown): void {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(expected)}`);
  }
}

const root = expect("root.get", await client.GET("/v1"), 200);
same(root.access_token_scope.split(",").includes("contact.view"), true);
const lists = expect("lists.list", await client.GET("/v1/lists", { params: { query: { limit: 5 } } }), 200);
same(lists._embedded.lists.map((list) => list.id), [list_id]);
expect("lists.get", await client.GET("/v1/lists/{list_id}", { params: { path: { list_id } } }), 200);

const ofList = { path: { list_id } };
const contacts = "/v1/lists/{list_id}/contacts";
const one = { email: "ann@example.com", first_name: "Ann" };
const header = { "Idempotency-Key": "ann-once" };
const created = expect("contacts.create", await client.POST(contacts, { params: { ...ofList, header }, body: one }), 201);
const again = await client.POST(contacts, { params: { ...ofList, header }, body: one });
same([again.data?.id, again.response.headers.get("Idempotent-Replayed")], [created?.id, "true"]);
const many = { contacts: [{ email: "ben@example.com" }, { email: "cleo@example.com" }] };
expect("contacts.create", await client.POST(contacts, { params: ofList, body: many }), 204);
const filters = { "email:ne": "ann@example.com", "id:in": "1.." };
const others = await client.GET(contacts, { params: { ...ofList, query: { is_active: true, filters } } });
const ids = expect("contacts.list", others, 200)._embedded.contacts.map((contact) => contact.id);
same(ids.length, 2);
const path = { list_id, contact_id: created?.id ?? 0 };
const contact = "/v1/lists/{list_id}/contacts/{contact_id}";
const found = expect("contacts.get", await client.GET(contact, { params: { path } }), 200);
same(found["first_name"], "Ann");
const change = await client.PATCH(contact, { params: { path }, body: { double_opt_in: true } });
same(expect("contacts.update", change, 200).double_opt_in_time === null, false);
const updates = { contacts: ids.map((id) => ({ id, is_active: false })) };
expect("contacts.update_many", await client.PATCH(contacts, { params: ofList, body: updates }), 204);
expect("contacts.delete", await client.DELETE(contact, { params: { path } }), 204);
const rest = { filters: { "id:in": ids.join(",") } };
expect("contacts.delete_many", await client.DELETE(contacts, { params: { ...ofList, query: rest } }), 204);

const accepted = await client.POST("/v1/transactional-sends", {
  body: {
    type: "email",
    list_id,
    message_id,
    group_name: "Codes",
    priority: null,
    from_address: estate.from_address,
    tags: ["codes"],
    recipients: [{ email: "dora@example.com", code: "482913" }],
  },
});
const first = expect("sends.create", accepted, 202)._embedded.recipients[0];
const uuid = first && "uuid" in first ? first.uuid : "";
const sent = await client.GET("/v1/transactional-sends/{uuid}", { params: { path: { uuid } } });
same(expect("sends.get", sent, 200).email, "dora@example.com");
const toDora = { params: { query: { email: "dora@example.com", filters: { "state:ne": "bounced" } } } };
const recipients = expect("sends.list", await client.GET("/v1/transactional-sends", toDora), 200);
same(recipients._embedded.recipients.map((recipient) => recipient.uuid), [uuid]);
const tag = await client.GET("/v1/tags/{tag}", { params: { path: { tag: "codes" } } });
same(expect("tags.get", tag, 200).sent, 1);
const cancelled = await client.POST("/v1/transactional-sends/{uuid}/cancel", { params: { path: { uuid } } });
same(expect("sends.cancel", cancelled, 200).reason, "cancelled");
const cancelledAgain = await client.POST("/v1/transactional-sends/cancel", { body: { uuids: [uuid] } });
same(expect("sends.cancel_many", cancelledAgain, 200).size, 0);
const suppression = { state: "blocked" as const, email: "eve@example.com" };
expect("suppressions.add", await client.POST("/v1/suppressions", { body: suppression }), 201);
const suppressions = expect("suppressions.list", await client.GET("/v1/suppressions"), 200);
same(suppressions._embedded.suppressions.map((one) => one.email), ["eve@example.com"]);
const ofEve = { params: { query: { email: "eve@example.com" } } };
expect("suppressions.remove", await client.DELETE("/v1/suppressions", ofEve), 204);
const captured_id = estate.captured_id;
const inbox = expect("inbox.list", await client.GET("/v1/inbox", { params: { query: { type: "email" } } }), 200);
same(inbox._embedded.messages.map((message) => message.id), [captured_id]);
expect("inbox.get", await client.GET("/v1/inbox/{captured_id}", { params: { path: { captured_id } } }), 200);
const groups = expect("groups.list", await client.GET("/v1/transactional-groups"), 200);
const group_id = groups._embedded["transactional-groups"][0]?.id ?? 0;
const group = await client.GET("/v1/transactional-groups/{group_id}", { params: { path: { group_id } } });
same(expect("groups.get", group, 200).name, "Codes");

const messages = await client.GET("/v1/messages", { params: { query: { filters: { "type:ne": "sms" } } } });
same(expect("messages.list", messages, 200)._embedded.messages.map((message) => message.id), [message_id]);
const ofMessage = { params: { path: { message_id } } };
expect("messages.get", await client.GET("/v1/messages/{message_id}", ofMessage), 200);
expect("messages.get_content", await client.GET("/v1/messages/{message_id}/content", ofMessage), 200);
expect("messages.list_sent_contacts", await client.GET("/v1/messages/{message_id}/sent-contacts", ofMessage), 200);

const ofAutomation = { params: { path: { automation_id } } };
expect("automations.list", await client.GET("/v1/automations"), 200);
expect("automations.get", await client.GET("/v1/automations/{automation_id}", ofAutomation), 200);
const runs = expect("automations.list_runs", await client.GET("/v1/automations/{automation_id}/runs", ofAutomation), 200);
const run_id = runs._embedded.runs[0]?.id ?? 0;
const ofRun = { params: { path: { automation_id, run_id } } };
expect("automations.get_run", await client.GET("/v1/automations/{automation_id}/runs/{run_id}", ofRun), 200);
expect("automations.pause", await client.POST("/v1/automations/{automation_id}/pause", ofAutomation), 200);
const held = { ...ofAutomation, body: { held: "shift" as const } };
expect("automations.resume", await client.POST("/v1/automations/{automation_id}/resume", held), 200);
const definition = {
  name: "Reminder",
  kind: "standard" as const,
  list: estate.list_name,
  trigger: "When a Contact is created from the REST API",
  message: "Welcome",
};
expect("automations.validate", await client.POST("/v1/automations/validate", { body: definition }), 200);

const refused = await client.GET("/v1/lists/{list_id}", { params: { path: { list_id: 999999999 } } });
same([refused.response.status, refused.error?.code], [404, "not_found"]);
console.log(JSON.stringify([...new Set(called)].sort()));
