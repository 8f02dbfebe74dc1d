"""JSON Schemas of the documents that the package writes."""
