"""Safe handling of files and text that other users may have made.

`private_files` writes, `foreign_files` reads, `records` decodes, `untrusted_text` shows.
"""
