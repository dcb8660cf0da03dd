"""Pages and template parts that belong to no single app: home, search, contact."""
