"""The season on the web: pages, the HTTP API, and who a request is from."""
