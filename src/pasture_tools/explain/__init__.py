"""`pasture explain`: why pages of a worker are private; cause, object, field and writer.

The way of a page: `sources` says which processes are compared and what is known of
them; `difference` finds the words that differ from the parent's page; `classify` asks what lies
there: mappings (`regions`), pools and chunks (`allocated`, `allocator`), objects
(`object_words`, with `objects`, `fields`, `recognition` and `code_objects`); `tally` and
`touched` add up; `owners` says who holds an object, `writers` who wrote. `explain` joins them into
an `explanation`; `table`, `document` and `html` show it. docs/internals/explain.md is the design.
"""
