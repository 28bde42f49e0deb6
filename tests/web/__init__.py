"""The page: served with the package, used in a real browser."""
