"""The API's document against the service: requests that a machine made up, on the embedded fleet."""
