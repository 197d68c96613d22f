"""What each error code means, its usual cause and what to do next: the pages at `/docs/errors` and docs/errors.md.

The texts explain; what exactly is wrong with a request stands in its `developer_message`. What only the operator can do
is named with the command of this installation (docs/requests.md#errors).
"""

from __future__ import annotations

from typing import NamedTuple

from app.distribution import COMMAND_LINE

TMS = COMMAND_LINE


class Help(NamedTuple):
    """The explanation of one code."""

    meaning: str
    cause: str
    remedy: str


_TYPES = {
    "invalid_request": Help(
        "The service could not read the request, so it looked at none of its values.",
        "A body that is not valid JSON or not UTF-8, that is empty, too large or cut off, a content type other than "
        "JSON, or a malformed Idempotency-Key. Errors of query parameters have this type, too, with codes of their "
        "own.",
        "Serialise the body with a JSON library, send it with `Content-Type: application/json`, and compare it with "
        "the example in the reference at /docs. For a body that is too large, send fewer elements in each request.",
    ),
    "invalid_api_version": Help(
        "The path begins with a version that this service does not have.",
        "A base URL with `/v2`, or with the version of another API.",
        "Begin every path with `/v1`; the reference at /docs lists all paths.",
    ),
    "api_key_missing": Help(
        "The request has no API key.",
        "The client sends no Authorization header or an empty one, often because a variable with the key is not set, "
        "or because the client drops the header when it follows a redirect.",
        "Send the header `Authorization: Bearer <key>` with every request, and try it out with `GET /v1/`.",
    ),
    "api_key_invalid": Help(
        "The request has an Authorization header, but without a valid key of this service.",
        "A key that was revoked or cut off when it was copied, a key of another installation, a scheme other than "
        "Bearer, or a key with an expiry date.",
        "Compare the key with the one that you were given, and try it out with `GET /v1/`. A lost key cannot be shown "
        f"again: ask the operator for another one (`{TMS} keys create NAME --level LEVEL`).",
    ),
    "ip_restricted": Help(
        "The key is valid, but the account takes requests from chosen networks only, and yours came from another.",
        "A new server, a changed outgoing address of your network, or a proxy in front of the service that "
        "TRUSTED_PROXIES does not count.",
        "Send the request from a permitted network, or ask the operator to permit the address of your server "
        f"(`{TMS} accounts update ACCOUNT --allow-network CIDR`, with every permitted network, because the option "
        "replaces the whole list).",
    ),
    "permission_denied": Help(
        "The key is valid, but its access level does not include this endpoint or this filter.",
        "A key of the level `report` or `limited` where a higher one is needed.",
        "`access_token_scope` in the answer to `GET /v1/` lists what the key may do, and the reference at /docs what "
        "each endpoint needs. Use a key of a sufficient level, or ask the operator for one "
        f"(`{TMS} keys create NAME --level LEVEL`).",
    ),
    "ssl_required": Help(
        "The service takes keys over https only, so that nobody on the way can read them.",
        "A base URL that begins with http, or a proxy in front of the service that does not pass on that it was https.",
        "Use the https URL of the service. If you did, the operator has to set TRUSTED_PROXIES, and the proxy has to "
        "send X-Forwarded-Proto.",
    ),
    "not_found": Help(
        "This path leads to nothing that the key may see.",
        "A mistyped path, an id that was deleted, that is not an integer or that belongs to another account, or a test "
        "key with an id that only the account itself has.",
        "Find the id with the collection, such as `GET /v1/lists`, or follow the links in `_links`. The reference at "
        "/docs lists all paths.",
    ),
    "method_not_allowed": Help(
        "The path exists, but not with this method.",
        "PUT where the API has PATCH, POST on the path of a single object, or DELETE of something that is read-only.",
        "The header Allow of this answer lists the methods of the path. A request with OPTIONS gets it without a key.",
    ),
    "conflict": Help(
        "The request is valid in itself, but conflicts with something that exists.",
        "An address that another contact of the list has, a group of the other type, an element that occurs twice in "
        "the body, or an Idempotency-Key that was used for another request or whose request is still in progress.",
        "`fields`, if present, names the object that has the value: update that one instead. For an Idempotency-Key, "
        "wait as long as `Retry-After` says, or use a new key for a new request.",
    ),
    "validation_error": Help(
        "The service understood the request, but a value in it breaks a rule.",
        "One of the codes below, which say more.",
        "Correct what `field`, `collection` and `index` point at; `_embedded.errors` lists all errors of the request. "
        "Nothing was written.",
    ),
    "too_many_requests": Help(
        "This key has used up its requests for the current period.",
        "A loop without pauses, several processes with one key, or one request per contact or recipient.",
        "Wait for as many seconds as `Retry-After` says; `RateLimit-Remaining` warns beforehand. Send up to 1,000 "
        "contacts or 100 recipients in one request. If that is not enough, ask the operator for a higher limit "
        f"(`{TMS} accounts update ACCOUNT --rate-limit N/minute`).",
    ),
    "service_unavailable": Help(
        "The service could not carry out the request at the moment. The request itself may be valid.",
        "An overload, a restart, or a database that does not answer.",
        "Wait for as many seconds as `Retry-After` says, and repeat the request. Repeat a POST with the same "
        "`Idempotency-Key`, so that nothing happens twice. If the error persists, give the operator its `id`; "
        f"`{TMS} status` shows what is wrong.",
    ),
}

_SCHEMA = {
    "required": Help(
        "A required attribute is missing.",
        "A misspelled name, or a variable that was null or undefined, which counts as missing. An email send always "
        "needs a list.",
        "Add the attribute that `field` names. For `list_id`, `GET /v1/lists` shows the ids of your lists; for "
        "`unsubscribe_type`, take none, word or link.",
    ),
    "not_empty": Help(
        "The attribute is there, but it is empty.",
        "An array without elements, such as `recipients` or `contacts` of a query that found nobody.",
        "Give at least one element, or do not send the request when there is nothing to send.",
    ),
    "too_long": Help(
        "A text has more characters, or an array more elements, than the service takes.",
        "More than 100 recipients or 1,000 contacts in one request, a subject above 998 characters, a body above 1 "
        "MiB, or attachments that are too many or too large together.",
        "Shorten the text, or divide the array among several requests. Put large files behind a link instead of "
        "attaching them.",
    ),
    "too_short": Help(
        "A text has fewer characters, or an array fewer elements, than needed.",
        "A signing secret of a webhook with fewer than 32 bytes. Plugins may have other such attributes.",
        "Give at least as much as the `developer_message` says.",
    ),
    "invalid_range": Help(
        "A number or a duration lies outside of the two bounds that the attribute has.",
        "A `send_at` more than 90 days ahead, or a duration below a minute or above the longest one in the definition "
        "of an automation.",
        "Give a number from the lower to the upper bound in the `developer_message`. Both bounds are allowed.",
    ),
    "invalid_string": Help(
        "The attribute takes text, or one of a few words, and the value is neither.",
        "A number, object or array in place of a text, an option that a Dropdown does not have, a value outside of an "
        "enumeration such as `type`, or a control character in a subject or name.",
        "Send a JSON string; where there is a choice, one of the values in the `developer_message`. `GET "
        "/docs/openapi.json` describes every attribute.",
    ),
    "invalid_boolean": Help(
        "The attribute takes only true or false.",
        '"true" in quotation marks, 1 and 0, or null, which some libraries send for an unset value.',
        "Send `true` or `false` without quotation marks, or leave the attribute out.",
    ),
    "invalid_integer": Help(
        "The attribute takes a whole number.",
        'A number in quotation marks ("12"), a fraction, or an identifier of your own system in place of an id of this '
        "one.",
        "Send the digits alone, such as `12`. `GET /v1/lists` and the other collections show the ids.",
    ),
    "invalid_number": Help(
        "The attribute, or the list field of the type Number or Currency, takes a number, and the value is none.",
        'A number in quotation marks, with a currency sign, or with a comma ("1,50").',
        "Send a JSON number with a point, such as `1.5`, or `null` to clear the field.",
    ),
    "invalid_positive_number": Help(
        "The attribute takes a number above zero.",
        "Only extensions of this installation have such attributes; the API itself does not use this code.",
        "Send a JSON number that is greater than `0`.",
    ),
    "invalid_bitfield": Help(
        "The attribute takes a number whose bits are flags, and one of these is unknown.",
        "Only extensions of this installation have such attributes; the API itself does not use this code.",
        "Send the sum of flags that the `developer_message` allows.",
    ),
    "invalid_array": Help(
        "The attribute takes several values in square brackets.",
        "A single object or text in place of an array with one element, or an array that was serialised twice and came "
        "as text.",
        "Put the elements in brackets, such as `[{…}]`, even if there is only one.",
    ),
    "invalid_object": Help(
        "The value must be a JSON object, and something else was sent.",
        "A body that is an array or a text, an element that is null, or JSON that was serialised twice.",
        "Send attributes in braces, such as `{…}`. Several contacts go into the array `contacts` of an object.",
    ),
    "invalid_collection": Help(
        "The attribute takes a collection of the API, and the value is not one.",
        "Only extensions of this installation have such attributes; the API itself does not use this code.",
        "Send a collection as the `developer_message` describes it.",
    ),
    "invalid_id": Help(
        "An id in the body does not exist in this account. (An id in the path is `not_found`.)",
        "Something that was deleted, an id of another account or installation, or `group_id` of one group together "
        "with `group_name` of another.",
        "Find the id in its collection: `GET /v1/lists`, `GET /v1/messages` or `GET /v1/transactional-groups`.",
    ),
    "invalid_url": Help(
        "The attribute, or the list field of the type Website Address / URL, takes a web address, and the value is "
        "none.",
        "An address without `https://`, with spaces, or of another scheme such as mailto.",
        "Send it in full, such as `https://acme.example/shop`, or `null` to clear the field.",
    ),
    "invalid_iso_date_time": Help(
        "The value is not in a format of dates and times that the API accepts.",
        "A national date format, such as 31/01/2026; a zone at the end for a Date Picker field, which has none; or no "
        "zone in `send_at` or `expiry_time`, which need one.",
        "Write `2026-01-31` or `2026-01-31T10:00:00` for a field of a list, and a time with its zone, such as "
        "`2026-01-31T10:00:00+1000`, for the others.",
    ),
    "invalid_iso_date": Help(
        "A value of a Date of Birth field is not in the format of dates that the API accepts.",
        "A national date format, such as 31/01/1990, or a time after the date.",
        "Write the year, the month and the day: `1990-01-31`.",
    ),
    "invalid_date": Help(
        "The value is written as a date, but the calendar has no such day.",
        "Day and month in the wrong order, or 29 February of a year without one.",
        "Check the order, which is year, month, day: `1990-01-31`.",
    ),
    "invalid_date_time": Help(
        "The value is written as a date and time, but there is no such day or time of day.",
        "Day and month in the wrong order, or an hour of 24 and more.",
        "Check the order and the hours, 00 to 23: `2026-01-31T10:00:00`.",
    ),
    "invalid_email_address": Help(
        "The value is not an email address. The service checks its form, not whether the mailbox exists.",
        "A typing error, a name around the address, several addresses in one value, a domain without a dot, or spaces.",
        "Send one bare address, such as `ann@example.com`. Where people type addresses, check them there and let them "
        "correct what they typed.",
    ),
    "invalid_mobile_address": Help(
        "The value is not a mobile number of the country whose code it begins with.",
        "A leading `+`, `00` or `0`, spaces or hyphens, or a number without its country code.",
        "Send the digits alone with the country code in front: `61491570156` for 0491 570 156 in Australia.",
    ),
    "unexpected_field": Help(
        "The request has an attribute that does not belong there. It was refused so that a typing error does not go "
        "unnoticed.",
        "A misspelled name, a key that is no field of the list, a read-only attribute such as `blocked`, or an "
        "attribute for emails in a text message.",
        "Leave out or rename what `field` names. `GET /docs/openapi.json` describes the attributes of each request; "
        "the fields of a list are the properties of its contacts.",
    ),
}

_QUERIES = {
    "invalid_time_zone": Help(
        "`_tz` chooses the time zone of the answer, and no zone has this name.",
        "An abbreviation such as AEST, an offset such as +10:00, or the name that an operating system shows.",
        "Give a name of the IANA database, such as `Australia/Brisbane`, or leave `_tz` out for UTC.",
    ),
    "parameter_not_supported": Help(
        "The query has a parameter that this resource does not know. It was refused so that you do not mistake all "
        "items for filtered ones.",
        "A misspelled name, a list field that this list does not have, or a parameter of another endpoint.",
        "Remove or rename what `field` names; the `developer_message` lists the filters of the resource.",
    ),
    "parameter_not_available": Help(
        "The parameter exists, but not for this method or for a single object.",
        "`limit`, `offset` or a filter on a path that ends in an id, or on POST; `remove_unsubscribers` on GET.",
        "Remove the parameter, or send the request to the collection, such as `GET /v1/lists`.",
    ),
    "invalid_operator": Help(
        "The text after the colon of a filter is not an operator.",
        "`:gt`, `:like` and others from other APIs, or a colon without anything after it.",
        "Use `:ne` for other values, `:in` for several, and ranges such as `id:in=10..20` for greater and less.",
    ),
    "invalid_query_syntax": Help(
        "The value of a parameter is not one that the parameter can have.",
        "Text where a number, a boolean or a time is needed, an unknown name in `fields` or `expand`, or a `cursor` "
        "that belongs to another query.",
        "Correct the value of the parameter that `field` names. Take `cursor` only from the links `next` and `prev`, "
        "and leave the rest of the link as it is.",
    ),
    "text_search_not_supported": Help(
        "The API has no text search, so it does not accept `q`.",
        "A client that was written for an API with such a search.",
        "Filter by fields instead, such as `GET /v1/lists?name=Customers`.",
    ),
    "invalid_order_by": Help(
        "The order of a collection cannot be chosen: the newest always comes first.",
        "A client that sends `order_by` with every request.",
        "Remove `order_by`, and sort what you have received.",
    ),
    "invalid_limit": Help(
        "`limit` is the number of items on a page, and the value is not allowed.",
        "A number above 1000, a negative one, or a text.",
        "Give `limit` from 0 to 1000, and follow `_links.next` for more. `limit=0` only counts.",
    ),
    "invalid_offset": Help(
        "`offset` is the number of items to skip, and the value is not allowed.",
        "A negative number, often computed from a page number that begins with 0, or a text.",
        "Give `offset` of 0 or more, or follow `_links.next` and `_links.prev` instead of computing it.",
    ),
    "invalid_filter_list": Help(
        "A list of values after `:in` cannot be read.",
        "Two commas in a row, one at the end, no value at all, or more than 1,000 values.",
        "Separate 1 to 1,000 values with single commas, such as `id:in=12,13`; a comma within a value is `\\,`. Divide "
        "longer lists among several requests.",
    ),
}

_CONTACTS = {
    "field_email_not_in_list": Help(
        "The list has no field for email addresses, so its contacts have none.",
        "A list that was made for text messages, or the id of another list than you meant.",
        "Leave out `email`, choose another list with `GET /v1/lists`, or ask the operator to add the field "
        f"(`{TMS} lists add-field LIST Email Email`).",
    ),
    "field_mobile_not_in_list": Help(
        "The list has no field for mobile numbers, so its contacts have none.",
        "A list that was made for emails, or the id of another list than you meant.",
        "Leave out `mobile`, choose another list with `GET /v1/lists`, or ask the operator to add the field "
        f'(`{TMS} lists add-field LIST Mobile "Mobile Phone"`).',
    ),
    "no_subscribed_addresses": Help(
        "`remove_unsubscribers` leaves out people who have unsubscribed, and nobody else was in the request.",
        "All addresses of the request are on the list of unsubscribed addresses.",
        "Nothing is wrong with the request: there is nobody to add. `remove_unsubscribers=list` looks at this list "
        "only, `none` creates all contacts; sends still skip those who have unsubscribed.",
    ),
    "list_not_mutable": Help(
        "This is a system list, which the operator maintains: the API can read its contacts, but not change them.",
        "The id of another list than you meant, or a send to an address that is no contact of the system list yet.",
        "Choose another list with `GET /v1/lists`, or ask the operator to change the contact "
        f"(`{TMS} contacts update`).",
    ),
    "cannot_reset_double_opt_in": Help(
        "The contact has confirmed its subscription, and that cannot be taken back.",
        "A client that writes all attributes, with `double_opt_in` from an older copy.",
        "Leave `double_opt_in` out of the update. To stop sending to the contact, set `subscribed` or `is_active` to "
        "false.",
    ),
    "filter_id_required": Help(
        "A DELETE on the path of a collection has to say what to delete, so that no mistake deletes everything.",
        "Contacts of a list without `id`, or suppressions without an address, often because the value was empty.",
        "Name the contacts, as in `?id=12` or `?id:in=12,13`, up to 1,000 of them; or the suppressed address.",
    ),
}

_SENDS = {
    "email_address_missing": Help(
        "A recipient of an email says neither where to send it nor which contact it is for.",
        "An empty or null `email`, only a `mobile`, or a send that was meant as sms and has `type` email.",
        "Give each recipient `email` or `contact_id`, and leave out those without an address.",
    ),
    "mobile_address_missing": Help(
        "A recipient of a text message says neither where to send it nor which contact it is for.",
        "An empty or null `mobile`, only an `email`, or a send that was meant as email and has `type` sms.",
        "Give each recipient `mobile` or `contact_id`, and leave out those without a number.",
    ),
    "list_address_field_missing": Help(
        "The contacts of the list cannot have an address of the kind that this message needs.",
        "A text message to a list without mobile numbers, an email to a list without email addresses, or a "
        "`message_id` whose type is another than you thought.",
        "Choose another `list_id` from `GET /v1/lists`, leave it out of a text message, or ask the operator to add the "
        f"field (`{TMS} lists add-field LIST NAME TYPE`).",
    ),
    "content_missing": Help(
        "There is nothing to send: neither the request nor the stored message has a text.",
        "A body of white space only, a variable that was empty, or a stored message that nobody has written yet.",
        "Give `body_html` or `body_text`, for an sms `body_text`, or the `message_id` of a message that has them: "
        "`GET /v1/messages/{id}/content` shows what it has.",
    ),
    "group_missing": Help(
        "Every send belongs to a group, in which its results are counted.",
        "A request with neither `group_id` nor `group_name`, or with null in both.",
        "Give `group_name`, such as `Password resets`: the first send makes the group. Or give `group_id` of one in "
        "`GET /v1/transactional-groups`.",
    ),
    "group_count_exceeded": Help(
        "`group_name` is new, and the account has as many groups as it may have.",
        "A name that differs with every send, such as one with a date, an order number or an address in it.",
        "Use few names that say what kind of message it is, or the `group_id` of a group in "
        "`GET /v1/transactional-groups`. The operator can raise the limit with the setting MAX_GROUPS.",
    ),
    "invalid_attachment_name": Help(
        "The name of an attachment is not one that every mail program can save as a file.",
        "A path with slashes, quotation marks or other special characters, a dot in front, or the same name twice for "
        "one recipient.",
        "Give `name` 1 to 255 letters, digits, spaces and `. _ - ( )`, each name once, such as `invoice-2026-01.pdf`.",
    ),
    "invalid_attachment_extension": Help(
        "The extension of an attachment's name does not fit its MIME type. Filters take such attachments for malware.",
        "A name without an extension, or the `type` of another file.",
        "Make the extension of `name` fit `type`, such as `.pdf` for application/pdf; `application/octet-stream` "
        "accepts every extension.",
    ),
    "invalid_attachment_content": Help(
        "The content of an attachment cannot be decoded.",
        "The bytes themselves in place of their base64, a `data:` URL, line breaks, or the variant for URLs with `-` "
        "and `_`.",
        "Encode the bytes of the file as standard base64 in one line, with padding, and send that alone as `content`.",
    ),
    "account_owner_unverified": Help(
        "The account sends nothing before its owner has confirmed the email address of the account.",
        "A new account, or one whose owner has changed.",
        "Nothing in the request can change it: ask the operator to mark the address as confirmed "
        f"(`{TMS} accounts update ACCOUNT --owner-confirmed`), and then send again.",
    ),
    "recipient_destination_ambiguous": Help(
        "A recipient has more than one destination, and only one of them can be meant.",
        "A client that passes on the id of the contact together with its address.",
        "Keep exactly one of `contact_id`, `email` and `mobile`, of the type of the send.",
    ),
    "invalid_wildcard_name_characters": Help(
        "A recipient has an attribute whose name cannot stand between `%%` in a message.",
        "Spaces, hyphens, dots or letters with accents in a name, or `#` in front of one although "
        "`recipient_data_html_encoded` is not false.",
        "Name it with A-Z, a-z, 0-9 and underscore, such as `first_name`, and write it so in the message, too.",
    ),
    "invalid_wildcard_name_reserved": Help(
        "The name has a meaning of its own in a send to a list, so it cannot be a value of yours.",
        "`id` among the values of a recipient, with the id of your own system.",
        "Give the value another name, such as `customer_id`, and use that in the message. A contact is named by "
        "`contact_id`.",
    ),
    "invalid_wildcard_name_too_long": Help(
        "The name of a value has more than 255 characters.",
        "A value in place of its name, because key and value were exchanged.",
        "Check the order of name and value, and shorten the name to at most 255 characters.",
    ),
    "invalid_wildcard_value_too_long": Help(
        "The value of a wildcard has more than 10,000 characters.",
        "A whole document, or an image as base64, as the value of a recipient.",
        "Put what is the same for all into `body_html` or `body_text`, and files into `attachments`.",
    ),
    "subject_empty": Help(
        "An email needs a subject, and neither the request nor the stored message has one.",
        "A variable that was empty, or a stored message whose subject was left out.",
        "Give `subject`, or ask the operator to give the message one "
        f"(`{TMS} messages update MESSAGE --subject TEXT`); `GET /v1/messages/{{id}}` shows what it has.",
    ),
    "from_name_required": Help(
        "The stored message has no sender's name, and the request does not give one either.",
        "A message that was stored with an address alone.",
        "Give `from_name`, or ask the operator to save one with the message "
        f"(`{TMS} messages update MESSAGE --from-name NAME`).",
    ),
    "invalid_from_address": Help(
        "The service cannot send from this address, or knows none to send from.",
        "No `from_address` where the account has no default sender, a phone number for an email or an email address "
        "for a text message, or a sender of text messages that is not approved.",
        "Give `from_address`: for emails an address of a configured domain, for text messages an approved sender. The "
        f"operator approves one with `{TMS} senders create`, and sets a default for emails with "
        f"`{TMS} accounts update ACCOUNT --default-from-address EMAIL`.",
    ),
    "invalid_from_address_domain": Help(
        "The account may not send from this domain, because its SPF and DKIM records have not been found.",
        "An address of a public provider such as gmail.com, a domain of which only the parent is configured, or one "
        "whose DNS records are not published yet.",
        "Send with a `from_address` of a domain of your own that is configured. To configure one, ask the operator to "
        f"add it (`{TMS} domains add DOMAIN`), publish the records that this shows, and have them checked "
        f"(`{TMS} domains verify DOMAIN`); the console has both under Domains.",
    ),
    "invalid_reply_to_address": Help(
        "`reply_to` is not an address that replies could go to.",
        "A name around the address, several addresses, or a typing error.",
        "Give one bare address in `reply_to`, such as `help@acme.example`, or leave it out: replies then go to the "
        "sender.",
    ),
    "invalid_bcc_address_domain": Help(
        "Blind copies go to configured domains of the account only, so that no message is copied to strangers.",
        "A private address or one of another company in `bcc_address`.",
        "Give `bcc_address` in a domain that is configured, or ask the operator to add its domain "
        f"(`{TMS} domains add DOMAIN`, then `{TMS} domains verify DOMAIN`).",
    ),
    "redundant_unsubscribe_type": Help(
        "A stored message decides how people opt out, so the request must not decide it.",
        "`unsubscribe_type` that is sent with every text message, also with `message_id`.",
        "Leave out `unsubscribe_type`, or leave out `message_id` and give the text in `body_text`.",
    ),
    "unsubscribe_type_sender_mismatch": Help(
        "The way to opt out does not go with the sender: nobody can reply to a name.",
        "`unsubscribe_type` word or link with a sender such as ACME.",
        "Give `unsubscribe_type` none, or send from a virtual number in `from_address`; the operator approves one with "
        f"`{TMS} senders create`.",
    ),
    "recipient_missing_list_id": Help(
        "The id of a contact is valid only within its list, and the send names no list.",
        "`contact_id` in a recipient, but no `list_id` beside `recipients`.",
        "Give the `list_id` of the contact, from `GET /v1/lists`, or name the recipient by `email` or `mobile`.",
    ),
    "from_address_invalid_list": Help(
        "The number is kept for one list, so that replies to it can be matched, and the send goes to another.",
        "A `from_address` that was copied from a send to that list.",
        "Leave out `from_address` to use the number of the list, give another sender, or give the `list_id` that the "
        f"number belongs to. The operator can reassign it (`{TMS} senders update`).",
    ),
    "missing_stop_words": Help(
        "The text message does not say how to opt out, although recipients opt out by a reply.",
        "No stop word as a whole word in the text, one that stands in a conditional and is not shown to all, or an "
        "`unsubscribe_type` that was left out and so means word.",
        "Write something like `Reply STOP to opt out` into `body_text`. If the text offers a link instead, or needs no "
        "opt-out, say so with `unsubscribe_type` link or none.",
    ),
}

_CANCELLING = {
    "recipient_not_cancellable": Help(
        "The message can no longer be cancelled.",
        "An attempt to send it is in progress, it may have been delivered, or it has ended: `state` of the recipient "
        "tells which.",
        "You cannot recall the message. If this attempt is deferred, you can cancel it then.",
    ),
}

HELP: dict[str, Help] = {**_TYPES, **_SCHEMA, **_QUERIES, **_CONTACTS, **_SENDS, **_CANCELLING}
"""Code -> its explanation."""
