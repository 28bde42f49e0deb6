"""The database: engines, tables and one query module per noun."""
