"""What an application holds, plain and under pasture, of many servers."""
