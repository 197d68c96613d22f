// One call of each operation with the generated TypeScript types and openapi-fetch.
import createClient from "openapi-fetch";
import type { paths } from "./api.js";

interface Estate {
  base: string;
  token: string;
  manager_token: string;
  sender_id: number;
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

const manager = createClient<paths>({
  baseUrl: estate.base,
  headers: { Authorization: `Bearer ${estate.manager_token}` },
  querySerializer: { object: { style: "form", explode: true } },
});
const newList = { name: "Members", fields: [{ name: "Email", type: "Email" as const }] };
const list = expect("management.lists.create", await manager.POST("/v1/management/lists", { body: newList }), 201);
same(list.fields.map((field) => field.key), ["email"]);
const ofManagedList = { path: { list_id: list.id } };
const managedList = "/v1/management/lists/{list_id}";
expect("management.lists.list", await manager.GET("/v1/management/lists"), 200);
expect("management.lists.get", await manager.GET(managedList, { params: ofManagedList }), 200);
const offered = await manager.PATCH(managedList, { params: ofManagedList, body: { offered: true } });
same(expect("management.lists.update", offered, 200).offered, true);

const newMessage = { name: "Receipt", type: "email" as const, body_text: "%%amount%%" };
const message = expect("management.messages.create", await manager.POST("/v1/management/messages", { body: newMessage }), 201);
const ofManagedMessage = { params: { path: { message_id: message.id } } };
const managedMessage = "/v1/management/messages/{message_id}";
expect("management.messages.list", await manager.GET("/v1/management/messages"), 200);
expect("management.messages.get", await manager.GET(managedMessage, ofManagedMessage), 200);
const subject = await manager.PATCH(managedMessage, { ...ofManagedMessage, body: { subject: "Paid" } });
same(expect("management.messages.update", subject, 200).subject, "Paid");
const forAnn = { ...ofManagedMessage, body: { recipients: [{ email: "ann@example.com", amount: "12.50" }] } };
const preview = await manager.POST("/v1/management/messages/{message_id}/preview", forAnn);
same(expect("management.messages.preview", preview, 200).body_text, "12.50");

const hello = { ...definition, name: "Hello", list: "Members", message: "Receipt" };
const automation = expect("management.automations.create", await manager.POST("/v1/management/automations", { body: hello }), 201);
const ofManaged = { params: { path: { automation_id: automation.id } } };
const managedAutomation = "/v1/management/automations/{automation_id}";
expect("management.automations.list", await manager.GET("/v1/management/automations"), 200);
expect("management.automations.get", await manager.GET(managedAutomation, ofManaged), 200);
const later = await manager.PATCH(managedAutomation, { ...ofManaged, body: { ...hello, after: "2 hours" } });
same(expect("management.automations.update", later, 200).version, 2);
expect("management.automations.delete", await manager.DELETE(managedAutomation, ofManaged), 204);
expect("management.messages.delete", await manager.DELETE(managedMessage, ofManagedMessage), 204);
const confirmed = { params: { ...ofManagedList, query: { confirm: "contacts" as const } } };
expect("management.lists.delete", await manager.DELETE(managedList, confirmed), 204);

const url = "https://127.0.0.1/events";
const webhook = expect("management.webhooks.create", await manager.POST("/v1/management/webhooks", { body: { url } }), 201);
same(webhook.generated_secret?.id, "k1");
const ofWebhook = { params: { path: { webhook_id: webhook.id } } };
const managedWebhook = "/v1/management/webhooks/{webhook_id}";
expect("management.webhooks.list", await manager.GET("/v1/management/webhooks", { params: { query: { url } } }), 200);
expect("management.webhooks.get", await manager.GET(managedWebhook, ofWebhook), 200);
expect("management.webhooks.update", await manager.PATCH(managedWebhook, { ...ofWebhook, body: { events: null } }), 200);
const secret = await manager.POST("/v1/management/webhooks/{webhook_id}/secrets", { ...ofWebhook, body: { id: "k2" } });
expect("management.webhooks.add_secret", secret, 201);
const ofSecret = { params: { path: { webhook_id: webhook.id, secret_id: "k1" } } };
const removed = await manager.DELETE("/v1/management/webhooks/{webhook_id}/secrets/{secret_id}", ofSecret);
expect("management.webhooks.remove_secret", removed, 204);
expect("management.webhooks.test", await manager.POST("/v1/management/webhooks/{webhook_id}/test", ofWebhook), 200);
const checkedWebhook = await manager.POST("/v1/management/webhooks/{webhook_id}/check", ofWebhook);
called.push("management.webhooks.check");
same([checkedWebhook.response.status, checkedWebhook.error?.code], [409, "conflict"]);
expect("management.webhooks.delete", await manager.DELETE(managedWebhook, ofWebhook), 204);

const newDomain = { body: { name: "news.acme.example" } };
const domain = expect("management.domains.create", await manager.POST("/v1/management/domains", newDomain), 201);
const ofDomain = { params: { path: { domain_id: domain.id } } };
const managedDomain = "/v1/management/domains/{domain_id}";
expect("management.domains.list", await manager.GET("/v1/management/domains"), 200);
expect("management.domains.get", await manager.GET(managedDomain, ofDomain), 200);
const hosts = { ...ofDomain, body: { tracking_host: "go.news.acme.example" } };
expect("management.domains.update", await manager.PATCH(managedDomain, hosts), 200);
const rotation = { ...ofDomain, body: { selector: "autumn" } };
expect("management.domains.rotate", await manager.POST("/v1/management/domains/{domain_id}/rotate", rotation), 200);
const checked = await manager.POST("/v1/management/domains/{domain_id}/check", ofDomain);
same(expect("management.domains.check", checked, 202).is_checked, true);
expect("management.domains.delete", await manager.DELETE(managedDomain, ofDomain), 204);

const ofSender = { params: { path: { sender_id: estate.sender_id } } };
const managedSender = "/v1/management/senders/{sender_id}";
expect("management.senders.list", await manager.GET("/v1/management/senders"), 200);
expect("management.senders.get", await manager.GET(managedSender, ofSender), 200);
expect("management.senders.update", await manager.PATCH(managedSender, { ...ofSender, body: { note: "Parcels" } }), 200);
expect("management.senders.delete", await manager.DELETE(managedSender, ofSender), 204);

const newKey = { body: { name: "shop", access_level: "standard" as const } };
const key = expect("management.keys.create", await manager.POST("/v1/management/keys", newKey), 201);
same(key.token.startsWith(key.begins_with), true);
const ofKey = { params: { path: { key_id: key.id } } };
const managedKey = "/v1/management/keys/{key_id}";
expect("management.keys.list", await manager.GET("/v1/management/keys", { params: { query: { name: "shop" } } }), 200);
expect("management.keys.get", await manager.GET(managedKey, ofKey), 200);
const level = { ...ofKey, body: { access_level: "limited" as const } };
expect("management.keys.update", await manager.PATCH(managedKey, level), 200);
const overlap = { ...ofKey, body: { overlap_hours: 1 } };
const rotated = expect("management.keys.rotate", await manager.POST("/v1/management/keys/{key_id}/rotate", overlap), 201);
same(rotated.former_key.id, key.id);
expect("management.keys.delete", await manager.DELETE(managedKey, ofKey), 204);

const refused = await client.GET("/v1/lists/{list_id}", { params: { path: { list_id: 999999999 } } });
same([refused.response.status, refused.error?.code], [404, "not_found"]);
console.log(JSON.stringify([...new Set(called)].sort()));
