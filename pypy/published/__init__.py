"""The design published in 2018, rebuilt for comparison. Python 2, as RPython is."""
