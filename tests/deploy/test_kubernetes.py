"""The manifests of `deploy/kubernetes` are what Kubernetes takes: they fit the schemas of its releases."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from tests.support.deployment import manifests

OLDEST = "1.29"
"""The oldest release of Kubernetes with `ReadWriteOncePod`."""
OTHERS = ("kustomize.config.k8s.io", "postgresql.cnpg.io", "redis.redis.opstreelabs.in")
"""What kustomize and the operators define: Kubernetes has no schema of it."""
OURS = [item for item in manifests() if item["apiVersion"].partition("/")[0] not in OTHERS]


@pytest.mark.parametrize("release", [OLDEST, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("item", OURS, ids=lambda item: f"{item['kind']}-{item['metadata']['name']}")
def test_a_manifest_fits_its_schema(item: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(item, release, strict=True)


def test_an_unknown_attribute_does_not_fit() -> None:
    wrong = {**OURS[0], "specs": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)
