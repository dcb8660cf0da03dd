"""What was measured, shown: a table, a JSON document, a page with plots, a progress bar.

Pure functions from a result to text, except for `progress` and `atomic`. No figure is
computed here that `pasture.trial.measurement` does not define.
"""
