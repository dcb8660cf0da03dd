"""The results of the experiments, as a table, a document and a page."""
