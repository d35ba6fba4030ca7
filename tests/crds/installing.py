import asyncio
from typing import Any

import pytest

from headroom import kube

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def install(api: kube.ApiServer, manifest: dict[str, Any]) -> None:
    spec = manifest["spec"]
    path = f"{DEFINITIONS}/{manifest['metadata']['name']}"
    await api.patch(path, manifest, kube.APPLY, {"fieldManager": "headroom-tests", "force": "true"})
    for _ in range(1200):
        try:
            await api.list(f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}")
        except kube.ApiError:
            await asyncio.sleep(0.1)
        else:
            return
    pytest.fail(f"the API server does not serve {spec['names']['plural']}")
