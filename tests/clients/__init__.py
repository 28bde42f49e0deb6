"""What other programs live on: the OpenAPI document, and clients that are made from it."""
