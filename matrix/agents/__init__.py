"""`make agents`: agents, exporters and clients of production servers, started before the fork."""
