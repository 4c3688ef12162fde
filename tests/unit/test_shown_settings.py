"""Settings are shown without secrets."""

from __future__ import annotations

from scrapy.settings import Settings

from webcrawl.config.passwords import HIDDEN, shown_settings

SECRET = "s3cr3t-value"


def test_what_differs_is_shown_and_secrets_are_not() -> None:
    settings = Settings(
        {
            "DOWNLOAD_DELAY": 2,
            "COOKIES_ENABLED": False,
            "USER_AGENT": f"me (+https://user:{SECRET}@example.org/)",
            "REDIS_URL": f"redis://:{SECRET}@db.example:6379/0",
            "REDIS_PARAMS": {"password": SECRET, "socket_timeout": 3},
            "METADATA_URI": f"postgresql://crawler:{SECRET}@db.example/crawls?sslpassword={SECRET}",
            "PROXIES": [f"http://user:{SECRET}@proxy.example:8080"],
        }
    )
    shown = shown_settings(settings)
    assert SECRET not in str(shown)
    assert shown["DOWNLOAD_DELAY"] == "2" and shown["PROXIES"] == HIDDEN
    assert "db.example" in shown["REDIS_URL"] and "'socket_timeout': 3" in shown["REDIS_PARAMS"]
    assert "ITEM_PIPELINES" not in shown, "a table of components"
    assert "WARC_ROLL_BYTES" not in shown, "it has its default"
    assert shown["COOKIES_ENABLED"] == "False", "a number or a switch is no secret"
