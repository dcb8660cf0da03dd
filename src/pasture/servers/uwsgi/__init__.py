"""uWSGI, sealed. Importing this package inside of uWSGI is the switch.

In an ini file `import = pasture.servers.uwsgi`, next to `master = true`. uWSGI forks in C, where
Python's fork hooks do not run, so the seal hangs on the C library's own (`hooks`) and the workers'
steps on uWSGI's post-fork hook (`worker`). Outside of uWSGI the import has no effect. docs/uwsgi.md
is the user's guide.
"""

try:
    import uwsgi as _uwsgi  # noqa: F401  exists inside of uWSGI only
except ImportError:
    pass
else:
    import pasture.servers.uwsgi.switch  # noqa: F401
