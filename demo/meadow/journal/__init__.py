"""What is written about the market: articles, recipes, events."""
