"""Reports about a sending domain, which mail servers send once a day: DMARC aggregate reports (RFC 7489) and TLS
reports (RFC 8460). They are read and stored; the service sends none.

    raw message -> `documents` unpacks the attachment and reads it -> `take` stores it
"""
