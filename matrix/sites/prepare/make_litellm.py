"""A proxy for models that answer with fixed words."""

import os
from pathlib import Path

Path("config.yaml").write_text(
    "\n".join(
        ["model_list:"]
        + [
            f"  - model_name: model-{n}\n    litellm_params:\n      model: openai/model-{n}\n"
            f"      api_key: none\n      mock_response: answer {n}"
            for n in range(20)
        ]
    )
    + "\n"
)
urls = ["/", "/health/liveliness", "/health/readiness", "/models", "/v1/models", "/openapi.json"]
urls += ["/routes", "/model/info", "/v1/model/info"] + [f"/v1/models/model-{n}" for n in range(20)]
Path("urls.txt").write_text("\n".join(urls) + "\n")
Path("headers.txt").write_text(f"Authorization: Bearer {os.environ['LITELLM_MASTER_KEY']}\n")
