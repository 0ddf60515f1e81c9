"""The service: what travels (packets, messages, streams), who may say it (keys), and who judges it."""
