"""The files of `deploy/kubernetes` fit each other and the service. `make deploy-check` compares them with schemas of
Kubernetes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.cases import each
from tests.support.deployment import ASSIGNMENT, KUBERNETES, SETTINGS, environment_of_image, manifests, wrong_command

WORKLOADS = {
    item["metadata"]["name"]: item["spec"]["template"] for item in manifests() if "template" in item.get("spec", {})
}
JOBS = {item["metadata"]["name"] for item in manifests() if item["kind"] == "Job"}
KUSTOMIZATIONS = sorted(KUBERNETES.rglob("kustomization.yaml"))
PART_OF = "app.kubernetes.io/part-of"
NAME = "app.kubernetes.io/name"
DEFINED = {"configMapRef": {"tms-settings"}, "secretRef": {"tms"}, "secretKeyRef": {"tms-postgres-app"}}
"""What the release and CloudNativePG make, and the secret of the page."""


def selectors(node: Any) -> list[dict[str, str]]:
    """The labels by which the manifests select pods of the service."""
    if isinstance(node, list):
        return [labels for item in node for labels in selectors(item)]
    if not isinstance(node, dict):
        return []
    chosen = [node[key] for key in ("matchLabels", "selector") if key in node and "matchLabels" not in node[key]]
    ours = [labels for labels in chosen if any("tms" in f"{key}{value}" for key, value in labels.items())]
    return ours + [labels for value in node.values() for labels in selectors(value)]


@each("path", KUSTOMIZATIONS)
def test_a_kustomization_lists_files_that_exist(path: Path) -> None:
    content = next(iter(manifests(path)))
    for name in [*content.get("resources", []), *content.get("components", [])]:
        assert (path.parent / name).exists(), name


def test_every_manifest_is_listed_by_a_kustomization() -> None:
    files = {path for path in KUBERNETES.rglob("*.yaml") if path.name != "kustomization.yaml"}
    texts = {path.parent: path.read_text("utf-8") for path in KUSTOMIZATIONS}
    assert [path.name for path in files if path.name not in texts[path.parent]] == []


@each("template", WORKLOADS.values())
def test_the_pods_run_commands_of_the_image_in_folders_that_they_may_write_to(template: Any) -> None:
    spec = template["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    for container in spec["containers"]:
        assert wrong_command(container["args"]) == ""
        assert container["image"] == "tms"
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounted == {environment_of_image()["DATA_DIR"], "/tmp"}
        assert container["securityContext"]["readOnlyRootFilesystem"]


@each("template", [WORKLOADS[name] for name in WORKLOADS.keys() - JOBS])
def test_prometheus_reaches_the_metrics_of_every_pod(template: Any) -> None:
    """The metrics of a host stand in its DATA_DIR, which no other pod sees: the API in the pod reads them. Beside
    another process it is as small as can be, and neither is judged by the other."""
    (api,) = [container for container in template["spec"]["containers"] if container["args"] == ["web"]]
    (port,) = api["ports"]
    others = [container for container in template["spec"]["containers"] if container is not api]
    for container in others:
        assert container["volumeMounts"] == api["volumeMounts"]
        assert container["livenessProbe"]["exec"]["command"][-2:] == ["--role", "background"]
        assert container["startupProbe"]["exec"] == container["livenessProbe"]["exec"]
    values = {item["name"]: item.get("value") for item in api["env"]}
    assert not others or (values["WEB_WORKERS"], values["WEB_THREADS"]) == ("1", "1")
    labels = template["metadata"]["labels"]
    (policy,) = [item["spec"] for item in manifests() if item.get("metadata", {}).get("name") == "tms-metrics"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": port["containerPort"]}]


@each("template", WORKLOADS.values())
def test_the_pods_refer_to_what_is_defined(template: Any) -> None:
    for container in template["spec"]["containers"]:
        assert {item["name"] for item in container["env"]} <= SETTINGS
        sources = [*container["envFrom"], *(item["valueFrom"] for item in container["env"] if "value" not in item)]
        for kind, reference in (pair for source in sources for pair in source.items()):
            assert reference["name"] in DEFINED[kind]


def test_every_selector_finds_pods() -> None:
    labels = [{**template["metadata"]["labels"], PART_OF: "tms"} for template in WORKLOADS.values()]
    chosen = [selector for item in manifests() for selector in selectors(item) if "cnpg.io/cluster" not in selector]
    assert len(chosen) > len(WORKLOADS)
    lost = [selector for selector in chosen if not any(selector.items() <= label.items() for label in labels)]
    assert lost == []


def test_the_settings_of_the_release_exist() -> None:
    names = {name for name, _ in ASSIGNMENT.findall((KUBERNETES / "release" / "settings.env").read_text("utf-8"))}
    assert names
    assert names <= SETTINGS


def test_a_policy_lets_clients_reach_each_port_of_a_service() -> None:
    """`tms-closed` shuts all of them."""
    kinds: dict[str, list[Any]] = {}
    for item in manifests():
        kinds.setdefault(item["kind"], []).append(item)
    ports = {port["name"]: port["containerPort"] for item in WORKLOADS.values() for port in ports_of(item)}
    opened = {
        (policy["spec"]["podSelector"]["matchLabels"].get(NAME), port["port"])
        for policy in kinds["NetworkPolicy"]
        for rule in policy["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    served = {
        (service["spec"]["selector"][NAME], ports[port["targetPort"]])
        for service in kinds["Service"]
        for port in service["spec"]["ports"]
        if service["spec"].get("clusterIP") != "None" and NAME in service["spec"].get("selector", {})
    }
    assert served
    assert served <= opened


def ports_of(template: Any) -> list[Any]:
    return [port for container in template["spec"]["containers"] for port in container.get("ports", [])]
