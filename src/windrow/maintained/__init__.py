"""Results that are kept up to date: relations that change as rows come and go, span of time by span of time."""
