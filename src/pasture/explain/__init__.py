"""`pasture explain`: why pages of a worker are private; cause, object, field and writer.

The way of a page: `difference` finds the words that differ from the parent's page; `classify`,
with `allocator`, `regions` and `recognition`, says what lies there; `objects` and `fields` name
the object and the field; `owners` says who holds it, `writers` who wrote it. `explain` joins
them; `table`, `document` and `html` show the result. docs/internals/explain.md is the design.
"""
