#!/bin/sh
# The first twelve tasks with curl, in the demo account of `make run`.
#
#     TMS_URL=http://127.0.0.1:8000 TMS_KEY=tms_... sh examples/curl/first_steps.sh

set -eu

call() { # METHOD PATH [options of curl]
    method=$1 path=$2
    shift 2
    curl --silent --show-error --fail-with-body --max-time 30 --globoff -X "$method" \
        -H "Authorization: Bearer $TMS_KEY" -H 'Content-Type: application/json' "$@" "$TMS_URL$path"
}

first() { # NAME: the first value with this name in the JSON on standard input; with jq at hand, use that
    grep -o "\"$1\":[^,}]*" | head -n 1 | cut -d : -f 2 | tr -d '"'
}

how_many() { # NAME
    grep -o "\"$1\":" | wc -l | tr -d ' '
}

run=$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n') # so that it can run again

# 1. What may the key do?
case $(call GET /v1/) in *send.email*) may=yes ;; *) may=no ;; esac
echo "1 the key may send email: $may"

# 2. Find a list by its name.
list=$(call GET '/v1/lists?name=Customers' | first id)
echo "2 the list Customers has the id $list"

# 3. Create a contact. With this key the same request, sent again, creates none.
contact=$(call POST "/v1/lists/$list/contacts" -H "Idempotency-Key: signup-$run" \
    -d "{\"email\": \"ann-$run@example.com\", \"first_name\": \"Ann\"}")
echo "3 created $(echo "$contact" | first email)"

# 4. Change it.
contact=$(call PATCH "/v1/lists/$list/contacts/$(echo "$contact" | first id)" \
    -d '{"plan": "gold", "double_opt_in": true}')
echo "4 the plan of $(echo "$contact" | first first_name) is $(echo "$contact" | first plan)"

# 5. Read all contacts, ten on each page.
read=0
next="/v1/lists/$list/contacts?fields=id&limit=10"
while [ -n "$next" ]; do
    page=$(call GET "$next")
    read=$((read + $(echo "$page" | how_many id)))
    next=$(echo "$page" | grep -o '"next":{"href":"[^"]*' | cut -d '"' -f 6 || true)
done
size=$(call GET "/v1/lists/$list/contacts?limit=0" | first size)
echo "5 read $read of $size contacts"

# 6. Send an email with an attachment.
content=$(printf 'Total: 100 EUR\n' | base64)
send=$(call POST /v1/transactional-sends -H "Idempotency-Key: invoice-$run" -d @- <<END
{
  "type": "email",
  "list_id": $list,
  "group_name": "Invoices $run",
  "subject": "Invoice for %%first_name**you%%",
  "from_name": "Acme",
  "from_address": "billing@mail.acme.example",
  "body_text": "Dear %%first_name**customer%%, the invoice is attached.",
  "recipients": [
    {"email": "ann-$run@example.com",
     "attachments": [{"type": "text/plain", "name": "invoice.txt", "content": "$content"}]}
  ],
  "metadata": {"invoice": "$run"}
}
END
)
echo "6 accepted $(echo "$send" | how_many uuid) email"

# 7. Send a stored message to two people, with a value for each.
message=$(call GET '/v1/messages?name=Welcome' | first id)
greeting=$(call POST /v1/transactional-sends -d @- <<END
{
  "type": "email",
  "list_id": $list,
  "message_id": $message,
  "group_name": "Welcome $run",
  "recipients": [
    {"email": "ben-$run@example.com", "first_name": "Ben"},
    {"email": "cleo-$run@example.com", "first_name": "Cleo"}
  ]
}
END
)
echo "7 accepted $(echo "$greeting" | how_many uuid) emails"

# 8. Send a text message. The code is stored encrypted, and only until the message has left.
text=$(call POST /v1/transactional-sends -d @- <<END
{
  "type": "sms",
  "group_name": "Codes $run",
  "unsubscribe_type": "none",
  "from_address": "ACME",
  "body_text": "Your code is %%code%%.",
  "secret_values": ["code"],
  "recipients": [{"mobile": "61491570006", "code": "482913"}]
}
END
)
echo "8 accepted $(echo "$text" | how_many uuid) text message"

# 9. What became of the email, and of all in its group?
uuid=$(echo "$send" | first uuid)
state=queued
tries=0
while { [ "$state" = queued ] || [ "$state" = sending ]; } && [ $tries -lt 360 ]; do
    sleep 0.5
    state=$(call GET "/v1/transactional-sends/$uuid" | first state)
    tries=$((tries + 1))
done
group=$(call GET "$(echo "$send" | grep -o '/v1/transactional-groups/[0-9]*')")
echo "9 the email is $state; sent $(echo "$group" | first sent), delivered $(echo "$group" | first delivered)"

# 10. Understand an error.
error=$(call POST /v1/transactional-sends -d @- <<END || true
{
  "type": "email",
  "list_id": $list,
  "message_id": $message,
  "group_name": "Welcome $run",
  "recipients": [{"email": "ann@example.com"}, {"email": "not an address"}]
}
END
)
where="$(echo "$error" | first collection)[$(echo "$error" | first index)].$(echo "$error" | first field)"
echo "10 refused: $(echo "$error" | first code) in $where"

# 11. Find an email by what your application calls it.
echo "11 found $(call GET "/v1/transactional-sends?metadata.invoice=$run" | first size) email with the invoice"

# 12. Schedule a reminder for tomorrow, and take it back.
tomorrow=$(date -u -d '+1 day' +%Y-%m-%dT%H:%M:%SZ 2>/dev/null || date -u -v+1d +%Y-%m-%dT%H:%M:%SZ) # GNU, BSD
reminder=$(call POST /v1/transactional-sends -d @- <<END
{
  "type": "email",
  "list_id": $list,
  "message_id": $message,
  "group_name": "Reminders $run",
  "recipients": [{"email": "ann-$run@example.com"}],
  "send_at": "$tomorrow"
}
END
)
cancelled=$(call POST "/v1/transactional-sends/$(echo "$reminder" | first uuid)/cancel")
echo "12 the reminder is $(echo "$cancelled" | first state): $(echo "$cancelled" | first reason)"
