"""The dashboard, the alert rules and the page on metrics name metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests import plain_http
from tests.conftest import NewSqlite
from tests.ports import free_port

from headwater.catalog.sql import SqlCatalog
from headwater.catalog.sql.events.sink_position import Undelivered
from headwater.catalog.sql.operation import Backlog, SweepReport
from headwater.catalog.sql.outbox.outbox import RepairReport
from headwater.server.metrics import Metrics

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "headwater.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())
PROMETHEUS: dict[str, Any] = yaml.safe_load(
    (ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text()
)
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
# Those that Prometheus gives each series, and each histogram's bucket.
GIVEN = {"job", "instance", "le"}

Labels = Mapping[str, frozenset[str]]


@pytest.fixture
def address(tmp_path: Path, new_sqlite: NewSqlite, serve: Callable[..., str]) -> Iterator[str]:
    """The address of a server that has counted one of everything."""
    url = new_sqlite(tmp_path / "headwater.db")
    catalog = SqlCatalog.open(url, warehouse="main", location=str(tmp_path / "lake"))
    made = Metrics(lambda: {"main": Backlog(0, 0)}, lambda: 1, catalog.runtime)
    made.watch(catalog.operation.database)
    made.committed("main", True, 0.1)
    made.fast_lane_taken("a")
    made.refused(503)
    made.request_ends("GET", "a", 200, 0.1, "a", "main")
    made.request_begins()
    made.swept("main", SweepReport(RepairReport(0, ()), 0, 0))
    made.swept("main", None)
    made.deliveries.delivered("file", 1)
    made.deliveries.failed("file")
    made.deliveries.lost("file", 1)
    made.audit_failed()
    made.watch_sinks(lambda: {"file": Undelivered(1, 1)})
    made.watch_warehouses(lambda: {"main": True})
    files = made.count_files(_Away(), "main")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="away"):
        files.read("a")
    with catalog.operation.database.read():
        pass
    catalog.operation.database.write(lambda _: None)
    yield serve(catalog, parts={"metrics": made, "probes": {"database": lambda: None}})
    catalog.close()


@pytest.fixture
def metrics(address: str) -> Labels:
    """The samples of the server, with their labels."""
    text = plain_http.get(f"{address}/metrics").text
    return {
        sample.name: frozenset(sample.labels)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


class _Away:
    def read(self, path: str) -> bytes:
        from headwater.storage.errors import Unavailable

        raise Unavailable("away")


def _families(samples: Labels) -> set[str]:
    histograms = {name.removesuffix("_bucket") for name in samples if name.endswith("_bucket")}
    ends = {name: re.sub(r"_(bucket|count|sum)$", "", name) for name in samples}
    return {ends[name] if ends[name] in histograms else name for name in samples}


def test_the_page_lists_every_metric_with_its_labels(metrics: Labels) -> None:
    page = (ROOT / "docs" / "server.md").read_text()
    table = page.partition("| metric | labels | meaning |\n")[2].partition("\n\n")[0]
    listed: dict[str, set[str]] = {}
    for row in table.splitlines()[1:]:
        cells = row.split("|")
        own, _, more = cells[2].partition(";")
        names = re.findall(r"`(headwater_\w+)`", cells[1])
        for at, name in enumerate(names):
            assert name not in listed
            listed[name] = set(re.findall(r"`(\w+)`", own))
            if ("the first" in more and at == 0) or ("the second" in more and at == 1):
                listed[name] |= set(re.findall(r"`(\w+)`", more))
    histograms = {name.removesuffix("_bucket") for name in metrics if name.endswith("_bucket")}
    printed = {
        name: set(metrics[f"{name}_count" if name in histograms else name])
        for name in _families(metrics)
    }
    assert listed == printed


def _queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        yield variable["name"], variable["query"]["query"]
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def test_queries_name_metrics_and_labels_that_there_are(metrics: Labels) -> None:
    for title, query in _queries():
        names = re.findall(r"\bheadwater_\w+", query)
        assert set(names) <= set(metrics), title
        assert names or query.startswith("up{"), title
        assert query.count("(") == query.count(")"), title
        labels = frozenset[str]().union(*(metrics[name] for name in names)) | GIVEN
        grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
        assert {label for group in grouped for label in re.split(r",\s*", group)} <= labels, title
        for name, selector in re.findall(r"\b(headwater_\w+)\{([^}]*)\}", query):
            assert set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector)) <= metrics[name], title
        if query.startswith("label_values("):
            assert query.removesuffix(")").rpartition(", ")[2] in labels, title


def test_every_metric_is_on_the_dashboard(metrics: Labels) -> None:
    shown = " ".join(query for _, query in _queries())
    # What the dashboard shows by operation is there by route, too.
    assert {name for name in _families(metrics) if name not in shown} == {
        "headwater_http_request_seconds"
    }


def test_texts_of_alerts_name_labels_that_their_queries_keep() -> None:
    for group in ALERTS["groups"]:
        for rule in group["rules"]:
            used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
            kept = re.findall(r"\b(?:by|on) \(([^)]*)\)", rule["expr"])
            known = {label for names in kept for label in re.split(r",\s*", names)}
            assert used <= (known or {"instance", "job"}), rule["alert"]


def test_compose_provisions_what_is_there() -> None:
    services = COMPOSE["services"]
    mounted = [
        volume.split(":")[0]
        for name in ("prometheus", "grafana")
        for volume in services[name]["volumes"]
        if volume.startswith("./")
    ]
    assert len(mounted) == 3
    assert all((ROOT / "deploy" / path).exists() for path in mounted)
    assert all(services[name]["profiles"] == ["monitoring"] for name in ("prometheus", "grafana"))
    (job,) = PROMETHEUS["scrape_configs"]
    (secret,) = services["prometheus"]["secrets"]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{secret}"
    assert secret in COMPOSE["secrets"]
    assert job["static_configs"] == [{"targets": ["server:8080"]}]
    assert all(
        (ROOT / "deploy" / "prometheus" / name).exists() for name in PROMETHEUS["rule_files"]
    )
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    (source,) = yaml.safe_load((folder / "datasources" / "prometheus.yml").read_text())[
        "datasources"
    ]
    used = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "datasource" in panel}
    assert used == {source["uid"]}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus' promtool")
def test_prometheus_takes_the_rules() -> None:
    rules = ROOT / "deploy" / "prometheus" / "alerts.yml"
    checked = subprocess.run(
        ["promtool", "check", "rules", str(rules)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.modes
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Prometheus")
def test_every_query_of_the_dashboard_has_an_answer(address: str, tmp_path: Path) -> None:
    with prometheus(address, tmp_path) as ask:
        # Rates need two samples.
        while not ask("count_over_time(headwater_commits_total[1m]) > 1"):
            threading.Event().wait(0.05)
        for title, query in _queries():
            asked = query.replace("$__rate_interval", "1m").replace("$warehouse", ".*")
            if not query.startswith("label_values("):
                found = ask(asked)
                assert found or title in {rule["alert"] for rule in _rules()}, (title, asked)
        # What fires is told; most of it has a threshold that nothing here has reached.
        assert {each["metric"]["warehouse"] for each in ask("headwater_commits_total")} == {"main"}


def _rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


@contextmanager
def prometheus(address: str, folder: Path) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Prometheus, which scrapes a server: asks a query, whose result is a vector."""
    target = address.removeprefix("http://")
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 200ms, scrape_timeout: 200ms}\n"
        f"scrape_configs: [{{job_name: headwater, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    port = free_port()
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    http = plain_http.Client()

    def ask(query: str) -> list[dict[str, Any]]:
        url = f"http://127.0.0.1:{port}/api/v1/query"
        try:
            answer = http.get(url, params={"query": query})
        except httpx.TransportError:
            assert process.poll() is None
            return []
        if answer.status_code == 503:
            return []  # it is starting
        document = answer.json()
        assert document["status"] == "success", (query, document)
        found: list[dict[str, Any]] = document["data"]["result"]
        return found

    try:
        yield ask
    finally:
        http.close()
        process.kill()
        process.wait()
