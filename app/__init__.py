"""The service: a REST API that sends transactional email and SMS."""
