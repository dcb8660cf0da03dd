"""The applications of the experiments under load, and what is measured on them."""
