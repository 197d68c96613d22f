<?php
// The first twelve tasks with the curl extension, in the demo account of `make run`.
//
//     TMS_URL=http://127.0.0.1:8000 TMS_KEY=tms_... php examples/php/first_steps.php

declare(strict_types=1);

final class ApiError extends RuntimeException
{
    public function __construct(public readonly array $body)
    {
        parent::__construct($body['developer_message']);
    }
}

function call(string $method, string $path, ?array $body = null, array $headers = []): ?array
{
    static $curl = null; // one handle, so that the connection is used again
    $curl ??= curl_init();
    curl_reset($curl);
    curl_setopt_array($curl, [
        CURLOPT_URL => getenv('TMS_URL') . $path,
        CURLOPT_CUSTOMREQUEST => $method,
        CURLOPT_HTTPHEADER => [
            'Authorization: Bearer ' . getenv('TMS_KEY'),
            'Content-Type: application/json',
            ...$headers,
        ],
        CURLOPT_RETURNTRANSFER => true,
        CURLOPT_TIMEOUT => 30,
    ]);
    if ($body !== null) {
        curl_setopt($curl, CURLOPT_POSTFIELDS, json_encode($body, JSON_THROW_ON_ERROR));
    }
    $text = curl_exec($curl);
    if ($text === false) {
        throw new RuntimeException(curl_error($curl));
    }
    $answer = $text === '' ? null : json_decode($text, true, flags: JSON_THROW_ON_ERROR);
    if (curl_getinfo($curl, CURLINFO_RESPONSE_CODE) >= 300) {
        throw new ApiError($answer);
    }
    return $answer;
}

$run = bin2hex(random_bytes(4)); // so that it can run again

// 1. What may the key do?
$scopes = explode(',', call('GET', '/v1/')['access_token_scope']);
echo '1 the key may send email: ', in_array('send.email', $scopes, true) ? 'yes' : 'no', "\n";

// 2. Find a list by its name.
$customers = call('GET', '/v1/lists?name=Customers')['_embedded']['lists'][0];
$contacts = "/v1/lists/{$customers['id']}/contacts";
echo "2 the list Customers has the id {$customers['id']}\n";

// 3. Create a contact. With this key the same request, sent again, creates none.
$person = ['email' => "ann-$run@example.com", 'first_name' => 'Ann'];
$contact = call('POST', $contacts, $person, ["Idempotency-Key: signup-$run"]);
echo "3 created {$contact['email']}\n";

// 4. Change it.
$contact = call('PATCH', "$contacts/{$contact['id']}", ['plan' => 'gold', 'double_opt_in' => true]);
echo "4 the plan of {$contact['first_name']} is {$contact['plan']}\n";

// 5. Read all contacts, ten on each page.
$read = 0;
$next = "$contacts?fields=id&limit=10";
while ($next !== null) {
    $page = call('GET', $next);
    $read += count($page['_embedded']['contacts']);
    $next = $page['_links']['next']['href'] ?? null;
}
$size = call('GET', "$contacts?limit=0")['size'];
echo "5 read $read of $size contacts\n";

// 6. Send an email with an attachment.
$invoice = ['type' => 'text/plain', 'name' => 'invoice.txt', 'content' => base64_encode("Total: 100 EUR\n")];
$send = call('POST', '/v1/transactional-sends', [
    'type' => 'email',
    'list_id' => $customers['id'],
    'group_name' => "Invoices $run",
    'subject' => 'Invoice for %%first_name**you%%',
    'from_name' => 'Acme',
    'from_address' => 'billing@mail.acme.example',
    'body_text' => 'Dear %%first_name**customer%%, the invoice is attached.',
    'recipients' => [['email' => $contact['email'], 'attachments' => [$invoice]]],
    'metadata' => ['invoice' => $run],
], ["Idempotency-Key: invoice-$run"]);
echo '6 accepted ', count($send['_embedded']['recipients']), " email\n";

// 7. Send a stored message to two people, with a value for each.
$welcome = call('GET', '/v1/messages?name=Welcome')['_embedded']['messages'][0];
$greeting = call('POST', '/v1/transactional-sends', [
    'type' => 'email',
    'list_id' => $customers['id'],
    'message_id' => $welcome['id'],
    'group_name' => "Welcome $run",
    'recipients' => [
        ['email' => "ben-$run@example.com", 'first_name' => 'Ben'],
        ['email' => "cleo-$run@example.com", 'first_name' => 'Cleo'],
    ],
]);
echo '7 accepted ', count($greeting['_embedded']['recipients']), " emails\n";

// 8. Send a text message. The code is stored encrypted, and only until the message has left.
$text = call('POST', '/v1/transactional-sends', [
    'type' => 'sms',
    'group_name' => "Codes $run",
    'unsubscribe_type' => 'none',
    'from_address' => 'ACME',
    'body_text' => 'Your code is %%code%%.',
    'secret_values' => ['code'],
    'recipients' => [['mobile' => '61491570006', 'code' => '482913']],
]);
echo '8 accepted ', count($text['_embedded']['recipients']), " text message\n";

// 9. What became of the email, and of all in its group?
$uuid = $send['_embedded']['recipients'][0]['uuid'];
$recipient = call('GET', "/v1/transactional-sends/$uuid");
for ($tries = 0; in_array($recipient['state'], ['queued', 'sending'], true) && $tries < 1800; $tries++) {
    usleep(100_000);
    $recipient = call('GET', "/v1/transactional-sends/$uuid");
}
$group = call('GET', $send['_links']['transactional_group']['href']);
echo "9 the email is {$recipient['state']}; sent {$group['sent']}, delivered {$group['delivered']}\n";

// 10. Understand an error.
try {
    call('POST', '/v1/transactional-sends', [
        'type' => 'email',
        'list_id' => $customers['id'],
        'message_id' => $welcome['id'],
        'group_name' => "Welcome $run",
        'recipients' => [['email' => 'ann@example.com'], ['email' => 'not an address']],
    ]);
} catch (ApiError $error) {
    ['code' => $code, 'collection' => $collection, 'index' => $index, 'field' => $field] = $error->body;
    echo "10 refused: $code in {$collection}[$index].$field\n";
}

// 11. Find an email by what your application calls it.
$sent = call('GET', "/v1/transactional-sends?metadata.invoice=$run");
echo "11 found {$sent['size']} email with the invoice\n";

// 12. Schedule a reminder for tomorrow, and take it back.
$reminder = call('POST', '/v1/transactional-sends', [
    'type' => 'email',
    'list_id' => $customers['id'],
    'message_id' => $welcome['id'],
    'group_name' => "Reminders $run",
    'recipients' => [['email' => "ann-$run@example.com"]],
    'send_at' => gmdate('c', time() + 24 * 3600),
]);
$reminded = $reminder['_embedded']['recipients'][0]['uuid'];
$cancelled = call('POST', "/v1/transactional-sends/$reminded/cancel");
echo "12 the reminder is {$cancelled['state']}: {$cancelled['reason']}\n";
