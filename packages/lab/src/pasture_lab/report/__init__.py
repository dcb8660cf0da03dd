"""What came of the experiments, as a table, a document and a page."""
