"""What comparisons over engines, agents, sites, packages, versions and builds share."""
