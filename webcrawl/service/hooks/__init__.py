"""Webhooks: events of the live lane are posted to receivers, signed, and again until they are accepted."""
