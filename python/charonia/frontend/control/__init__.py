"""The control plane's face: HTTP routes and RPCs that are not inference, on an event loop of their own."""
