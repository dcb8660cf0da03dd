"""A home of Dagster's with its databases, whose tables would else be made by all at once."""

from pathlib import Path

Path("dagster.yaml").write_text("""\
telemetry:
  enabled: false
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
""")

from dagster import DagsterInstance  # noqa: E402

with DagsterInstance.get() as instance:
    instance.get_runs(limit=1)
    instance.all_asset_keys()
    instance.all_instigator_state()
