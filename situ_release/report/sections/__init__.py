"""The chapters of the report, one module for each question that a reviewer asks."""
